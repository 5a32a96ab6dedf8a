"""What a run tells its watcher: the events of training, and two ways of showing them.

Training calls the methods of `Progress` and knows nothing of terminals. The rows are those of a run folder:
`metrics.jsonl` for `step`, `validation.jsonl` for `validation`, `decisions.jsonl` for `stage_ended` and
`summary.json` for `run_ended`. Keys that a row lacks are simply not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sparing.settings import RunConfig

Row = Mapping[str, Any]


class Progress(Protocol):
    """Events of a run, in the order in which they happen."""

    def run_started(self, config: RunConfig, total_steps: int, resumed_at: int | None) -> None:
        """Training begins; `total_steps` is the plan of all stages and `resumed_at` the last finished step."""

    def stage_started(self, loop: int, stage_index: int, stage: str, steps: int) -> None:
        """A stage of at most `steps` steps begins; `stage` is `accuracy` or `compression`."""

    def message(self, text: str) -> None:
        """Something worth a line of its own."""

    def step(self, row: Row, timings: Row) -> None:
        """One step is done: its row of metrics and its row of wall-clock timings."""

    def validation(self, row: Row) -> None:
        """A validation is done; step 0 is the base model."""

    def evaluating(self, name: str, done: int, total: int) -> None:
        """`done` of `total` problems of an evaluation called `name` are answered."""

    def stage_ended(self, decision: Row) -> None:
        """A stage is over, with its decision."""

    def run_ended(self, summary: Row) -> None:
        """The run is over, with its summary."""

    def close(self) -> None:
        """Give the terminal back; safe to call more than once and after an error."""


class SilentProgress:
    """Shows nothing: for library use and tests."""

    def run_started(self, config: RunConfig, total_steps: int, resumed_at: int | None) -> None:
        """Ignored."""

    def stage_started(self, loop: int, stage_index: int, stage: str, steps: int) -> None:
        """Ignored."""

    def message(self, text: str) -> None:
        """Ignored."""

    def step(self, row: Row, timings: Row) -> None:
        """Ignored."""

    def validation(self, row: Row) -> None:
        """Ignored."""

    def evaluating(self, name: str, done: int, total: int) -> None:
        """Ignored."""

    def stage_ended(self, decision: Row) -> None:
        """Ignored."""

    def run_ended(self, summary: Row) -> None:
        """Ignored."""

    def close(self) -> None:
        """Ignored."""
