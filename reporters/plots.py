"""The plots of the page, drawn by matplotlib, as SVG elements that a strict content security policy lets through.

A page whose policy allows no inline style drops what matplotlib writes into ``style`` attributes, so these become
presentation attributes, and the colours become classes of the page's own style sheet: dark mode and print follow it. Text
stays text. The same values give the same bytes.
"""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from reporters.markdown import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.4
"""Inches; the page scales a plot to the room that there is."""
LABEL_CHARACTERS = 30
KEPT = 64
"""Plots of each kind that are remembered: a bundle that is rendered again, or verified, draws the same ones."""
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
# Colours that matplotlib is told, and the class of the page's style sheet that stands for each.
INK, SOFT, GRID = "#010101", "#020202", "#030303"
SERIES = ("#040404", "#050505", "#060606", "#070707", "#080808")
_CLASSES = {INK: "ink", SOFT: "soft", GRID: "grid"} | {colour: f"s{at}" for at, colour in enumerate(SERIES)}
_DROPPED = {"font", "font-family", "font-size", "font-weight", "font-style", "white-space", "stroke-linejoin"}
_ID = re.compile(r"url\(#([^)]+)\)")
_DIGITS = re.compile(r"(\d+\.\d)\d+")
"""A tenth of a point is finer than any screen."""


class Bar(NamedTuple):
    """One horizontal line of a plot: a value with its interval, by series."""

    label: str
    """Untrusted text."""
    values: tuple[float | None, ...]
    """One a series; None is not drawn."""
    intervals: tuple[tuple[float, float] | None, ...] = ()


def dots(name: str, rows: Sequence[Bar], series: Sequence[str], *, axis: str, low: float, high: float) -> str:
    """Values as dots with their intervals as lines, a row each, the first on top. ``name`` begins every id."""
    return _dots(name, tuple(rows), tuple(series), axis, low, high)


@lru_cache(KEPT)
def _dots(name: str, rows: tuple[Bar, ...], series: tuple[str, ...], axis: str, low: float, high: float) -> str:
    def draw(axes: Axes) -> None:
        count = len(series)
        for at, row in enumerate(rows):
            for number, value in enumerate(row.values):
                y = at + (number - (count - 1) / 2) * 0.22
                if number < len(row.intervals) and (interval := row.intervals[number]) is not None:
                    axes.plot(interval, (y, y), color=SERIES[number], linewidth=1.4, solid_capstyle="butt")
                if value is not None:
                    axes.plot(
                        [value], [y], marker="osD^v"[number], markersize=5, color=SERIES[number], linestyle="none"
                    )
        _rows(axes, [row.label for row in rows])
        axes.set_xlim(low, high)
        axes.set_xlabel(axis)
        if low < 0 < high:
            axes.axvline(0, color=SOFT, linewidth=0.8)
        _legend(axes, series)

    return _drawn(name, draw, rows=len(rows))


class Point(Protocol):
    """One run in a history."""

    @property
    def label(self) -> str:
        """Untrusted text."""

    @property
    def rate(self) -> float | None:
        """From 0 to 1; None is not drawn."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the rate."""


def trend(points: Sequence[Point]) -> str:
    """A skill's rate from run to run, the first on top, each with its interval."""
    rows = [Bar(point.label, (point.rate,), (point.interval,)) for point in points]
    return dots("trend", rows, ["cases passed"], axis="share of cases that passed", low=0.0, high=1.02)


def bars(name: str, rows: Sequence[Bar], series: Sequence[str], *, axis: str) -> str:
    """Amounts as horizontal bars from zero, a row each, the first on top."""
    return _bars(name, tuple(rows), tuple(series), axis)


@lru_cache(KEPT)
def _bars(name: str, rows: tuple[Bar, ...], series: tuple[str, ...], axis: str) -> str:
    def draw(axes: Axes) -> None:
        height = 0.7 / max(1, len(series))
        for number in range(len(series)):
            given = [(at, row.values[number]) for at, row in enumerate(rows)]
            places = [at + (number - (len(series) - 1) / 2) * height for at, value in given if value is not None]
            amounts = [value for _, value in given if value is not None]
            axes.barh(places, amounts, height=height * 0.9, color=SERIES[number], linewidth=0)
        _rows(axes, [row.label for row in rows])
        axes.set_xlim(left=0)
        axes.set_xlabel(axis)
        _legend(axes, series)

    return _drawn(name, draw, rows=len(rows))


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), [_label(text) for text in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _label(text: str) -> str:
    """One line of plain text; what would be invisible is shown, and nothing is taken for mathematics."""
    shown = " ".join(visible(text).split())
    cut = shown if len(shown) <= LABEL_CHARACTERS else f"…{shown[-LABEL_CHARACTERS + 1 :]}"
    return cut.replace("$", r"\$")


def _legend(axes: Axes, series: Sequence[str]) -> None:
    if len(series) < 2:
        return
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], marker="osD^v"[at], color=SERIES[at], linestyle="none", label=name)
        for at, name in enumerate(series)
    ]
    axes.legend(
        handles=keys, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(series), frameon=False, borderaxespad=0.2
    )


