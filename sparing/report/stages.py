"""Where stages lie on the axis of steps, and what a rollback threw away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparing.report.markup import Markup
from sparing.report.plot import Axis, box
from sparing.report.records import Decision, Run, StageKey


@dataclass(frozen=True, kw_only=True, slots=True)
class StageSpan:
    """The steps of one stage, and how it ended where that is known."""

    key: StageKey
    first: int
    last: int
    decision: Decision | None


def stage_spans(run: Run) -> list[StageSpan]:
    """The stages that have begun, in order; each starts where the one before ended."""
    decisions = {decision.stage: decision for decision in run.decisions}
    last: dict[StageKey, int] = {}
    places = [(step.stage, step.step) for step in run.steps] + [(v.stage, v.step) for v in run.validations]
    for key, step in places:
        last[key] = max(last.get(key, 0), step)
    spans: list[StageSpan] = []
    first = 0
    for key in sorted(last, key=lambda key: (key.loop, key.index)):
        decision = decisions.get(key)
        end = decision.stopped_at if decision else last[key]
        if end > first or not spans:
            spans.append(StageSpan(key=key, first=first, last=end, decision=decision))
        first = max(first, end)
    return spans


def shading(spans: Sequence[StageSpan], x: Axis) -> list[Markup]:
    """The stages as areas, paler where a rollback threw the steps away."""
    layers = [box(x, span.first, span.last, f"stage {span.key.name}") for span in spans]
    lost = [span.decision for span in spans if span.decision and span.decision.rolled_back]
    return layers + [box(x, decision.chosen_step, decision.stopped_at, "discarded") for decision in lost]
