"""Opening a run folder: new, or resumed from its newest whole checkpoint by one process at a time."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sparing.data.problems import write_problems
from sparing.errors import DataError, RunError
from sparing.settings import RunConfig
from sparing.train.checkpoint import Checkpoint, discard_after, list_checkpoints
from sparing.train.run_folder import TEMPORARY, RunFolder
from sparing.types import Problem
from sparing.verify.grader import Grader

# Settings that a resumed run may change: where the folder lies now, the threads of this machine, and what bounds memory.
# All but the first change figures, by rounding only.
FREE_KEYS = (
    "output",
    "model.threads",
    "rollout.max_sequences",
    "optimizer.microbatch_tokens",
)
# What may stand in a folder whose process died before config.json, the last file of the opening, was written.
_OPENING_FILES = (".lock", "data.json", "validation_problems.jsonl")
# What a run leaves that ended before it had answered or trained anything: on a missing model, or in its preflight.
_EMPTY_RUN = {*_OPENING_FILES, "config.json"}
_MADE_AGAIN = {"preflight.json", "report.html"}

_MOST_SLOW = 500


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Hold the folder for this process; the lock goes with the process, however it ends."""
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder.path} cannot be made a folder ({error.strerror}); set another output.") from error
    with (folder.path / ".lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{folder.path} is in use by another training process; wait for it or end it, or choose another output."
            ) from None
        yield


def check_answers(problems: Mapping[str, Sequence[Problem]], grader: Grader) -> None:
    """Gold must accept gold: DataError where a verifier cannot read a problem's own answer.

    Answers that need a worker process take milliseconds each, so only the first `_MOST_SLOW` of those are tried.
    """
    seen: set[tuple[str, str]] = set()
    slow = 0
    for split, some in problems.items():
        for one in some:
            if (one.kind, one.answer) in seen:
                continue
            seen.add((one.kind, one.answer))
            slow += one.kind == "math" and not one.answer.lstrip("-").isdigit()
            reason = grader.check_gold(one.kind, one.answer) if slow <= _MOST_SLOW else None
            if reason:
                raise DataError(f'{split} problem "{one.id}": {reason}')


def start_folder(folder: RunFolder, config: RunConfig, problems: Mapping[str, Sequence[Problem]]) -> None:
    """Prepare a new run folder; RunError where the folder holds anything already.

    A run that ended before it had any result, on a mistake in its recipe for one, is replaced.
    """
    found = sorted(path.name for path in folder.path.iterdir() if path.name != ".lock")
    held = {name for name in found if not name.startswith(TEMPORARY)}
    if _EMPTY_RUN - {".lock"} <= held <= _EMPTY_RUN | _MADE_AGAIN:
        folder.remove_temporaries()
        # config.json goes last: until then, and after that, the folder can be resumed.
        for name in (*sorted(_MADE_AGAIN), "config.json"):
            (folder.path / name).unlink(missing_ok=True)
    elif found:
        raise RunError(
            f"{folder.path} is not empty ({', '.join(found[:4])}{', ...' if len(found) > 4 else ''}); resume the run in it, "
            "or set another output."
        )
    _write_opening(folder, config, problems)


def resume_folder(folder: RunFolder, config: RunConfig, problems: Mapping[str, Sequence[Problem]]) -> Checkpoint | None:
    """The newest whole checkpoint, with the folder cut back to its moment; None where the run begins from its start.

    RunError where the folder holds no run, or a run with other settings or other problems.
    """
    entries = [path.name for path in folder.path.iterdir()]
    if "config.json" not in entries:
        if any(not name.startswith(TEMPORARY) and name not in _OPENING_FILES for name in entries):
            raise RunError(f"{folder.path} has no config.json, so it is not a run folder; check output.")
        folder.remove_temporaries()
        _write_opening(folder, config, problems)
        return None
    _check_same(folder, "settings", folder.read_json("config.json"), config.model_dump(mode="json"))
    _check_same(folder, "problems", folder.read_json("data.json"), fingerprints(problems))
    found = list_checkpoints(folder)
    newest = found[-1] if found else None
    step = newest.step if newest else -1
    folder.cut_back(newest.row_sizes if newest else {}, step)
    discard_after(folder, step)
    return newest


def _write_opening(folder: RunFolder, config: RunConfig, problems: Mapping[str, Sequence[Problem]]) -> None:
    write_problems(folder.path / "validation_problems.jsonl", problems["validation"])
    folder.write_json("data.json", fingerprints(problems))
    folder.write_json("config.json", config.model_dump(mode="json"))


def fingerprints(problems: Mapping[str, Sequence[Problem]]) -> dict[str, dict[str, Any]]:
    """Number and hash of the problems of every split, in order."""
    return {split: {"num_problems": len(some), "sha256": _fingerprint(some)} for split, some in problems.items()}


def _fingerprint(problems: Sequence[Problem]) -> str:
    digest = hashlib.sha256()
    for one in problems:
        turns = [(turn.role, turn.content) for turn in one.turns]
        digest.update(json.dumps([one.id, turns, one.answer, one.kind, one.domain, one.tier]).encode())
    return digest.hexdigest()


def _check_same(folder: RunFolder, what: str, recorded: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    before, now = _flat(recorded), _flat(given)
    different = [
        f"{key} was {json.dumps(before.get(key))} and is {json.dumps(now.get(key))}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and key not in FREE_KEYS
    ]
    if different:
        raise RunError(
            f"{folder.path} was started with other {what}: {'; '.join(different)}. Resume with what it was started with "
            f"(sparing train --resume --output {folder.path} reads it there), or set another output."
        )


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Dotted keys of nested mappings; lists are values."""
    if not isinstance(value, Mapping):
        return {name: value}
    return {
        key: item
        for part, inner in value.items()
        for key, item in _flat(inner, f"{name}.{part}" if name else part).items()
    }
