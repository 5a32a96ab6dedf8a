"""Figures over the training steps: validation with its stages, and the smaller training curves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sparing.report.load import Decision, Interval, Run, StageKey, Validation
from sparing.report.markup import Markup, el, has, num, percent, short
from sparing.report.plot import (
    Axis,
    Points,
    band,
    box,
    dot,
    drawing,
    grid,
    line,
    nice_axis,
    panel,
    step_axis,
    vertical,
    x_label,
    y_label,
)

MOST_COLUMNS = 400  # a curve with more steps is drawn as bucket means inside their range


@dataclass(frozen=True, kw_only=True, slots=True)
class StageSpan:
    """The steps of one stage, and how it ended where that is known."""

    key: StageKey
    first: int
    last: int
    decision: Decision | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One small panel: its title, what it means, and the metrics drawn in it."""

    name: str
    title: str
    meaning: str
    metrics: tuple[tuple[str, str], ...]
    share: bool = False


CURVES = (
    Curve(
        name="length",
        title="Response length, tokens",
        meaning="training batch, at the training temperature",
        metrics=(("length", "all"), ("length_mastered", "mastered")),
    ),
    Curve(
        name="accuracy",
        title="Accuracy of the batch",
        meaning="training batch",
        metrics=(("accuracy", ""),),
        share=True,
    ),
    Curve(
        name="mastered",
        title="Mastered and unsolved",
        meaning="groups with pass rate 1 and 0",
        metrics=(("mastered_share", "mastered"), ("unsolved_share", "unsolved")),
        share=True,
    ),
    Curve(
        name="penalty",
        title="Penalty fired",
        meaning="groups where a rollout lost reward to Eq. 1",
        metrics=(("penalty_fired_share", ""),),
        share=True,
    ),
    Curve(
        name="rho",
        title="Mixture ρ achieved",
        meaning="share of the batch drawn for compression",
        metrics=(("rho", ""),),
        share=True,
    ),
    Curve(name="entropy", title="Entropy", meaning="nats a token", metrics=(("entropy", ""),)),
    Curve(name="grad_norm", title="Gradient norm", meaning="before clipping", metrics=(("grad_norm", ""),)),
    Curve(
        name="truncated",
        title="Truncated",
        meaning="rollouts that ran into the token limit",
        metrics=(("truncated_share", ""),),
        share=True,
    ),
    Curve(
        name="unknown",
        title="Unknown verdicts",
        meaning="verifier timed out or crashed",
        metrics=(("unknown_share", ""),),
        share=True,
    ),
)


def stage_spans(run: Run) -> list[StageSpan]:
    """The stages that have begun, in order; each starts where the one before ended."""
    decisions = {decision.stage: decision for decision in run.decisions}
    last: dict[StageKey, int] = {}
    for row in [*run.steps, *run.validations]:
        last[row.stage] = max(last.get(row.stage, 0), row.step)
    spans: list[StageSpan] = []
    first = 0
    for key in sorted(last, key=lambda key: (key.loop, key.index)):
        decision = decisions.get(key)
        end = decision.stopped_at if decision else last[key]
        if end > first or not spans:
            spans.append(StageSpan(key=key, first=first, last=end, decision=decision))
        first = max(first, end)
    return spans


def timeline(run: Run, spans: Sequence[StageSpan], x: Axis) -> Markup:
    """Fig. 4 and 5 of the paper as two panels that share their steps: validation length above, accuracy below."""
    start = run.validations[0]
    lengths = [v for point in run.validations for v in (point.length, *point.length_interval)]
    accuracies = [v for point in run.validations for v in (point.accuracy, *point.accuracy_interval)]
    y_length = nice_axis(lengths, zero=True)
    y_accuracy = nice_axis(accuracies, most=1.0)
    shares = nice_axis([y_length.low / start.length, y_length.high / start.length], zero=True) if start.length else None
    right = [
        y_label(y_length, tick * start.length, percent(tick))
        for tick in (shares.ticks if shares else ())
        if tick * start.length <= y_length.high
    ]
    length_panel = _validation_panel(
        run, spans, x, y_length, "length", lambda v: v.length, lambda v: v.length_interval, height=230, right=right
    )
    accuracy_panel = _validation_panel(
        run, spans, x, y_accuracy, "accuracy", lambda v: v.accuracy, lambda v: v.accuracy_interval, height=190, right=[]
    )
    return el(
        "div",
        el("div", el("div", _stage_labels(spans, x), class_="stages", aria_hidden="true"), class_="stage-row"),
        _panel_head("Validation response length, tokens", "right: relative to step 0", "validation-length", "length"),
        length_panel,
        _panel_head("Validation accuracy", f"avg@{num(_k(run))}", "validation-accuracy", "accuracy"),
        accuracy_panel,
        class_="timeline",
    )


