from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tiny

from sparing.settings import PlannedStage, RunConfig
from sparing.train.early_stop import StageEnd, decide
from sparing.train.trainer import Position

COMPRESSION = PlannedStage(0, 1, "compression", 20)
ACCURACY = PlannedStage(0, 0, "accuracy", 20)


def config(**early_stopping: Any) -> RunConfig:
    return tiny.tiny_config(Path("model"), Path("run"), early_stopping=early_stopping)


def walk(
    accuracies: list[float], lengths: list[float], **early_stopping: Any
) -> tuple[Position, list[StageEnd | None]]:
    """Validations at steps 10, 12, ... of 40 problems with the given mean accuracies; the last one ends the stage."""
    rng = np.random.default_rng(0)
    position, ends = Position(step=10), []
    for index, (accuracy, length) in enumerate(zip(accuracies, lengths, strict=True)):
        position.step = 10 + 2 * index
        position.observe_validation(position.step, (rng.random((40, 8)) < accuracy).mean(axis=1).tolist(), length)
        if index:
            last = index == len(accuracies) - 1
            ends.append(decide(config(**early_stopping), COMPRESSION, position, last=last))
    return position, ends


def test_a_sustained_decline_while_length_falls_ends_the_stage_before_the_decline() -> None:
    _, ends = walk([0.9, 0.9, 0.9, 0.9, 0.4, 0.2], [100, 90, 80, 70, 40, 20])
    assert ends[:4] == [None] * 4
    assert ends[4] is not None
    assert ends[4].chosen_step == 16
    assert len(ends[4].evidence["accuracy"]) == 6


def test_a_steady_stage_runs_to_its_last_step_and_keeps_it() -> None:
    position, ends = walk([0.9] * 6, [100, 90, 80, 70, 60, 50])
    assert ends[:4] == [None] * 4
    assert ends[4] is not None
    assert ends[4].chosen_step == 20
    assert ends[4].reason.startswith("all steps done; no sustained decline")
    assert 10 <= position.keep_from <= 20


def test_a_decline_under_way_at_the_last_step_is_undone() -> None:
    _, ends = walk([0.9, 0.9, 0.9, 0.9, 0.93, 0.3], [100, 90, 80, 70, 60, 20])
    assert ends[4] is not None
    assert ends[4].chosen_step in (16, 18)  # Step 18 may look a little worse than step 16 by chance.
    assert ends[4].reason.startswith("all steps done, with a decline under way")


def test_checkpoints_before_the_reference_are_let_go() -> None:
    position, _ = walk([0.2, 0.4, 0.6, 0.8, 0.95, 0.99], [100, 90, 80, 70, 60, 50])
    assert position.keep_from >= 16


def test_switched_off_it_only_counts_steps() -> None:
    _, ends = walk([0.9, 0.9, 0.1, 0.1, 0.1], [100, 90, 80, 70, 60], enabled=False)
    assert ends[:3] == [None] * 3
    assert ends[3] is not None
    assert (ends[3].chosen_step, ends[3].reason) == (18, "all steps done; early stopping is off")


def test_an_accuracy_stage_never_stops_early() -> None:
    position = Position(step=4)
    for step, accuracy in ((0, 0.9), (2, 0.1), (4, 0.0)):
        position.observe_validation(step, [accuracy] * 4, 10 - step)
    assert decide(config(), ACCURACY, position, last=False) is None
    assert position.keep_from == 4
    assert decide(config(), ACCURACY, position, last=True) == StageEnd(chosen_step=4, reason="all steps done")
