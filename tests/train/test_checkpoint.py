from __future__ import annotations

import multiprocessing
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from sparing.errors import RunError
from sparing.train.checkpoint import (
    checkpoint_name,
    discard_after,
    find_checkpoint,
    list_checkpoints,
    prune_checkpoints,
    save_checkpoint,
)
from sparing.train.run_folder import RunFolder

STATE = {
    "sampler": {"seen": np.array([True, False]), "rates": np.array([0.25, np.nan]), "cursor": np.int64(3)},
    "position": {"step": 4, "history": [{"step": 2, "accuracy_P": [0.5, 1.0]}]},
    "updater": {"optimizer": {"state": {0: {"exp_avg": torch.ones(2, 3)}}, "param_groups": [{"betas": (0.9, 0.99)}]}},
}


def save(folder: RunFolder, step: int, seed: int = 0) -> None:
    save_checkpoint(folder, step, tiny.make_model(seed), tiny.make_tokenizer(), STATE, threads=1)


def steps(folder: RunFolder) -> list[int]:
    return [checkpoint.step for checkpoint in list_checkpoints(folder)]


def test_state_and_weights_come_back_as_they_were(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append("metrics", {"step": 1})
    save(folder, 4)
    (checkpoint,) = list_checkpoints(folder)
    assert checkpoint.path.name == "step-000004"
    assert checkpoint.row_sizes["metrics"] == len('{"step": 1}\n')
    state = checkpoint.load_state()
    np.testing.assert_array_equal(state["sampler"]["rates"], STATE["sampler"]["rates"])
    assert state["sampler"]["seen"].dtype == np.bool_
    assert state["sampler"]["cursor"] == 3
    assert state["position"] == STATE["position"]
    assert torch.equal(state["updater"]["optimizer"]["state"][0]["exp_avg"], torch.ones(2, 3))
    model = tiny.make_model(seed=1)
    parameter = next(model.parameters())
    checkpoint.load_weights(model)
    assert next(model.parameters()) is parameter  # In place: the optimizer keeps its hold of them.
    for one, other in zip(model.parameters(), tiny.make_model(seed=0).parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("harm", ["cut", "remove", "no manifest", "bad manifest"])
def test_a_damaged_checkpoint_does_not_count(tmp_path: Path, harm: str) -> None:
    folder = RunFolder(tmp_path)
    save(folder, 1)
    save(folder, 2)
    broken = folder.checkpoints / checkpoint_name(2)
    if harm == "cut":
        with (broken / "model.safetensors").open("r+b") as stream:
            stream.truncate(100)
    elif harm == "remove":
        (broken / "trainer.pt").unlink()
    elif harm == "no manifest":
        (broken / "checkpoint.json").unlink()
    else:
        (broken / "checkpoint.json").write_text('{"step": ')
    assert steps(folder) == [1]
    with pytest.raises(RunError, match="step-000002 is missing or damaged"):
        find_checkpoint(folder, 2)
    discard_after(folder, 1)
    assert [path.name for path in folder.checkpoints.iterdir()] == ["step-000001"]


def test_pruning_keeps_the_newest_and_the_protected(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in (1, 2, 3, 4, 5):
        save(folder, step)
    prune_checkpoints(folder, keep=2, protected={2})
    assert steps(folder) == [2, 4, 5]
    assert len(list(folder.checkpoints.iterdir())) == 3


def _save_with_little_room(path: Path, room: int, messages: Any) -> None:
    # Files of this process may grow to `room` bytes: the same kind of failure as a full disk, without needing one.
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    try:
        save(RunFolder(path), 2)
    except RunError as error:
        messages.put(str(error))
    else:
        messages.put("saved")


@pytest.mark.parametrize("room", [20_000, 90_000])
def test_without_room_the_error_says_so_and_the_earlier_checkpoint_is_whole(tmp_path: Path, room: int) -> None:
    """20 kB stop the weights (77 kB), 90 kB let them pass and stop trainer.pt, padded for that."""
    folder = RunFolder(tmp_path)
    save(folder, 1)
    STATE["padding"] = torch.zeros(50_000)
    context = multiprocessing.get_context("fork")
    messages = context.Queue()
    process = context.Process(target=_save_with_little_room, args=(tmp_path, room, messages))
    process.start()
    message = messages.get(timeout=60)
    process.join()
    del STATE["padding"]
    assert "step-000002 could not be written" in message
    assert "step-000001 is whole" in message
    assert "Make room" in message
    assert steps(folder) == [1]
    assert [path.name for path in folder.checkpoints.iterdir()] == ["step-000001"]
    save(folder, 2)
    assert steps(folder) == [1, 2]