def _k(run: Run) -> float:
    return run.validations[-1].values.get("k", math.nan)


def _panel_head(title: str, meaning: str, name: str, class_: str) -> Markup:
    return el(
        "p",
        el("b", title, class_=f"ink-{class_}"),
        el("span", meaning, class_="meaning"),
        el("output", data_for=name),
        class_="panel-head",
    )


def _stage_labels(spans: Sequence[StageSpan], x: Axis) -> list[Markup]:
    loops = len({span.key.loop for span in spans}) > 1
    labels = []
    for span in spans:
        left, right = x.share(span.first), x.share(span.last)
        text = f"{span.key.name} {span.key.loop + 1}" if loops else span.key.name
        labels.append(
            el(
                "span",
                text,
                class_=span.key.name,
                title=f"{text}: steps {span.first} to {span.last}",
                style=f"left:{100 * left:.2f}%;width:{100 * (right - left):.2f}%",
            )
        )
    return labels


def _validation_panel(
    run: Run,
    spans: Sequence[StageSpan],
    x: Axis,
    y: Axis,
    what: str,
    value: Callable[[Validation], float],
    interval: Callable[[Validation], Interval],
    *,
    height: int,
    right: list[Markup],
) -> Markup:
    points = run.validations
    rolled_back = [d for d in run.decisions if d.rolled_back]
    lost = {(v.stage, v.step) for d in rolled_back for v in points if v.stage == d.stage and v.step > d.chosen_step}
    kept = {(d.stage, d.chosen_step) for d in rolled_back}
    lows = [(float(v.step), interval(v)[0]) for v in points if (v.stage, v.step) not in lost]
    highs = [(float(v.step), interval(v)[1]) for v in points if (v.stage, v.step) not in lost]
    layers: list[Markup | None] = [box(x, s.first, s.last, f"stage {s.key.name}") for s in spans]
    layers += [grid(x, y), band(x, y, lows, highs, what)]
    layers += [vertical(x, d.stopped_at, "stop") for d in rolled_back]
    layers += _validation_lines(points, lost, x, y, what, value)
    for point in points:
        key = (point.stage, point.step)
        style = "hollow" if key in lost else "kept" if key in kept else ""
        title = _point_title(point, value(point), interval(point), style)
        layers.append(dot(x, y, (point.step, value(point)), f"{what} {style}".strip(), title))
    overlay = [x_label(x, d.stopped_at, f"stopped {d.stopped_at}, kept {d.chosen_step}", "mark") for d in rolled_back]
    first, last = value(points[0]), value(points[-1])
    description = (
        f"Validation {what} over {points[-1].step} steps, {len(points)} validations: "
        f"{short(first)} at step {points[0].step}, {short(last)} at step {points[-1].step}. The numbers are in the table below."
    )
    return panel(
        drawing(*layers),
        description=description,
        x=x,
        y=y,
        height=height,
        overlay=overlay if what == "length" else None,
        right=right,
        name=f"validation-{what}",
        show_x=what == "accuracy",
    )


def _validation_lines(
    points: Sequence[Validation],
    lost: set[tuple[StageKey, int]],
    x: Axis,
    y: Axis,
    what: str,
    value: Callable[[Validation], float],
) -> list[Markup | None]:
    """The kept way as one line; what a rollback threw away as a dashed branch from the kept point."""
    layers: list[Markup | None] = []
    way: list[tuple[float, float]] = []
    branch: list[tuple[float, float]] = []
    for point in points:
        at = (float(point.step), value(point))
        if (point.stage, point.step) in lost:
            branch = [*(branch or way[-1:]), at]
        else:
            layers.append(line(x, y, branch, f"{what} lost"))
            branch = []
            way.append(at)
    layers.append(line(x, y, branch, f"{what} lost"))
    layers.append(line(x, y, way, what))
    return layers


