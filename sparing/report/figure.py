"""One figure of a finished run as a standalone SVG, for a README or a talk: lengths before and after, by domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from sparing.errors import RunError
from sparing.report.load import load_run
from sparing.report.markup import Markup, el, join, num, percent, signed
from sparing.report.records import Comparison

_WIDTH, _ROW, _TOP, _LEFT, _RIGHT = 900, 34, 64, 190, 260
_INK, _SOFT, _RULE, _BASE, _FINAL = "#1d2126", "#565d66", "#dcd9d3", "#868d96", "#c65102"
_FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


def write_figure(run_folder: Path, output: Path) -> Path:
    """Write the figure to `output`.

    Raises:
        RunError: the run has no summary, so there is no base and final to compare.
    """
    run = load_run(run_folder)
    if not run.domains:
        raise RunError(f"{run_folder} has no summary.json with test domains; finish the run before drawing its figure")
    output.write_text(_figure(run.domains), encoding="utf-8")
    return output


def _figure(rows: tuple[Comparison, ...]) -> Markup:
    height = _TOP + _ROW * len(rows) + 44
    longest = max(row.base_length for row in rows) * 1.04
    scale = (_WIDTH - _LEFT - _RIGHT) / longest

    def x(tokens: float) -> float:
        return round(_LEFT + tokens * scale, 1)

    lines = [_axis(tokens, x(tokens), height) for tokens in _ticks(longest)]
    drawn = [_row(row, _TOP + _ROW * (index + 0.5), x) for index, row in enumerate(rows)]
    described = "; ".join(f"{row.name} {num(row.base_length)} to {num(row.final_length)} tokens" for row in rows)
    return el(
        "svg",
        el("title", f"Response length before and after training: {described}"),
        el("rect", width=_WIDTH, height=height, fill="#fdfcfa"),
        _text(_LEFT, 24, "mean response length in tokens", _INK, size=13),
        _legend(_LEFT + 230, 24),
        _text(_WIDTH - 20, 24, "length, accuracy [95 %]", _INK, size=13, anchor="end"),
        join(lines),
        join(drawn),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        font_family=_FONT,
    )


def _legend(x: float, y: float) -> Markup:
    return join(
        [
            el("circle", cx=x, cy=y - 4, r=6, fill=_BASE),
            _text(x + 11, y, "before", _SOFT, size=13),
            el("circle", cx=x + 72, cy=y - 4, r=6, fill=_FINAL),
            _text(x + 83, y, "after", _SOFT, size=13),
            el("line", x1=x + 132, x2=x + 132, y1=y - 12, y2=y + 4, stroke=_INK, stroke_width=2),
            _text(x + 140, y, "teacher's shortest", _SOFT, size=13),
        ]
    )


def _row(row: Comparison, y: float, at: Callable[[float], float]) -> Markup:
    name = f"{row.name} (trained)" if row.trained else row.name
    low, high = row.delta_interval
    change = f"{signed(row.delta_accuracy, 2)} [{signed(low, 2)}, {signed(high, 2)}]"
    parts = [
        _text(_LEFT - 14, y + 5, name, _INK, anchor="end", bold=row.trained),
        el("line", x1=at(row.final_length), x2=at(row.base_length), y1=y, y2=y, stroke=_RULE, stroke_width=6),
        el("circle", cx=at(row.base_length), cy=y, r=6, fill=_BASE),
        el("circle", cx=at(row.final_length), cy=y, r=6, fill=_FINAL),
        _text(_WIDTH - 178, y + 5, percent(row.relative_length - 1, sign=True), _FINAL, anchor="end", bold=True),
        _text(_WIDTH - 20, y + 5, change, _INK, anchor="end", size=13),
    ]
    if math.isfinite(row.shortest_length):
        parts.append(
            el(
                "line",
                x1=at(row.shortest_length),
                x2=at(row.shortest_length),
                y1=y - 10,
                y2=y + 10,
                stroke=_INK,
                stroke_width=2,
            )
        )
    return join(parts)


def _ticks(longest: float) -> list[int]:
    step = next(step for step in (10, 20, 25, 50, 100, 200, 500, 1000, 2000, 5000, 10**9) if longest / step <= 6)
    return list(range(0, int(longest) + 1, step))


def _axis(tokens: int, x: float, height: int) -> Markup:
    line = el("line", x1=x, x2=x, y1=_TOP - 8, y2=height - 32, stroke=_RULE, stroke_width=1)
    return join([line, _text(x, height - 14, num(tokens), _SOFT, size=12, anchor="middle")])


def _text(
    x: float, y: float, text: str, fill: str, *, size: int = 14, anchor: str = "start", bold: bool = False
) -> Markup:
    weight = "600" if bold else None
    return el("text", text, x=x, y=y, fill=fill, font_size=size, text_anchor=anchor, font_weight=weight)
