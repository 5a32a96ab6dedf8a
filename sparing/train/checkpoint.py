"""Checkpoints: the whole trainer state in one folder that either exists completely or not at all.

A checkpoint is written under a temporary name beside its final one, forced to disk file by file, and then renamed. It holds
the model in Hugging Face format, `trainer.pt` (optimizer, sampler, position in the curriculum) and `checkpoint.json`
(step, sizes of its files and of the run folder's row files).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from sparing.errors import RunError
from sparing.rollout.model import save_model
from sparing.train.run_folder import TEMPORARY, RunFolder, fsync_path

MANIFEST = "checkpoint.json"
STATE = "trainer.pt"


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A complete checkpoint on disk; `row_sizes` are the bytes of the row files when it was made."""

    path: Path
    step: int
    threads: int
    row_sizes: Mapping[str, int]

    def load_state(self) -> dict[str, Any]:
        """The trainer state, on the CPU."""
        state = torch.load(self.path / STATE, map_location="cpu", weights_only=True)
        decoded: dict[str, Any] = _decode(state)
        return decoded

    def load_weights(self, model: Any) -> None:
        """Put the checkpoint's weights into a model that is already in memory, in place."""
        loaded = type(model).from_pretrained(self.path, dtype=model.dtype)
        model.load_state_dict(loaded.state_dict())


def checkpoint_name(step: int) -> str:
    """`step-000010`, so that names sort as steps do."""
    return f"step-{step:06d}"


def save_checkpoint(
    folder: RunFolder, step: int, model: Any, tokenizer: Any, state: Mapping[str, Any], *, threads: int
) -> None:
    """Write the checkpoint of `step`; on any failure to write, RunError, with earlier checkpoints untouched."""
    target = folder.checkpoints / checkpoint_name(step)
    temporary = folder.checkpoints / f"{TEMPORARY}{target.name}"
    try:
        row_sizes = folder.sizes()
        temporary.mkdir(parents=True)
        save_model(model, tokenizer, temporary)
        with (temporary / STATE).open("wb") as stream:
            torch.save(_encode(state), stream)
        files = {path.name: path.stat().st_size for path in sorted(temporary.iterdir())}
        manifest = {"step": step, "threads": threads, "row_sizes": row_sizes, "files": files}
        (temporary / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        publish(temporary, target)
    # A full disk shows as OSError from Python, RuntimeError from torch and SafetensorError from safetensors.
    except (OSError, RuntimeError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunError(_cannot_write(folder, target, error)) from error


def publish(temporary: Path, target: Path) -> None:
    """Give a complete folder its final name, after everything in it has reached the disk."""
    for path in temporary.rglob("*"):
        fsync_path(path)
    fsync_path(temporary)
    temporary.rename(target)
    fsync_path(target.parent)


def _cannot_write(folder: RunFolder, target: Path, error: Exception) -> str:
    earlier = list_checkpoints(folder)
    kept = f"{earlier[-1].path.name} is whole" if earlier else "there is no earlier checkpoint"
    free = shutil.disk_usage(folder.path).free / 1e6
    return (
        f"{target} could not be written: {error}. {free:.1f} MB are free there; {kept}. "
        "Make room (or lower checkpoint.keep) and resume the run."
    )


def list_checkpoints(folder: RunFolder) -> list[Checkpoint]:
    """Complete checkpoints, oldest first; a folder that lost or cut one of its files does not count."""
    found = [_read(path) for path in sorted(folder.checkpoints.glob("step-*"))]
    return [checkpoint for checkpoint in found if checkpoint is not None]


def _read(path: Path) -> Checkpoint | None:
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        whole = all((path / name).stat().st_size == size for name, size in manifest["files"].items())
    except (OSError, ValueError, KeyError):
        return None
    if not whole:
        return None
    return Checkpoint(path=path, step=manifest["step"], threads=manifest["threads"], row_sizes=manifest["row_sizes"])


def find_checkpoint(folder: RunFolder, step: int) -> Checkpoint:
    """The checkpoint of a step that a stage rolls back to."""
    checkpoint = _read(folder.checkpoints / checkpoint_name(step))
    if checkpoint is None:
        raise RunError(
            f"{folder.checkpoints / checkpoint_name(step)} is missing or damaged, and the compression stage has to go back "
            "to it. Restore it and resume, or start again in a new output folder."
        )
    return checkpoint


def discard_after(folder: RunFolder, step: int) -> None:
    """Remove checkpoint folders later than `step`: damaged ones that a resumed run will write anew."""
    for path in folder.checkpoints.glob("step-*"):
        if int(path.name.removeprefix("step-")) > step:
            _remove(path)


def prune_checkpoints(folder: RunFolder, *, keep: int, protected: Collection[int]) -> None:
    """Delete all but the `keep` newest checkpoints and those of the `protected` steps."""
    for checkpoint in list_checkpoints(folder)[:-keep]:
        if checkpoint.step not in protected:
            _remove(checkpoint.path)


def _remove(path: Path) -> None:
    """Delete a folder; a kill half-way leaves a temporary name, never a checkpoint with holes."""
    doomed = path.parent / f"{TEMPORARY}old-{path.name}"
    path.rename(doomed)
    shutil.rmtree(doomed)


def _encode(value: Any) -> Any:
    """Numpy to torch, so that the file can be read without running pickled code."""
    if isinstance(value, np.ndarray):
        return {"__numpy__": torch.from_numpy(np.ascontiguousarray(value))}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return value["__numpy__"].numpy() if "__numpy__" in value else {k: _decode(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_decode(item) for item in value]
    return value
