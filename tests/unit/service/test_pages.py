from __future__ import annotations

import http.client
import json
import re
import shutil
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from gate.evidence.pack import pack
from gate.service.bundles import FolderBundles
from gate.service.evidence_view import Shelf
from gate.service.pages import Pages, page_routes, visible
from gate.service.store import Asked, BundleRow, JobState, Store, Trigger, open_store
from reporters.plots import trend
from tests.asgi import served
from tests.axe import axe, violations
from tests.pipeline.action_stage import stage
from tests.webdriver import Browser, browser

HOSTILE = '<script src="//evil.example/x.js"></script>"\'&\u202egpj.exe\x1b[31m'
SKILL = "skills/sums"
NEEDS_BROWSER = pytest.mark.skipif(
    shutil.which("chromedriver") is None or shutil.which("chromium") is None, reason="no Chromium with its driver here"
)


class Clock:
    def __init__(self) -> None:
        self.at = 1_790_000_000.0

    def __call__(self) -> float:
        self.at += 1
        return self.at


@dataclass
class Site:
    """A service's pages with a history behind them."""

    url: str
    store: Store
    pages: Pages
    secrets: dict[str, str]
    jobs: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle as a session leaves it."""
    folder = tmp_path_factory.mktemp("session")
    with stage(folder, policy="mode: quick\n") as here:
        done = here.run(given={"comment": "never", "status": "false"})
        assert done.code == 0, done.text
        return here.bundle.rename(folder / "sealed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, sealed: Path) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    store = open_store(f"sqlite:///{folder / 'x.sqlite'}", Clock())
    bundles = FolderBundles(folder / "bundles")
    pages = Pages(store, bundles.get, Shelf(folder / "open"), trend, lambda size: "ab" * size)
    _, all_of = store.add_token("operator", ["*"], may_write=True)
    _, of_acme = store.add_token("acme's own", ["acme/skills"], may_write=False)
    _, over = store.add_token("over", ["*"], may_write=True, expires=1.0)
    with served(Starlette(routes=page_routes(pages))) as url:
        here = Site(url, store, pages, {"all": all_of, "acme": of_acme, "over": over})
        for number in range(3):
            here.jobs[f"done-{number}"] = _done(store, bundles, sealed, f"{number}" * 40)
        here.jobs["other"] = _taken(store, "other/secret", "e" * 40)
        here.jobs["failed"] = _taken(store, "acme/skills", "f" * 40)
        store.begin(here.jobs["failed"], "w")
        store.finish(here.jobs["failed"], JobState.FAILED, reason=HOSTILE)
        here.jobs["live"] = _taken(store, "acme/skills", "a" * 40)
        store.begin(here.jobs["live"], "w")
        store.note(here.jobs["live"], shards=4)
        store.part_done(here.jobs["live"], 0, {})
        store.say(here.jobs["live"], "step", "planning")
        store.say(here.jobs["live"], "line", HOSTILE)
        yield here
    store.close()


def _taken(store: Store, repository: str, head: str) -> str:
    job = store.take(
        Asked(
            repository,
            len(repository),
            f"{repository}:{head}",
            Trigger.WEBHOOK,
            "pull_request",
            head_sha=head,
            number=sum(map(ord, head)),  # another pull request each: a newer event ends the older jobs of one
        )
    ).job
    assert job is not None
    return job


def _done(store: Store, bundles: FolderBundles, sealed: Path, head: str) -> str:
    job = _taken(store, "acme/skills", head)
    store.begin(job, "w")
    kept = bundles.put(job, pack(sealed))
    store.keep_bundle(BundleRow(job, job, kept.sha256, kept.size, 1_790_000_000.0))
    verdicts = {SKILL: "conditional", f"skills/{HOSTILE}": "fail"}
    store.finish(
        job, JobState.DONE, gate_state="success", headline=f"success: {HOSTILE}", verdicts=verdicts, cost_usd=0.12
    )
    return job


@dataclass
class Reply:
    code: int
    headers: Mapping[str, str]
    text: str


def ask(site: Site, path: str, secret: str = "", method: str = "GET", body: str = "", **headers: str) -> Reply:
    """One request with a session's cookie."""
    connection = http.client.HTTPConnection(site.url.removeprefix("http://"), timeout=30)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if secret:
        given["Cookie"] = f"skill-gate={site.secrets.get(secret, secret)}"
    try:
        connection.request(method, path, body.encode(), given)
        answer = connection.getresponse()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode())
    finally:
        connection.close()


