"""R33: links have a form that can resolve. Nothing is fetched."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote, urlsplit

from gate.domain.checks import ResponseLinks
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import RESPONSE, Answer, Facts
from gate.judging.ground_truth.literal import quoted
from gate.judging.ground_truth.markdown import anchors, links
from gate.judging.ground_truth.response_has_heading import headings
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
    there = links(place.text)
    names = anchors(headings(place.text)) if any(link.target.startswith("#") for link in there) else set()
    folder = "" if path == RESPONSE else posixpath.dirname(path)
    for link in there:
        problem = _problem(link.target, names, folder, parameters.hosts, facts)
        if problem:
            found = f"line {link.line} of {place.name}: {quoted(link.target)} {problem}"
            return Answer(CheckStatus.FAILED, expected, found, place.block)
    status = CheckStatus.PASSED if len(there) >= parameters.min else CheckStatus.FAILED
    return Answer(status, expected, f"{len(there)} links in {place.name}", place.block)


def _problem(target: str, names: set[str], folder: str, hosts: tuple[str, ...], facts: Facts) -> str | None:
    if not target:
        return "is empty"
    if _LEFT_OVER.search(target):
        return "holds a placeholder"
    try:
        parts = urlsplit(target)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        return "is no address"
    if parts.scheme in ("http", "https"):
        return _web_problem(parts.hostname, port_is_fine, hosts)
    if parts.scheme == "mailto":
        return None if re.fullmatch(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+", unquote(parts.path)) else "names no address"
    if parts.scheme or target.startswith("//"):
        return f"has the scheme {clip(parts.scheme, 20) or 'of whoever reads it'}, which leads nowhere here"
    if not parts.path:
        return None if unquote(parts.fragment).lower() in names else "leads to no heading of this text"
    try:
        found = facts.file(posixpath.normpath(posixpath.join(folder, unquote(parts.path))))
    except NotCheckableError:
        return "leads out of the workspace"
    return None if found is not None else "leads to a file that is not there"


def _web_problem(host: str | None, port_is_fine: bool, hosts: tuple[str, ...]) -> str | None:
    if not host or not port_is_fine:
        return "has no host"
    labels = host.split(".")
    is_address = ":" in host or host == "localhost"
    if not is_address and (len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels)):
        return "has no host that can exist"
    if hosts and not any(host == wanted.lower() or host.endswith(f".{wanted.lower()}") for wanted in hosts):
        return "leads to another host"
    return None
