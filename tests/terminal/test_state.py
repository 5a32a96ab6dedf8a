import json

import pytest

from sparing.recipe.load import load_recipe
from sparing.terminal.state import RunState


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def started(clock: Clock, *overrides: str, resumed_at: int | None = None) -> RunState:
    """Accuracy 20, compression 60, accuracy 20 unless overridden."""
    stages = [f"curriculum.stages.{index}.steps={steps}" for index, steps in enumerate((20, 60, 20))]
    config = load_recipe("lab", [*stages, *overrides])
    state = RunState(clock)
    state.start(config, sum(stage.steps for stage in config.curriculum.plan()), resumed_at)
    return state


def test_time_left_is_the_pace_times_the_planned_steps():
    clock = Clock()
    state = started(clock)
    state.start_stage(0)
    assert state.seconds_left is None
    for step in (1, 2):
        clock.now += 3.0
        state.observe_step({"step": step, "stage_index": 0, "length": 90.0}, {})
    # 98 steps left at 3 seconds each; a second later it is a second less.
    assert state.steps_left == 98
    assert state.seconds_left == pytest.approx(294.0)
    clock.now += 1.0
    assert state.seconds_left == pytest.approx(293.0)


def test_a_stage_that_stops_early_takes_its_steps_out_of_the_plan():
    clock = Clock()
    state = started(clock)
    for index, (first, last) in enumerate([(1, 20), (21, 40)]):
        state.start_stage(index)
        for step in range(first, last + 1):
            clock.now += 1.0
            state.observe_step({"step": step, "stage_index": index}, {})
    assert state.steps_left == 60  # 40 of compression and 20 of accuracy.
    state.start_stage(2)  # Compression stopped after 20 of its 60 steps.
    assert state.steps_left == 20
    assert state.share_done == pytest.approx(40 / 60)
    assert state.seconds_left == pytest.approx(20.0)


def test_validations_count_in_the_pace():
    clock = Clock()
    state = started(clock)
    state.start_stage(0)
    for step in range(1, 5):
        clock.now += 2.0 if step % 2 else 4.0  # Every second step waits for a validation of two seconds.
        state.observe_step({"step": step, "stage_index": 0}, {"seconds": 2.0})
    assert state.seconds_left == pytest.approx(96 * 3.0)


def test_what_precedes_the_first_step_is_not_in_the_pace():
    clock = Clock()
    state = started(clock)
    clock.now += 300.0
    state.start_stage(0)
    clock.now += 2.0
    state.observe_step({"step": 1, "stage_index": 0}, {"seconds": 2.0})
    assert state.seconds_left == pytest.approx(99 * 2.0)


def test_changes_are_against_the_base_model_on_the_same_problems():
    state = started(Clock())
    state.start_stage(0)
    for step, length in ((1, 100.0), (2, 40.0)):
        state.observe_step({"step": step, "stage_index": 0, "length": length, "tokens": 500}, {"seconds": 2.0})
    assert state.tokens_per_second == 250
    for step, length in ((0, 80.0), (10, 20.0)):
        state.observe_validation({"step": step, "accuracy": 0.9, "length": length})
    assert state.validation_change(state.validations[0]) is None
    assert state.validation_change(state.validations[1]) == pytest.approx(-0.75)


def test_a_resumed_run_takes_up_its_rows(tmp_path):
    rows = [{"step": step, "stage_index": int(step > 20), "length": 100.0 - step} for step in range(1, 31)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 31, "le')
    (tmp_path / "validation.jsonl").write_text(json.dumps({"step": 0, "accuracy": 0.8, "length": 100.0}) + "\n")
    state = started(Clock(), f"output={tmp_path}", resumed_at=25)
    state.start_stage(1)
    assert (state.steps_done, state.stage_step, state.steps_left) == (25, 5, 75)
    assert state.validation_change({"step": 30, "length": 50.0}) == pytest.approx(-0.5)
