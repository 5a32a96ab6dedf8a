"""Fig. 4 and 5 of the paper: validation length and accuracy over the steps, with stages and rollbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sparing.report.markup import Markup, el, has, num, percent, short
from sparing.report.plot import Axis, band, dot, drawing, grid, line, nice_axis, panel, vertical, x_label, y_label
from sparing.report.records import Decision, Interval, Run, StageKey, Validation
from sparing.report.stages import StageSpan, shading


def timeline(run: Run, spans: Sequence[StageSpan], x: Axis) -> Markup:
    """Fig. 4 and 5 of the paper as two panels that share their steps: validation length above, accuracy below."""
    start = run.validations[0]
    lengths = [v for point in run.validations for v in (point.length, *point.length_interval)]
    accuracies = [v for point in run.validations for v in (point.accuracy, *point.accuracy_interval)]
    y_length = nice_axis(lengths, zero=True, num_ticks=5)
    y_accuracy = nice_axis(accuracies, most=1.0)
    shares = nice_axis([y_length.high / start.length], zero=True) if start.length else None
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
        text = f"{span.key.name}, loop {span.key.loop + 1}" if loops else span.key.name
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
    lost = run.lost
    kept = {(d.stage, d.chosen_step) for d in rolled_back}
    lows = [(float(v.step), interval(v)[0]) for v in points if (v.stage, v.step) not in lost]
    highs = [(float(v.step), interval(v)[1]) for v in points if (v.stage, v.step) not in lost]
    layers: list[Markup | None] = [*shading(spans, x)]
    layers += [grid(x, y), band(x, y, lows, highs, what)]
    layers += [vertical(x, d.stopped_at, "stop") for d in rolled_back]
    layers += _validation_lines(points, lost, x, y, what, value)
    for point in points:
        key = (point.stage, point.step)
        style = "hollow" if key in lost else "kept" if key in kept else ""
        title = _point_title(point, value(point), interval(point), style)
        layers.append(dot(x, y, (point.step, value(point)), f"{what} {style}".strip(), title))
    overlay = [_stop_label(x, decision, row) for row, decision in enumerate(rolled_back)]
    first, last = value(points[0]), value(run.kept_validations[-1])
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


def _stop_label(x: Axis, decision: Decision, row: int) -> Markup:
    """What the vertical line of a stop means; neighbours take turns in two lines so that they do not collide."""
    side = "mark before" if x.share(decision.stopped_at) > 0.7 else "mark"
    text = f"stopped {decision.stopped_at}, kept {decision.chosen_step}"
    return x_label(x, decision.stopped_at, text, f"{side} lower" if row % 2 else side)


def _validation_lines(
    points: Sequence[Validation],
    lost: frozenset[tuple[StageKey, int]],
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
