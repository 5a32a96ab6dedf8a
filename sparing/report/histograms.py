"""Length histograms, base above final, one small panel a domain on a common axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparing.report.markup import Markup, el, num, percent
from sparing.report.plot import SIZE, Axis, drawing, nice_axis, vertical, x_label
from sparing.report.records import EvalProblem, Run
from sparing.report.words import plural

MAX_BINS = 36


def histograms(run: Run) -> Markup | None:
    """Small multiples of the response lengths of base and final, or None before the base is evaluated."""
    lengths = [length for problem in (*run.base, *run.final) for length in problem.lengths]
    if not lengths:
        return None
    axis = nice_axis([0.0, float(np.quantile(lengths, 0.995))], zero=True, num_ticks=5)
    width = axis.ticks[1] - axis.ticks[0]
    per_tick = max(1, MAX_BINS // (len(axis.ticks) - 1))
    edges = np.linspace(axis.low, axis.high, (len(axis.ticks) - 1) * per_tick + 1)
    names = list(dict.fromkeys(problem.domain for problem in run.base))
    beyond = sum(length > axis.high for length in lengths)
    cells = [_cell(run, name, axis, edges) for name in sorted(names, key=lambda name: (not _trained(run, name), name))]
    note = f" The last bar counts {plural(beyond, 'longer response')} too." if beyond else ""
    bin_width = width / per_tick
    return el(
        "div",
        el(
            "p",
            el("span", "base, correct", class_="key fill-base"),
            el("span", "final, correct", class_="key fill-final"),
            el("span", "not correct", class_="key fill-wrong"),
            el("span", "median", class_="key tick"),
            f"Bars are {num(bin_width, 0 if bin_width == round(bin_width) else 1)} tokens wide and show counts of "
            f"responses, each panel scaled to its own highest bar; the length axis is the same in all.{note}",
            class_="legend",
        ),
        el("div", cells, class_="small-multiples hists"),
    )


def _trained(run: Run, name: str) -> bool:
    return any(domain.name == name and domain.trained for domain in run.domains)


def _cell(run: Run, name: str, axis: Axis, edges: np.ndarray) -> Markup:
    sides = [("base", [p for p in run.base if p.domain == name]), ("final", [p for p in run.final if p.domain == name])]
    sides = [(label, problems) for label, problems in sides if problems]
    counts = [_counts(problems, edges) for _, problems in sides]
    top = max(int((correct + wrong).max()) for correct, wrong in counts)
    rows = [
        _row(label, problems, pair, top, axis, edges) for (label, problems), pair in zip(sides, counts, strict=True)
    ]
    ticks = [x_label(axis, tick, num(tick), "alt" if i % 2 else "") for i, tick in enumerate(axis.ticks)]
    title = el(
        "p", el("b", name), el("span", "trained", class_="tag") if _trained(run, name) else None, class_="panel-head"
    )
    return el("div", title, rows, el("div", ticks, class_="x alone", aria_hidden="true"))


def _counts(problems: Sequence[EvalProblem], edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(correct, not correct) counts a bin; what lies beyond the last edge is counted in the last bin."""
    lengths = np.array([length for p in problems for length in p.lengths], dtype=np.float64)
    correct = np.array([outcome == "correct" for p in problems for outcome in p.outcomes], dtype=bool)
    lengths, correct = np.minimum(lengths[: len(correct)], edges[-1]), correct[: len(lengths)]
    return np.histogram(lengths[correct], edges)[0], np.histogram(lengths[~correct], edges)[0]


def _row(
    label: str,
    problems: Sequence[EvalProblem],
    counts: tuple[np.ndarray, np.ndarray],
    top: int,
    axis: Axis,
    edges: np.ndarray,
) -> Markup:
    lengths = [length for p in problems for length in p.lengths]
    median = float(np.median(lengths))
    right, wrong = counts
    bars = [
        _bar(low, high, int(good), int(bad), top, axis, label)
        for low, high, good, bad in zip(edges, edges[1:], right, wrong, strict=False)
        if good + bad
    ]
    share = float(right.sum() / max(right.sum() + wrong.sum(), 1))
    description = f"{label}: {len(lengths)} responses, median {num(median)} tokens, {percent(share)} correct"
    return el(
        "div",
        el("p", el("span", label), f"median {num(median)}", class_="hist-label"),
        el("div", drawing(*bars, vertical(axis, median, "median")), class_="area", role="img", aria_label=description),
        class_="hist",
    )


def _bar(low: float, high: float, good: int, bad: int, top: int, axis: Axis, label: str) -> Markup:
    left, width = SIZE * axis.share(low), SIZE * axis.share(high) - SIZE * axis.share(low)
    bad_height, good_height = 940 * bad / top, 940 * good / top
    title = f"{num(low)} to {num(high)} tokens: {good} correct, {bad} not correct"
    pieces = [
        (SIZE - bad_height, bad_height, "fill-wrong"),
        (SIZE - bad_height - good_height, good_height, f"fill-{label}"),
    ]
    rects = [
        el(
            "rect",
            x=f"{left + 0.06 * width:.1f}",
            y=f"{y:.1f}",
            width=f"{0.88 * width:.1f}",
            height=f"{height:.1f}",
            class_=class_,
        )
        for y, height, class_ in pieces
        if height
    ]
    return el("g", el("title", title), *rects)