def _point_title(point: Validation, value: float, interval: Interval, style: str) -> str:
    span = f" (95 % interval {short(interval[0])} to {short(interval[1])})" if has(interval) else ""
    note = {"hollow": "; thrown away by the rollback", "kept": "; checkpoint kept"}.get(style, "")
    return f"step {point.step}: {short(value)}{span}{note}"


def training_curves(run: Run, spans: Sequence[StageSpan], x: Axis) -> Markup:
    """Small panels of what happened in the training batches; a metric without numbers gets none."""
    cells = []
    for curve in CURVES:
        series = [(label, _series(run, metric)) for metric, label in curve.metrics]
        finite = [value for _, points in series for _, value in points if math.isfinite(value)]
        if not finite or (curve.name == "unknown" and not any(finite)):
            continue
        cells.append(_small_panel(curve, series, spans, x))
    return el("div", cells, class_="small-multiples")


def _series(run: Run, metric: str) -> list[tuple[float, float]]:
    return [(float(step.step), step.values.get(metric, math.nan)) for step in run.steps]


def _small_panel(
    curve: Curve, series: list[tuple[str, list[tuple[float, float]]]], spans: Sequence[StageSpan], x: Axis
) -> Markup:
    values = [value for _, points in series for _, value in points]
    y = nice_axis(values, zero=True, most=1.0 if curve.share else None, num_ticks=2)
    layers: list[Markup | None] = [box(x, s.first, s.last, f"stage {s.key.name}") for s in spans] + [grid(x, y)]
    for index, (_, points) in enumerate(series):
        middle, low, high = bucketed(points)
        class_ = f"series-{index}"
        if low:
            layers.append(band(x, y, low, high, class_))
        layers.append(line(x, y, middle, class_))
    ends = ", ".join(f"{label} {short(points[-1][1])}".strip() for label, points in series)
    legend = [el("span", label, class_=f"key series-{i}") for i, (label, _) in enumerate(series) if label]
    return el(
        "div",
        el("p", el("b", curve.title), el("output", data_for=curve.name), class_="panel-head"),
        el("p", el("span", curve.meaning), *legend, class_="panel-note"),
        panel(
            drawing(*layers),
            description=f"{curve.title} ({curve.meaning}) over the steps; last: {ends}.",
            x=step_axis(int(x.low), int(x.high), num_ticks=4),
            y=y,
            height=96,
            name=curve.name,
        ),
    )


def bucketed(points: Points) -> tuple[Points, Points, Points]:
    """(means, lows, highs): long curves as bucket means with their range, short ones as they are and no range."""
    if len(points) <= MOST_COLUMNS:
        return points, [], []
    means, lows, highs = [], [], []
    for bucket in np.array_split(np.asarray(points, dtype=np.float64), MOST_COLUMNS):
        finite = bucket[np.isfinite(bucket[:, 1])]
        if len(finite):
            at = float(finite[:, 0].mean())
            means.append((at, float(finite[:, 1].mean())))
            lows.append((at, float(finite[:, 1].min())))
            highs.append((at, float(finite[:, 1].max())))
    return means, lows, highs


def cursor_data(run: Run, x: Axis) -> Markup:
    """The curves as JSON for the shared cursor. `<` is written as an escape, so no text can close the script."""
    panels: dict[str, list[dict[str, object]]] = {}
    if run.validations:
        steps = [point.step for point in run.validations]
        panels["validation-length"] = [_cursor_series("", steps, [v.length for v in run.validations])]
        panels["validation-accuracy"] = [_cursor_series("", steps, [v.accuracy for v in run.validations])]
    for curve in CURVES:
        panels[curve.name] = [
            _cursor_series(label, [s.step for s in run.steps], [s.values.get(metric, math.nan) for s in run.steps])
            for metric, label in curve.metrics
        ]
    text = json.dumps({"low": x.low, "high": x.high, "panels": panels}, separators=(",", ":")).replace("<", "\\u003c")
    return el("script", Markup(text), type="application/json", id="curves")


def _cursor_series(label: str, steps: list[int], values: list[float]) -> dict[str, object]:
    return {"label": label, "x": steps, "y": [float(f"{v:.4g}") if math.isfinite(v) else None for v in values]}
