"""Stages with a decision put in place of the detector's, to go back on purpose; everything else is real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file

from sparing.train import stage as stage_module
from sparing.train.revalidate import revalidate


def rows(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"{name}.jsonl").read_text().splitlines()]


def curriculum(*stages: tuple[str, int]) -> dict[str, Any]:
    return {"stages": [{"type": name, "steps": steps} for name, steps in stages]}


@pytest.fixture
def goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "decide", tiny.go_back_from_second_validation)


@pytest.mark.usefixtures("goes_back")
def test_a_stopped_stage_hands_the_chosen_weights_to_the_next(base_model: Path, tmp_path: Path) -> None:
    stages = curriculum(("accuracy", 2), ("compression", 8), ("accuracy", 1))
    run = tiny.run_tiny(
        tiny.tiny_config(base_model, tmp_path / "run", curriculum=stages, checkpoint={"every": 1, "keep": 9})
    )
    assert [row["step"] for row in rows(run, "metrics")] == [1, 2, 3, 4, 5, 6, 7]
    assert [row["stage"][0] for row in rows(run, "metrics")] == ["a", "a", "c", "c", "c", "c", "a"]
    first, second, third = rows(run, "decisions")
    assert (first["stopped_at"], first["chosen_step"], first["rollback"]) == (2, 2, False)
    assert second == {
        "loop": 0,
        "stage_index": 1,
        "stage": "compression",
        "started_at": 2,
        "stopped_at": 6,
        "chosen_step": 4,
        "rollback": True,
        "steps_planned": 8,
        "reason": "on purpose",
        "evidence": {"bar": 1.0},
    }
    assert (third["started_at"], third["stopped_at"]) == (6, 7)
    weights = {step: load_file(run / f"checkpoints/step-{step:06d}/model.safetensors") for step in (4, 5, 6)}
    for name, weight in weights[4].items():
        assert torch.equal(weight, weights[6][name])
    assert any(not torch.equal(weight, weights[5][name]) for name, weight in weights[4].items())
    chosen = next(row for row in rows(run, "validation") if row["step"] == 4)
    stopped, start = (row for row in rows(run, "validation") if row["step"] == 6)
    assert (stopped["stage_index"], stopped["weights_step"]) == (1, 6)
    assert (start["stage_index"], start["stage"], start["weights_step"]) == (2, "accuracy", 4)
    assert start["problems"] == chosen["problems"]


@pytest.mark.usefixtures("goes_back")
@pytest.mark.parametrize("optimizer", ["carry", "reset"])
def test_optimizer_state_is_that_of_the_chosen_step_or_new(base_model: Path, tmp_path: Path, optimizer: str) -> None:
    stages = {**curriculum(("compression", 8), ("accuracy", 1)), "optimizer": optimizer}
    run = tiny.run_tiny(
        tiny.tiny_config(base_model, tmp_path / "run", curriculum=stages, checkpoint={"every": 1, "keep": 9})
    )
    states = {
        step: torch.load(run / f"checkpoints/step-{step:06d}/trainer.pt", weights_only=True) for step in (2, 3, 4)
    }
    updates = {step: state["updater"]["num_updates"] for step, state in states.items()}
    assert (updates[2], updates[3]) == (2, 3)
    if optimizer == "reset":
        assert updates[4] == 0
        assert not states[4]["updater"]["optimizer"]["state"]
    else:
        assert updates[4] == 2
        moments = [states[step]["updater"]["optimizer"]["state"] for step in (2, 4)]
        for parameter, moment in moments[0].items():
            assert torch.equal(moment["exp_avg"], moments[1][parameter]["exp_avg"])


@pytest.mark.usefixtures("goes_back")
def test_a_run_that_ends_by_going_back_ends_with_the_row_of_its_final_weights(base_model: Path, tmp_path: Path) -> None:
    run = tiny.run_tiny(tiny.tiny_config(base_model, tmp_path / "run", curriculum=curriculum(("compression", 8))))
    last = rows(run, "validation")[-1]
    assert (last["step"], last["stage"]) == (2, "compression")
    assert rows(run, "metrics")[-1]["step"] == 4
    assert revalidate(run).same


def test_checkpoints_beyond_the_newest_are_kept_only_as_long_as_a_stage_may_go_back_to_them(finished_run: Path) -> None:
    # The last stage is one of accuracy, so nothing but the two newest is left.
    assert sorted(path.name for path in (finished_run / "checkpoints").iterdir()) == ["step-000006", "step-000007"]
