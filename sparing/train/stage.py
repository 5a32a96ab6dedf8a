"""One stage of the curriculum: steps, validations, checkpoints, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence

from sparing.settings import PlannedStage
from sparing.train.early_stop import StageEnd, decide
from sparing.train.step import train_step
from sparing.train.trainer import Trainer
from sparing.train.validation import validate


def run_stage(trainer: Trainer, stages: Sequence[PlannedStage]) -> None:
    """Run the stage that the position points at, from wherever in it the position is, to its end.

    Everything that belongs to a step (row, validation, decision, change of stage) is done before its checkpoint is written,
    so a checkpoint is always the whole state between two steps.
    """
    config, position = trainer.config, trainer.position
    stage = stages[position.stage]
    trainer.progress.stage_started(stage.loop, stage.stage_index, stage.type, stage.steps)
    while True:
        step = position.step + 1
        row, timings = train_step(trainer, stage, step)
        trainer.folder.append("metrics", row)
        trainer.folder.append("timings", timings)
        trainer.progress.step(row, timings)
        position.step, position.stage_step = step, position.stage_step + 1

        last = position.stage_step == stage.steps
        validated = last or position.stage_step % config.validation.every == 0
        end = None
        if validated:
            validate(trainer, stage)
            end = decide(config, stage, position, last=last)
        if end is not None:
            _end_stage(trainer, stages, end)
        if validated or step % config.checkpoint.every == 0:
            trainer.save()
        if end is not None:
            return


def _end_stage(trainer: Trainer, stages: Sequence[PlannedStage], end: StageEnd) -> None:
    """Write the decision, go back to the chosen weights, and move the position to the start of the next stage."""
    position = trainer.position
    stage = stages[position.stage]
    following = stages[position.stage + 1] if position.stage + 1 < len(stages) else None
    decision = {
        "loop": stage.loop,
        "stage_index": stage.stage_index,
        "stage": stage.type,
        "started_at": position.stage_started_at,
        "stopped_at": position.step,
        "chosen_step": end.chosen_step,
        "rollback": end.chosen_step < position.step,
        "steps_planned": stage.steps,
        "reason": end.reason,
        "evidence": end.evidence,
    }
    trainer.folder.append("decisions", decision)
    trainer.progress.stage_ended(decision)
    chosen = next(one for one in reversed(position.history) if one["step"] == end.chosen_step)
    if decision["rollback"]:
        trainer.roll_back(end.chosen_step)
        _repeat_validation(trainer, stage, following, end.chosen_step)
    if following is not None and trainer.config.curriculum.optimizer == "reset":
        trainer.updater.reset()
    position.stage, position.stage_step, position.stage_started_at = position.stage + 1, 0, position.step
    position.keep_from = position.step
    # The next stage starts from the chosen weights, which this step's checkpoint holds under this step's number.
    position.history = [{**chosen, "step": position.step}]


def _repeat_validation(trainer: Trainer, stage: PlannedStage, following: PlannedStage | None, chosen_step: int) -> None:
    """Let the last row of validation.jsonl describe the weights gone back to.

    Equal weights and seed give equal figures, so the chosen step's row is repeated: as the starting point of the next
    stage, or, where there is none, under its own step.
    """
    rows = trainer.folder.rows("validation")
    row = next(row for row in reversed(rows) if row["step"] == chosen_step)
    if following is not None:
        place = {"loop": following.loop, "stage_index": following.stage_index, "stage": following.type}
        row = {**row, "step": trainer.position.step, **place}
    else:
        row = {**row, "loop": stage.loop, "stage_index": stage.stage_index, "stage": stage.type}
    trainer.folder.append("validation", row)
    trainer.progress.validation(row)
