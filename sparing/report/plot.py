"""Panels that stretch with the page: lines in a stretched SVG, every label in HTML so that it keeps its size.

An SVG that scales as a whole has unreadable labels on a phone. Here the drawing is stretched with
`preserveAspectRatio="none"` and constant stroke widths, and labels are placed by percentage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparing.report.markup import Child, Markup, el, join, num

SIZE = 1000  # both sides of every drawing; the page stretches it
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A linear axis from `low` to `high` with the values to label."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @property
    def texts(self) -> list[str]:
        """The labels of the ticks, with as many decimals as their distance needs."""
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else self.high - self.low
        digits = next((d for d in range(7) if abs(step * 10**d - round(step * 10**d)) < 1e-6), 7)
        return [num(tick, digits) for tick in self.ticks]

    def share(self, value: float) -> float:
        """Where the value lies on the axis, 0 at `low` and 1 at `high`."""
        return (value - self.low) / (self.high - self.low)


def nice_axis(values: Iterable[float], *, zero: bool = False, most: float | None = None, num_ticks: int = 4) -> Axis:
    """An axis with round ticks around the finite values; `zero` begins at 0, `most` bounds the upper end."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low < 1e-12:
        pad = abs(high) * 0.1 or 1.0
        low, high = (low if zero and low == 0 else low - pad), high + pad
    step = _nice_step((high - low) / num_ticks)
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    if most is not None:
        high = min(high, most)
    count = math.floor((high - low) / step + 1e-9)
    return Axis(low=low, high=high, ticks=tuple(round(low + step * i, 10) for i in range(count + 1)))


def step_axis(low: int, high: int, num_ticks: int = 8) -> Axis:
    """An axis over training steps that ends exactly at the last one."""
    high = max(high, low + 1)
    step = max(1, round(_nice_step((high - low) / num_ticks)))
    first = math.ceil(low / step) * step
    return Axis(low=low, high=high, ticks=tuple(float(tick) for tick in range(first, high + 1, step)))


def _nice_step(rough: float) -> float:
    magnitude: float = 10.0 ** math.floor(math.log10(rough))
    return next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough * (1 - 1e-9))


def coordinates(x: Axis, y: Axis, points: Points) -> list[tuple[str, str]]:
    """Drawing coordinates as text; values beyond the axes are held at the edge."""
    return [(_at(x.share(px)), _at(1 - y.share(py))) for px, py in points]


def _at(share: float) -> str:
    return f"{SIZE * min(max(share, 0.0), 1.0):.1f}".removesuffix(".0")


def line(x: Axis, y: Axis, points: Points, class_: str) -> Markup | None:
    """A polyline; points that are not finite leave a gap."""
    path: list[str] = []
    pen_down = False
    for point in points:
        if not (math.isfinite(point[0]) and math.isfinite(point[1])):
            pen_down = False
            continue
        px, py = coordinates(x, y, [point])[0]
        path.append(f"{'L' if pen_down else 'M'}{px} {py}")
        pen_down = True
    return el("path", d="".join(path), class_=f"line {class_}") if path else None


def band(x: Axis, y: Axis, lows: Points, highs: Points, class_: str) -> Markup | None:
    """The area between two curves, where both are finite."""
    pairs = [
        (low, high) for low, high in zip(lows, highs, strict=True) if math.isfinite(low[1]) and math.isfinite(high[1])
    ]
    if not pairs:
        return None
    outline = coordinates(x, y, [high for _, high in pairs] + [low for low, _ in reversed(pairs)])
    return el("path", d="M" + "L".join(f"{px} {py}" for px, py in outline) + "Z", class_=f"band {class_}")


def dot(x: Axis, y: Axis, point: tuple[float, float], class_: str, title: str = "") -> Markup | None:
    """A round mark: a zero-length stroke with round caps stays round however the drawing is stretched."""
    if not math.isfinite(point[1]):
        return None
    px, py = coordinates(x, y, [point])[0]
    path = f"M{px} {py}h0.01"
    marks = [el("path", d=path, class_=f"dot {class_}")]
    if "hollow" in class_ or "kept" in class_:
        marks.append(el("path", d=path, class_=f"dot {class_} inside"))
    return el("g", el("title", title) if title else None, *marks)


def box(x: Axis, low: float, high: float, class_: str) -> Markup:
    """A full-height area from `low` to `high`, such as a stage."""
    left, right = _at(x.share(low)), _at(x.share(high))
    return el("rect", x=left, y=0, width=f"{float(right) - float(left):.1f}", height=SIZE, class_=class_)


def vertical(x: Axis, value: float, class_: str) -> Markup:
    """A line from top to bottom."""
    return el("path", d=f"M{_at(x.share(value))} 0V{SIZE}", class_=f"line {class_}")


def horizontal(y: Axis, value: float, class_: str) -> Markup:
    """A line from left to right."""
    return el("path", d=f"M0 {_at(1 - y.share(value))}H{SIZE}", class_=f"line {class_}")


def drawing(*layers: Child) -> Markup:
    """The stretched SVG of a panel."""
    return el("svg", *layers, viewBox=f"0 0 {SIZE} {SIZE}", preserveAspectRatio="none", aria_hidden="true")


def x_label(x: Axis, value: float, text: str, class_: str = "") -> Markup:
    """A label centred under its value."""
    return el("span", text, class_=class_ or None, style=f"left:{100 * x.share(value):.2f}%")


def y_label(y: Axis, value: float, text: str) -> Markup:
    """A label beside its value."""
    return el("span", text, style=f"top:{100 * (1 - y.share(value)):.2f}%")


def panel(
    drawn: Markup,
    *,
    description: str,
    x: Axis,
    y: Axis,
    height: int,
    overlay: Child = None,
    right: Child = None,
    name: str | None = None,
    show_x: bool = True,
) -> Markup:
    """A drawing with its axes. `name` links it to the page's shared cursor, `right` holds labels of a right axis."""
    labels = [y_label(y, tick, text) for tick, text in zip(y.ticks, y.texts, strict=True)]
    area = el("div", drawn, overlay, class_="area", data_panel=name)
    ticks = [x_label(x, tick, num(tick), "alt" if i % 2 else "") for i, tick in enumerate(x.ticks)]
    return el(
        "div",
        el("div", labels, class_="y", aria_hidden="true"),
        area,
        el("div", right, class_="y right", aria_hidden="true") if right is not None else None,
        el("div", ticks, class_="x", aria_hidden="true") if show_x else None,
        class_="plot" + (" has-right" if right is not None else ""),
        role="img",
        aria_label=description,
        style=f"--h:{height}px",
    )


def grid(x: Axis, y: Axis) -> Markup:
    """Horizontal lines at the ticks."""
    return join(horizontal(y, tick, "grid") for tick in y.ticks)
