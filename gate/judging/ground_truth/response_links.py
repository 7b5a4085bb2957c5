"""R33: links have a form that can resolve. Nothing is fetched."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote, urlsplit

from gate.domain.checks import ResponseLinks
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import RESPONSE, Answer, Facts
from gate.judging.ground_truth.literal import quoted
from gate.judging.ground_truth.markdown import Link, anchors, links
from gate.judging.ground_truth.response_has_heading import headings_of
from gate.judging.ground_truth.values import NotCheckableError, clip, computed

_LABEL = re.compile(r"[^\W_](?:[\w-]{0,61}[^\W_])?")
_LEFT_OVER = re.compile(r"[{}<>]|%7[BbDd]|\$\(")


def evaluate(parameters: ResponseLinks, facts: Facts) -> Answer:
    """Links in code are none. A text with fewer than ``min`` links fails."""
    path = computed(parameters.path, facts.record.run_date)
    hosts = f" to {clip(', '.join(parameters.hosts))}" if parameters.hosts else ""
    where = "the response" if path == RESPONSE else clip(path)
    expected = f"at least {parameters.min} links{hosts} in {where}, each of a form that resolves"
    place = facts.text_of(path)
    there = facts.remembered(("links", path), lambda: _judged(place.text, path, facts))
    allowed = tuple(host.lower() for host in parameters.hosts)
    for link, problem, host in there:
        wrong = problem or _foreign(host, allowed)
        if wrong:
            found = f"line {link.line} of {place.name}: {quoted(link.target)} {wrong}"
            return Answer(CheckStatus.FAILED, expected, found, place.block)
    status = CheckStatus.PASSED if len(there) >= parameters.min else CheckStatus.FAILED
    return Answer(status, expected, f"{len(there)} links in {place.name}", place.block)


def _judged(text: str, path: str, facts: Facts) -> list[tuple[Link, str | None, str | None]]:
    """Each link with what is wrong with its form, and its host where it is a web address; read once a run."""
    there = links(text)
    names = anchors(headings_of(facts, path)) if any(link.target.startswith("#") for link in there) else set()
    folder = "" if path == RESPONSE else posixpath.dirname(path)
    return [(link, *_form(link.target, names, folder, facts)) for link in there]


def _foreign(host: str | None, allowed: tuple[str, ...]) -> str | None:
    if not allowed or host is None or any(host == one or host.endswith(f".{one}") for one in allowed):
        return None
    return "leads to another host"


def _form(target: str, names: set[str], folder: str, facts: Facts) -> tuple[str | None, str | None]:
    """What is wrong with an address, as a clause, or None; and its host, or None."""
    if not target:
        return "is empty", None
    if _LEFT_OVER.search(target):
        return "holds a placeholder", None
    try:
        parts = urlsplit(target)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is no address", None
    if parts.scheme in ("http", "https"):
        return _host_problem(host, port), host
    if parts.scheme == "mailto":
        is_address = re.fullmatch(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+", unquote(parts.path)) is not None
        return None if is_address else "names no address", None
    if parts.scheme or target.startswith("//"):
        scheme = clip(parts.scheme, 20) or "of whoever reads it"
        return f"has the scheme {scheme}, which leads nowhere here", None
    if not parts.path:
        leads = unquote(parts.fragment).lower() in names
        return None if leads else "leads to no heading of this text", None
    try:
        found = facts.file(posixpath.normpath(posixpath.join(folder, unquote(parts.path))))
    except NotCheckableError:
        return "leads out of the workspace", None
    return None if found is not None else "leads to a file that is not there", None


def _host_problem(host: str | None, port: int | None) -> str | None:
    if not host or port == 0:
        return "has no host"
    labels = host.split(".")
    is_address = ":" in host or host == "localhost"
    if not is_address and (len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels)):
        return "has no host that can exist"
    return None
