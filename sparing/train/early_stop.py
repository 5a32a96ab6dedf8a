"""When a stage ends and on which weights: the pre-collapse rule of Sec. 3 put to use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparing.method.early_stopping import Decision, detect_pre_collapse
from sparing.seeding import derive_rng
from sparing.settings import PlannedStage, RunConfig
from sparing.train.trainer import Position


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEnd:
    """A stage is over: the step whose weights go on, and why."""

    chosen_step: int
    reason: str
    evidence: dict[str, Any] = field(default_factory=dict)


def decide(config: RunConfig, stage: PlannedStage, position: Position, *, last: bool) -> StageEnd | None:
    """Whether the stage ends with its newest validation; called after every validation of the stage.

    A compression stage ends before its last step where accuracy shows a sustained decline while length falls. At its last
    step there is no later validation to wait for: one validation that is significantly below its reference (the same test
    with patience 1 and its own, higher bar) tells a decline under way, and the stage goes back to before it began.
    Also moves `position.keep_from` up to the oldest step that a later decision can choose.
    """
    settings = config.early_stopping
    if stage.type == "accuracy" or not settings.enabled:
        position.keep_from = position.step
        reason = "all steps done" if stage.type == "accuracy" else "all steps done; early stopping is off"
        return StageEnd(chosen_step=position.step, reason=reason) if last else None

    points = position.points
    planned = -(-stage.steps // config.validation.every) + 1

    def detect(patience: int) -> Decision:
        return detect_pre_collapse(
            points,
            patience=patience,
            confidence=settings.confidence,
            tolerance=settings.tolerance,
            rng=derive_rng(config.seed, "early_stopping", position.step, patience),
            horizon=max(planned, len(points), patience + 1),
        )

    sustained, sudden = detect(settings.patience), detect(1)
    # References only move forward, and nothing before its reference is ever chosen.
    position.keep_from = min(_reference_step(decision, points[0].step) for decision in (sustained, sudden))
    if sustained.stop:
        return StageEnd(chosen_step=points[sustained.chosen].step, reason=sustained.reason, evidence=sustained.evidence)
    if not last:
        return None
    if sudden.stop:
        reason = f"all steps done, with a decline under way: {sudden.reason}"
        return StageEnd(chosen_step=points[sudden.chosen].step, reason=reason, evidence=sudden.evidence)
    reason = f"all steps done; {sustained.reason}"
    return StageEnd(chosen_step=position.step, reason=reason, evidence=sustained.evidence)


def _reference_step(decision: Decision, first: int) -> int:
    """The newest step of a decision's reference; the stage's first where there are too few validations for one."""
    steps = decision.evidence.get("reference_steps")
    return int(steps[-1]) if isinstance(steps, list) else first
