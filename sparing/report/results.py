"""Base against final: the figure of changes with their intervals, and the tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from sparing.report.markup import DASH, Markup, el, has, num, percent, signed, table
from sparing.report.plot import Axis, dot, drawing, nice_axis, vertical, x_label
from sparing.report.records import Comparison, EvalProblem, Interval, Run
from sparing.report.words import accuracy_fell, accuracy_rose, delta_interval, is_longer, is_shorter, length_interval

MAX_TIER_ROWS = 30


def in_order(domains: Sequence[Comparison]) -> list[Comparison]:
    """Trained domains first, then by name."""
    return sorted(domains, key=lambda domain: (not domain.trained, domain.name))


def change_figure(run: Run) -> Markup:
    """Change in length and in accuracy with 95 % intervals, one row a domain and, where there is room, a tier."""
    domains = in_order(run.domains)
    with_tiers = sum(len(domain.rows) for domain in domains) <= MAX_TIER_ROWS
    rows = [(row, i > 0) for domain in domains for i, row in enumerate(domain.rows if with_tiers else (domain,))]
    changes = [v - 1 for row, _ in rows for v in (row.relative_length, *row.relative_interval)]
    deltas = [v for row, _ in rows for v in (row.delta_accuracy, *row.delta_interval)]
    x_length, x_delta = nice_axis([*changes, 0.0]), nice_axis([*deltas, 0.0])
    lines = [
        el(
            "div",
            el(
                "span",
                row.label,
                el("span", "trained", class_="tag") if row.trained and not tier else None,
                class_="name",
            ),
            _interval_cell(
                x_length, row.relative_length - 1, _shift(row.relative_interval), "length", "length", percent
            ),
            _interval_cell(x_delta, row.delta_accuracy, row.delta_interval, "accuracy", "accuracy", signed),
            class_="forest-row tier" if tier else "forest-row",
        )
        for row, tier in rows
    ]
    axes = el(
        "div",
        el("span"),
        _axis_labels(x_length, lambda tick: percent(tick, sign=True)),
        _axis_labels(x_delta, lambda tick: signed(tick, 2)),
        class_="forest-row axis",
        aria_hidden="true",
    )
    head = el(
        "div",
        el("span"),
        el("b", "Response length", class_="ink-length"),
        el("b", "Accuracy", class_="ink-accuracy"),
        class_="forest-row head",
    )
    return el("div", head, lines, axes, class_="forest")


def _shift(interval: Interval) -> Interval:
    return interval[0] - 1, interval[1] - 1


def _axis_labels(x: Axis, text: Callable[[float], str]) -> Markup:
    """Tick labels; narrow pages keep those of the ends and of no change."""
    kept = (x.ticks[0], 0.0, x.ticks[-1])
    return el(
        "div", [x_label(x, tick, text(tick), "" if tick in kept else "alt") for tick in x.ticks], class_="x alone"
    )


def _interval_cell(
    x: Axis, value: float, interval: Interval, class_: str, what: str, text: Callable[[float], str]
) -> Markup:
    unit = Axis(low=0, high=1, ticks=())
    layers: list[Markup | None] = [vertical(x, tick, "grid") for tick in x.ticks]
    layers.append(vertical(x, 0.0, "zero"))
    span = ""
    if has(interval):
        left, right = (f"{1000 * x.share(end):.1f}" for end in interval)
        layers.append(el("path", d=f"M{left} 500H{right}", class_=f"whisker {class_}"))
        span = f", 95 % interval {text(interval[0])} to {text(interval[1])}"
    description = f"{what} change {text(value)}{span}"
    if math.isfinite(value):
        layers.append(dot(x, unit, (value, 0.5), class_, description))
    return el("div", drawing(*layers), class_="area", role="img", aria_label=description)


def results_table(run: Run) -> Markup:
    """Every domain and tier with its numbers."""
    head = [
        "Domain",
        *(el("th", text, scope="col", class_="num") for text in ("Accuracy, base", "final", "change", "95 % interval")),
        *(el("th", text, scope="col", class_="num") for text in ("Tokens, base", "final", "change", "95 % interval")),
        *(el("th", text, scope="col", class_="num") for text in ("shortest known", "excess removed")),
    ]
    bodies = []
    for label, trained in (("Trained on", True), ("Unseen in training", False)):
        domains = [domain for domain in in_order(run.domains) if domain.trained is trained]
        if domains:
            rows = [_result_row(row, i > 0) for domain in domains for i, row in enumerate(domain.rows)]
            bodies.append(el("tbody", el("tr", el("th", label, colspan=11, scope="rowgroup"), class_="group"), rows))
    caption = "Base against final on the test problems. Accuracy in [0, 1], lengths in tokens."
    return table(head, bodies, caption, "results")


def _result_row(row: Comparison, tier: bool) -> Markup:
    length_class = "better" if is_shorter(row) else "worse" if is_longer(row) else "same"
    accuracy_class = "worse" if accuracy_fell(row) else "better" if accuracy_rose(row) else "same"
    cells = [
        (num(row.base_accuracy, 3), ""),
        (num(row.final_accuracy, 3), ""),
        (signed(row.delta_accuracy), accuracy_class),
        (delta_interval(row) or DASH, "interval"),
        (num(row.base_length, 1), ""),
        (num(row.final_length, 1), ""),
        (percent(row.relative_length - 1, sign=True), length_class),
        (length_interval(row) or DASH, "interval"),
        (num(row.shortest_length, 1), ""),
        (percent(row.excess_removed), ""),
    ]
    return el(
        "tr",
        el("th", row.label, scope="row"),
        [el("td", text, class_=f"num {class_}".strip()) for text, class_ in cells],
        class_="tier" if tier else None,
    )


def easy_against_hard(run: Run) -> str:
    """A sentence on how much each tier was shortened, over the domains that have both; empty without tiers."""
    tiers: dict[str, list[float]] = {}
    for domain in run.domains:
        if len(domain.tiers) > 1:
            for tier in domain.tiers:
                tiers.setdefault(tier.name, []).append(tier.relative_length)
    if len(tiers) < 2:
        return ""
    parts = [f"{name} {percent(float(np.mean(values)) - 1, sign=True)}" for name, values in tiers.items()]
    return (
        f"Mean change in length by tier, over the domains that have tiers: {', '.join(parts)}. The gate penalises only what "
        "is mastered, so easy problems are expected to be shortened more."
    )


def breakdown_table(run: Run) -> Markup | None:
    """Where the length went: on correct responses, on problems both solve, at the cap, inside the thinking block."""
    if not run.pairs:
        return None
    head = [
        "Domain",
        *(
            el("th", text, scope="col", class_="num")
            for text in (
                "tokens, correct responses",
                "tokens, both always correct",
                "of problems",
                "shortest",
                "longest",
                "cut at the limit",
                "accuracy, uncut",
                "thinking share",
                "hedges",
            )
        ),
    ]
    names = [domain.name for domain in in_order(run.domains)] or sorted({p.domain for p in run.base})
    rows = []
    for name in names:
        pairs = [pair for pair in run.pairs if pair[0].domain == name]
        if pairs:
            rows.append(_breakdown_row(name, pairs))
    caption = "Where the length went, base → final. The limit on tokens is the same for both."
    return table(head, [el("tbody", rows)], caption)


def _breakdown_row(name: str, pairs: Sequence[tuple[EvalProblem, EvalProblem]]) -> Markup:
    both = [pair for pair in pairs if pair[0].accuracy == pair[1].accuracy == 1]
    sides = [[pair[i] for pair in pairs] for i in (0, 1)]
    solved = [[pair[i] for pair in both] for i in (0, 1)]
    cells = [
        _change([_mean(_lengths(side, correct_only=True)) for side in sides], lambda v: num(v, 1)),
        _change([_mean(_lengths(side)) for side in solved], lambda v: num(v, 1)),
        f"{len(both)} of {len(pairs)}",
        _change([min(_lengths(side), default=math.nan) for side in sides], num),
        _change([max(_lengths(side), default=math.nan) for side in sides], num),
        _change([_mean([cut for p in side for cut in p.truncated]) for side in sides], percent),
        _change([_uncut_accuracy(side) for side in sides], lambda v: num(v, 3)),
        _change([sum(p.thinking_chars for p in side) / max(sum(p.chars for p in side), 1) for side in sides], percent),
        _change(
            [1000 * sum(p.hedges for p in side) / max(sum(_lengths(side)), 1) for side in sides], lambda v: num(v, 1)
        ),
    ]
    return el("tr", el("th", name, scope="row"), [el("td", text, class_="num") for text in cells])


def _change(values: Sequence[float], text: Callable[[float], str]) -> str:
    return " → ".join(text(value) for value in values)


def _lengths(problems: Sequence[EvalProblem], correct_only: bool = False) -> list[float]:
    return [
        float(length)
        for problem in problems
        for length, outcome in zip(problem.lengths, problem.outcomes, strict=False)
        if outcome == "correct" or not correct_only
    ]


def _uncut_accuracy(problems: Sequence[EvalProblem]) -> float:
    return _mean(
        [
            outcome == "correct"
            for problem in problems
            for outcome, cut in zip(problem.outcomes, problem.truncated, strict=False)
            if not cut
        ]
    )


def _mean(values: Sequence[float | bool]) -> float:
    return float(np.mean(values)) if values else math.nan
