"""Small panels of what happened in the training batches, and the data of the page's shared cursor."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparing.report.markup import Markup, el, short
from sparing.report.plot import Axis, Points, band, drawing, grid, line, nice_axis, panel, step_axis
from sparing.report.records import Run
from sparing.report.stages import StageSpan, shading

MOST_COLUMNS = 400  # a curve with more steps is drawn as bucket means inside their range


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One small panel: its title, what it means, and the metrics drawn in it."""

    name: str
    title: str
    meaning: str
    metrics: tuple[tuple[str, str], ...]
    share: bool = False
    validation: bool = False


CURVES = (
    Curve(
        name="length",
        title="Response length, tokens",
        meaning="training batch",
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
        meaning="pass rate 1, 0",
        metrics=(("mastered_share", "mastered"), ("unsolved_share", "unsolved")),
        share=True,
    ),
    Curve(
        name="penalty",
        title="Penalty fired",
        meaning="groups that lost reward to Eq. 1",
        metrics=(("penalty_fired_share", ""),),
        share=True,
    ),
    Curve(
        name="rho",
        title="Mixture rho achieved",
        meaning="groups drawn for compression",
        metrics=(("rho", ""),),
        share=True,
    ),
    Curve(name="entropy", title="Entropy", meaning="nats a token", metrics=(("entropy", ""),)),
    Curve(name="grad_norm", title="Gradient norm", meaning="before clipping", metrics=(("grad_norm", ""),)),
    Curve(
        name="truncated",
        title="Truncated",
        meaning="rollouts cut at the token limit",
        metrics=(("truncated_share", ""),),
        share=True,
    ),
    Curve(
        name="instant",
        title="Instant answers",
        meaning="wrong, hardly any thinking",
        metrics=(("instant_share", ""),),
        share=True,
        validation=True,
    ),
    Curve(
        name="unknown",
        title="Unknown verdicts",
        meaning="verifier timed out or crashed",
        metrics=(("unknown_share", ""),),
        share=True,
    ),
)


def training_curves(run: Run, spans: Sequence[StageSpan], x: Axis) -> Markup:
    """Small panels of what happened in the training batches; a metric without numbers gets none."""
    cells = []
    for curve in CURVES:
        series = [(label, _series(run, curve, metric)) for metric, label in curve.metrics]
        finite = [value for _, points in series for _, value in points if math.isfinite(value)]
        if not finite or (curve.name == "unknown" and not any(finite)):
            continue
        cells.append(_small_panel(curve, series, spans, x))
    return el("div", cells, class_="small-multiples")


def _series(run: Run, curve: Curve, metric: str) -> list[tuple[float, float]]:
    rows = run.validations if curve.validation else run.steps
    return [(float(row.step), row.values.get(metric, math.nan)) for row in rows]


def _small_panel(
    curve: Curve, series: list[tuple[str, list[tuple[float, float]]]], spans: Sequence[StageSpan], x: Axis
) -> Markup:
    values = [value for _, points in series for _, value in points]
    y = nice_axis(values, zero=True, most=1.0 if curve.share else None, num_ticks=2)
    layers: list[Markup | None] = [*shading(spans, x), grid(x, y)]
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
        panels[curve.name] = []
        for metric, label in curve.metrics:
            points = _series(run, curve, metric)
            panels[curve.name].append(_cursor_series(label, [int(x) for x, _ in points], [y for _, y in points]))
    text = json.dumps({"low": x.low, "high": x.high, "panels": panels}, separators=(",", ":")).replace("<", "\\u003c")
    return el("script", Markup(text), type="application/json", id="curves")


def _cursor_series(label: str, steps: list[int], values: list[float]) -> dict[str, object]:
    return {"label": label, "x": steps, "y": [float(f"{v:.4g}") if math.isfinite(v) else None for v in values]}