def _all(site: Site) -> list[str]:
    done = site.jobs["done-0"]
    run = re.search(r'href="(/runs/\w+/evidence/run\?[^"]+)"', ask(site, f"/runs/{done}/evidence", "all").text)
    assert run is not None
    return [
        "/runs", f"/runs/{done}", f"/runs/{site.jobs['live']}", f"/runs/{site.jobs['failed']}", "/skills",
        f"/history?repository=acme%2Fskills&skill={urllib.parse.quote(SKILL, safe='')}",
        f"/runs/{done}/evidence", run[1].replace("&amp;", "&"), f"/runs/{done}/evidence/file?path=report.json",
    ]  # fmt: skip


def test_whoever_is_not_signed_in_sees_the_form_and_nothing_else(site: Site) -> None:
    for path in [*_all(site), "/", f"/runs/{site.jobs['done-0']}/report"]:
        for secret in ("", "sgt_wrong", site.secrets["over"]):
            answer = ask(site, path, secret)
            assert answer.code == 303, path
            assert "acme" not in answer.text
    assert ask(site, f"/runs/{site.jobs['live']}/events").code == 401
    assert ask(site, f"/runs/{site.jobs['live']}/cancel", method="POST").code == 303
    job = site.store.job(site.jobs["live"])
    assert job is not None
    assert not job.cancelling


def test_signing_in_takes_a_token_that_holds_and_gives_a_cookie_that_scripts_and_other_sites_cannot_use(
    site: Site,
) -> None:
    for wrong in ("", "sgt_wrong", site.secrets["over"], "é\x00" * 3):
        answer = ask(site, "/login", method="POST", body=f"token={urllib.parse.quote(wrong)}")
        assert answer.code == 401
        assert "set-cookie" not in answer.headers
        assert 'role="alert"' in answer.text
    answer = ask(site, "/login", method="POST", body=f"token={site.secrets['acme']}")
    assert (answer.code, answer.headers["location"]) == (303, "/runs")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "Path=/" in cookie
    left = ask(site, "/logout", "acme", method="POST")
    assert 'skill-gate=""' in left.headers["set-cookie"]


def test_over_https_the_cookie_is_for_this_host_alone(site: Site) -> None:
    secure = Pages(site.store, site.pages.bundle, site.pages.shelf, trend, lambda size: "ab" * size, secure=True)
    with served(Starlette(routes=page_routes(secure))) as url:
        there = Site(url, site.store, secure, site.secrets)
        answer = ask(there, "/login", method="POST", body=f"token={site.secrets['acme']}")
        assert answer.headers["set-cookie"].startswith("__Host-skill-gate=")
        assert "Secure" in answer.headers["set-cookie"]
        assert ask(there, "/runs", "acme").code == 303  # the cookie of another name is none


