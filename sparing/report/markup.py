"""HTML and SVG that is escaped by construction, and the number formats of the page."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from sparing.report.records import Interval

NBSP = "\u00a0"
DASH = "–"  # noqa: RUF001
MINUS = "−"  # noqa: RUF001
VOID = frozenset({"meta", "br", "link", "path", "rect", "line"})


class Markup(str):
    """Text that already is markup; every other string is escaped by `el`."""

    __slots__ = ()


Child = str | None | Iterable["Child"]


def el(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """One element; children that are not `Markup` are escaped, attributes always are.

    `class_` gives class, other underscores become hyphens; None and False leave an attribute out.

    >>> el("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    parts = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        parts.append(f" {attribute}" if value is True else f' {attribute}="{html.escape(str(value))}"')
    body = join(children)
    if name in VOID and not body:
        return Markup(f"<{name}{''.join(parts)}>" if name in ("meta", "br", "link") else f"<{name}{''.join(parts)}/>")
    return Markup(f"<{name}{''.join(parts)}>{body}</{name}>")


def join(children: Iterable[Child]) -> Markup:
    """Children one after the other, escaped where they are plain text."""
    out = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            out.append(str(child))
        elif isinstance(child, str):
            out.append(html.escape(child))
        else:
            out.append(str(join(child)))
    return Markup("".join(out))


def num(value: float, digits: int = 0) -> str:
    """A number with a true minus sign and grouped thousands; a dash for NaN."""
    if not math.isfinite(value):
        return DASH
    text = f"{abs(value):,.{digits}f}"
    return text if value >= 0 or not float(text.replace(",", "")) else MINUS + text


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign, `+0.020`; zero has none."""
    text = num(value, digits)
    return "+" + text if value > 0 and float(text.replace(",", "")) else text


def percent(share: float, *, sign: bool = False) -> str:
    """A share as a percentage, `71 %`; one decimal below ten."""
    if not math.isfinite(share):
        return DASH
    value = 100 * share
    digits = 0 if abs(value) >= 9.95 or value == 0 else 1
    return (signed(value, digits) if sign else num(value, digits)) + NBSP + "%"


def short(value: float) -> str:
    """A readable number of about three digits, for axes and readouts."""
    if not math.isfinite(value):
        return DASH
    size = abs(value)
    if size >= 100 or value == round(value):
        return num(value)
    if size >= 10:
        return num(value, 1)
    if size >= 0.001:
        return num(value, 3 if size < 1 else 2)
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}".replace("-", MINUS)


def has(interval: Interval) -> bool:
    """Whether both ends of the interval are known."""
    return math.isfinite(interval[0]) and math.isfinite(interval[1])


def duration(seconds: float) -> str:
    """Seconds in the unit a person would use."""
    if seconds < 90:
        return f"{num(seconds)} seconds"
    if seconds < 5400:
        return f"{num(seconds / 60)} minutes"
    return f"{num(seconds / 3600, 1)} hours"


def section(identity: str, title: str, *children: Child) -> Markup:
    """A part of the page under its own heading."""
    return el("section", el("h2", title, id=identity), *children, aria_labelledby=identity)


def table(head: Sequence[Child], rows: Iterable[Markup], caption: str, class_: str = "") -> Markup:
    """A table in a box that scrolls sideways by itself."""
    header = el("tr", [cell if isinstance(cell, Markup) else el("th", cell, scope="col") for cell in head])
    inner = el("table", el("thead", header), *rows, class_=class_ or None)
    box = el("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return el("figure", el("figcaption", caption), box)


def numeric_heads(*titles: str) -> list[Markup]:
    """Column heads above numbers."""
    return [el("th", title, scope="col", class_="num") for title in titles]