def _drawn(name: str, draw: Callable[[Axes], None], *, rows: int) -> str:
    from matplotlib.figure import Figure

    with _settings(name):
        figure = Figure(figsize=(WIDTH, 0.85 + 0.34 * max(1, rows)), layout="constrained")
        axes = figure.add_subplot()
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0)
        draw(axes)
        return _cleaned(name, _svg(figure))


@contextmanager
def _settings(name: str) -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": name,
            "svg.id": name,
            "font.family": "DejaVu Sans",
            "font.size": 9,
            "text.color": INK,
            "axes.labelcolor": SOFT,
            "axes.edgecolor": GRID,
            "axes.facecolor": "none",
            "figure.facecolor": "none",
            "xtick.labelcolor": SOFT,
            "ytick.labelcolor": INK,
            "path.simplify": False,
        }
    ):
        yield


def _svg(figure: Figure) -> ET.Element:
    file = io.StringIO()
    with warnings.catch_warnings():
        # The reader's browser has the fonts; here they only measure.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return ET.fromstring(file.getvalue())  # noqa: S314 - written by matplotlib, in which every text is escaped


def _cleaned(name: str, root: ET.Element) -> str:
    """The element without style attributes, with classes for colours and with ids that no other plot of the page has."""
    _slim(root)
    used = {match for element in root.iter() for value in element.attrib.values() for match in _ID.findall(value)}
    used |= {value[1:] for element in root.iter() if (value := element.get(f"{{{_XLINK}}}href", "")).startswith("#")}
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        _style(element)
        _names(name, element, used)
        for key in ("d", "x", "y", "width", "height", "transform", "viewBox"):
            if key in element.attrib:
                element.set(key, _DIGITS.sub(r"\1", element.attrib[key]))
    root.attrib.pop("width", None)
    root.attrib.pop("height", None)
    root.attrib.pop("version", None)
    root.set("class", "plot")
    root.set("aria-hidden", "true")  # the figures stand beside it as text
    return ET.tostring(root, encoding="unicode", short_empty_elements=True)


def _slim(element: ET.Element) -> None:
    """Without metadata, layout space, and groups and outlines that draw nothing."""
    element.tail = None
    if not (element.text or "").strip():
        element.text = None
    for child in list(element):
        _slim(child)
        empty = child.tag in (f"{{{_SVG}}}g", f"{{{_SVG}}}defs") and not len(child)
        invisible = child.tag == f"{{{_SVG}}}path" and child.get("style") == "fill: none" and child.get("id") is None
        if empty or invisible or child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
            element.remove(child)


def _style(element: ET.Element) -> None:
    declared = [part.split(":", 1) for part in element.attrib.pop("style", "").split(";") if ":" in part]
    properties = {key.strip(): value.strip() for key, value in declared}
    given = {key: element.attrib.pop(key) for key in ("fill", "stroke") if key in element.attrib}
    if element.tag == "text":
        anchor = properties.get("text-anchor")
        properties = {"fill": properties.get("fill", INK)} | ({"text-anchor": anchor} if anchor else {})
    classes = []
    for key, value in (given | properties).items():
        if key in ("fill", "stroke") and value in _CLASSES:
            classes.append(f"{key}-{_CLASSES[value]}")
        elif key not in _DROPPED:
            element.set(key, value)
    if classes:
        element.set("class", " ".join(classes))


def _names(name: str, element: ET.Element, used: set[str]) -> None:
    own = element.attrib.pop("id", "")
    if own in used:
        element.set("id", f"{name}-{own}")
    for key, value in list(element.attrib.items()):
        if key == f"{{{_XLINK}}}href":
            del element.attrib[key]
            element.set("href", f"#{name}-{value[1:]}")
        else:
            element.set(key, _ID.sub(lambda match: f"url(#{name}-{match[1]})", value))