def test_another_site_cannot_send_a_form_of_ours(site: Site) -> None:
    foreign = [{"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "https://evil.example"}]
    for headers in foreign:
        assert ask(site, f"/runs/{site.jobs['live']}/cancel", "all", method="POST", **headers).code == 404
        assert ask(site, "/login", method="POST", body=f"token={site.secrets['all']}", **headers).code == 401
        assert ask(site, "/logout", "all", method="POST", **headers).code == 404
    job = site.store.job(site.jobs["live"])
    assert job is not None
    assert not job.cancelling


def test_a_token_sees_its_own_repositories_only(site: Site) -> None:
    assert "other/secret" in ask(site, "/runs", "all").text
    assert "other/secret" not in ask(site, "/runs", "acme").text
    assert "other/secret" not in ask(site, "/skills", "acme").text
    other = site.jobs["other"]
    for path in (
        f"/runs/{other}", f"/runs/{other}/evidence", f"/runs/{other}/report", "/runs?repository=other/secret",
        "/history?repository=other/secret&skill=x", "/runs/nothing", "/runs?state=nonsense", "/runs?before=x",
        f"/runs/{other}/events",
    ):  # fmt: skip
        answer = ask(site, path, "acme")
        assert answer.code == 404, path
        assert "other/secret" not in answer.text


def test_a_token_that_may_read_ends_nothing(site: Site) -> None:
    path = f"/runs/{site.jobs['live']}"
    assert "End this run" not in ask(site, path, "acme").text
    assert ask(site, f"{path}/cancel", "acme", method="POST").code == 403
    assert "End this run" in ask(site, path, "all").text


def test_every_page_lets_a_browser_load_nothing_but_our_own_files(site: Site) -> None:
    for path in [*_all(site), "/login"]:
        answer = ask(site, path, "all")
        assert answer.code == 200, path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "<style" not in answer.text
        assert " style=" not in answer.text
        assert set(re.findall(r"<script[^>]*>", answer.text)) <= {
            f'<script src="/assets/live.js" nonce="{"ab" * 16}" defer>'
        }
        assert 'evil.example/x.js"' not in answer.text
        assert not re.search(r'(?:src|href|action)="(?:[a-z]+:)?//', answer.text)
        assert "\u202e" not in answer.text
        assert "\x1b" not in answer.text


def test_the_reports_own_page_can_do_nothing_in_the_name_of_whoever_looks(site: Site) -> None:
    answer = ask(site, f"/runs/{site.jobs['done-0']}/report", "acme")
    assert answer.code == 200
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts;")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    assert "<h1>" in answer.text


@pytest.mark.parametrize(
    "path", ["../../x.sqlite", "/etc/passwd", "", "manifest.json/..", "skills", "nothing.json", "\x00"]
)
def test_no_file_outside_of_the_bundle_is_shown(site: Site, path: str) -> None:
    quoted = urllib.parse.quote(path, safe="")
    assert ask(site, f"/runs/{site.jobs['done-0']}/evidence/file?path={quoted}", "all").code == 404
    assert ask(site, f"/runs/{site.jobs['done-0']}/evidence/run?folder={quoted}", "all").code == 404
    assert ask(site, "/assets/..%2Fruns.html.j2", "all").code == 404


def test_a_verdicts_quote_leads_to_the_line_of_the_record(site: Site) -> None:
    page = ask(site, _all(site)[7], "acme").text
    (anchor,) = set(re.findall(r'<a href="#(B\d+-\d+)">', page))
    assert f'<li id="{anchor}" class="cited"><span>It has the part Sums.</span></li>' in page


def test_a_bundle_that_was_changed_where_it_lies_is_not_shown(site: Site, tmp_path: Path, sealed: Path) -> None:
    def changed(key: str) -> Iterator[bytes]:
        data = bytearray(b"".join(site.pages.bundle(key)))
        data[-1] ^= 1
        yield bytes(data)

    spoilt = Pages(site.store, changed, Shelf(tmp_path / "open"), trend, lambda size: "ab" * size)
    with served(Starlette(routes=page_routes(spoilt))) as url:
        there = Site(url, site.store, spoilt, site.secrets)
        answer = ask(there, f"/runs/{site.jobs['done-0']}/evidence", "all")
    assert answer.code == 502
    assert "not what the bundle" in answer.text
    del sealed


def test_only_so_many_bundles_lie_unpacked(sealed: Path, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "open", most=2)
    for key in ("a", "b", "a", "c"):
        assert shelf.open(key, lambda: pack(sealed)).skills()[0].path == SKILL
    assert sorted(path.name for path in (tmp_path / "open").iterdir()) == ["a", "c"]
    for key in ("../x", "", "A"):
        with pytest.raises(LookupError):
            shelf.open(key, lambda: pack(sealed))


def test_history_has_the_figures_of_each_run_and_a_plot_of_them(site: Site) -> None:
    page = ask(site, _all(site)[5], "acme").text
    assert page.count("1 of 1") == 3
    assert page.count("<svg") == 1
    assert 'class="plot"' in page


def test_lists_are_cut_into_pages_that_lead_on(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'x.sqlite'}", Clock())
    pages = Pages(store, lambda key: iter(()), Shelf(tmp_path / "open"), trend, lambda size: "ab" * size)
    _, secret = store.add_token("x", ["*"], may_write=False)
    for number in range(60):
        _taken(store, "acme/skills", f"{number:040d}")
    with served(Starlette(routes=page_routes(pages))) as url:
        there = Site(url, store, pages, {"all": secret})
        first = ask(there, "/runs?repository=acme/skills", "all").text
        (older,) = re.findall(r'href="([^"]+)" rel="next"', first)
        second = ask(there, older.replace("&amp;", "&"), "all").text
        wide = ask(there, "/runs?state=done", "all").text
    rows = [re.findall(r'scope="row"><a href="/runs/(\w+)"', page) for page in (first, second)]
    assert [len(row) for row in rows] == [50, 10]
    assert not set(rows[0]) & set(rows[1])
    assert 'rel="next"' not in second
    assert "No run is here that fits the filter" in wide
    store.close()


def test_what_cannot_be_seen_is_shown_by_its_code() -> None:
    assert visible("a\u202eb\x1b\u200bc\nd\té数") == "a<U+202E>b<U+001B><U+200B>c\nd\té数"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def _sign_in(window: Browser, site: Site) -> None:
    window.open(f"{site.url}/login")
    window.run("document.getElementById('token').value = arguments[0]", site.secrets["all"])
    window.click("main button")
    # A click may return before the next page is there: what is done to this one would be lost with it.
    there = "return location.pathname !== '/login' && document.readyState === 'complete'"
    for _ in range(400):
        if window.run(there):
            return
        time.sleep(0.05)
    raise AssertionError("nobody was signed in")


_WRONG = """
const seen = performance.getEntriesByType('resource').map(one => one.name);
return {
  foreign: seen.filter(name => !name.startsWith(location.origin)),
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  at: location.pathname,
};
"""


@pytest.mark.browser
@NEEDS_BROWSER
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_work_for_everybody_on_every_screen_and_ask_for_nothing_elsewhere(
    site: Site, window: Browser, width: int
) -> None:
    script = axe()
    window.resize(width, 900)
    window.open(f"{site.url}/login")
    assert violations(window, script) == []
    _sign_in(window, site)
    for path in _all(site):
        window.open(site.url + path)
        found: dict[str, Any] = window.run(_WRONG)
        assert found["at"] == path.partition("?")[0]
        assert found["foreign"] == []
        assert found["wide"] <= 0, path
        assert violations(window, script) == [], path


@pytest.mark.browser
@NEEDS_BROWSER
def test_axe_finds_what_is_wrong(site: Site, window: Browser) -> None:
    _sign_in(window, site)
    window.run("document.documentElement.removeAttribute('lang'); document.querySelector('label').remove()")
    rules = {one["rule"] for one in violations(window, axe())}
    assert {"html-has-lang", "select-name"} <= rules


@pytest.mark.browser
@NEEDS_BROWSER
def test_a_run_under_way_grows_on_the_page_and_ends_on_it(site: Site, window: Browser) -> None:
    job = _taken(site.store, "acme/skills", "9" * 40)
    site.store.begin(job, "w")
    window.resize(1280, 900)
    _sign_in(window, site)
    window.open(f"{site.url}/runs/{job}")
    site.store.say(job, "line", f"judging {HOSTILE}")
    site.store.note(job, shards=2)
    site.store.part_done(job, 0, {})
    wait = """
    const end = Date.now() + 20000;
    return new Promise(done => { const look = () => {
      if (Date.now() > end || (%s)) done(document.body.innerText); else setTimeout(look, 50); }; look(); });
    """
    text = window.run(wait % "document.getElementById('log')?.innerText.includes('judging')")
    assert "judging <script src=" in text
    assert "1 of 2" in text
    site.store.finish(job, JobState.DONE, gate_state="success", headline="success: all is well")
    deadline = 100
    while deadline and "all is well" not in window.run("return document.body.innerText"):
        window.run("return new Promise(done => setTimeout(done, 100))")
        deadline -= 1
    assert deadline
    assert window.run("return document.scripts.length") == 0
    assert json.loads(ask(site, f"/runs/{job}/events?after=0", "all").text)["ended"] is True
