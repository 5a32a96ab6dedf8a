"""What a run holds in memory, and how it is put into a checkpoint and taken out again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from sparing.data.sampler import MixtureSampler
from sparing.method.early_stopping import ValidationPoint
from sparing.method.objective import Objective
from sparing.progress import Progress
from sparing.rollout.completer import Completer
from sparing.rollout.groups import Grades
from sparing.rollout.model import LoadedModel
from sparing.settings import RunConfig
from sparing.train.checkpoint import Checkpoint, find_checkpoint, prune_checkpoints, save_checkpoint
from sparing.train.run_folder import RunFolder
from sparing.train.update import PolicyUpdater
from sparing.types import Problem


@dataclass(kw_only=True)
class Position:
    """Where a run stands. Steps count from 1 over all stages and never go back, not even when weights do.

    `history` holds the validations of the stage so far, the one of its starting weights first, as plain values;
    `keep_from` is the oldest of their steps that the stage may still go back to. `seconds` are those of all processes
    that worked on the run, up to the newest checkpoint.
    """

    step: int = 0
    stage: int = 0
    stage_step: int = 0
    stage_started_at: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    keep_from: int = 0
    seconds: float = 0.0

    def observe_validation(self, step: int, accuracy_P: Sequence[float], length: float) -> None:
        """Remember a validation of this stage."""
        self.history.append({"step": step, "accuracy_P": list(accuracy_P), "length": length})

    @property
    def points(self) -> list[ValidationPoint]:
        """The stage's validations as the pre-collapse detector takes them."""
        return [
            ValidationPoint(step=one["step"], accuracy_P=np.array(one["accuracy_P"]), length=one["length"])
            for one in self.history
        ]


@dataclass(kw_only=True)
class Trainer:
    """The parts of a run. Everything that a resumed run must find again is in `state` and the model's weights."""

    config: RunConfig
    folder: RunFolder
    progress: Progress
    loaded: LoadedModel
    completer: Completer
    grader: Grades
    objective: Objective
    updater: PolicyUpdater
    sampler: MixtureSampler
    train: Sequence[Problem]
    validation: Sequence[Problem]
    position: Position
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Wall seconds of the run so far, over all its processes."""
        return self.position.seconds + time.perf_counter() - self.started

    def save(self) -> None:
        """Write a checkpoint of the current step and delete those no longer needed."""
        now = time.perf_counter()
        self.position.seconds += now - self.started
        self.started = now
        state = {
            "updater": self.updater.state_dict(),
            "sampler": self.sampler.state_dict(),
            "position": asdict(self.position),
        }
        save_checkpoint(
            self.folder,
            self.position.step,
            self.loaded.model,
            self.loaded.tokenizer,
            state,
            threads=torch.get_num_threads(),
        )
        needed = {one["step"] for one in self.position.history if one["step"] >= self.position.keep_from}
        prune_checkpoints(self.folder, keep=self.config.checkpoint.keep, protected=needed)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take up a checkpoint whose weights are already in the model."""
        state = checkpoint.load_state()
        self.updater.load_state_dict(state["updater"])
        self.sampler.load_state_dict(state["sampler"])
        self.position = Position(**state["position"])

    def roll_back(self, step: int) -> None:
        """Weights, optimizer and sampler as they were after `step`; the position stays, so step numbers go on."""
        checkpoint = find_checkpoint(self.folder, step)
        checkpoint.load_weights(self.loaded.model)
        state = checkpoint.load_state()
        self.updater.load_state_dict(state["updater"])
        self.sampler.load_state_dict(state["sampler"])
