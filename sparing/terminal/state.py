"""What a watcher wants to know of a run, kept up to date by its events; no terminal here."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sparing.settings import PlannedStage, RunConfig

Row = Mapping[str, Any]

# Steps whose wall time, validations and checkpoints included, predicts that of the steps to come.
_WINDOW = 20


class RunState:
    """The story of a run so far: stages, rows of metrics, validations, and the time that is left.

    `clock` returns seconds and may be replaced in tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._intervals: deque[float] = deque(maxlen=_WINDOW)
        self._last_step_at = clock()
        self.started_at = clock()
        self.plan: tuple[PlannedStage, ...] = ()
        self.config: RunConfig | None = None
        self.total_steps = 0
        self.stage_index = -1
        self.stage_step = 0
        self.rows: list[Row] = []
        self.timings: Row = {}
        self.validations: list[Row] = []
        self.evaluation: tuple[str, int, int] | None = None

    def start(self, config: RunConfig, total_steps: int, resumed_at: int | None) -> None:
        """Take up the plan, and the rows of the run folder where the run goes on."""
        self.config, self.total_steps, self.plan = config, total_steps, config.curriculum.plan()
        self.started_at = self._last_step_at = self._clock()
        if resumed_at is not None:
            folder = Path(config.output)
            self.rows = _rows_until(folder / "metrics.jsonl", resumed_at)
            self.validations = _rows_until(folder / "validation.jsonl", resumed_at)

    def start_stage(self, stage_index: int) -> None:
        """A stage begins, or goes on after its steps in the rows."""
        if not self._intervals:
            # What came before the first step (preflight, test of the base model) says nothing of the pace.
            self._last_step_at = self._clock()
        self.stage_index = stage_index
        self.stage_step = sum(1 for row in self.rows if row.get("stage_index") == stage_index)

    def observe_step(self, row: Row, timings: Row) -> None:
        """Count a step and the wall time since the last one."""
        now = self._clock()
        self._intervals.append(now - self._last_step_at)
        self._last_step_at = now
        self.rows.append(row)
        self.timings = timings
        self.stage_step += 1
        self.evaluation = None

    def observe_validation(self, row: Row) -> None:
        """Remember a validation."""
        self.validations.append(row)
        self.evaluation = None

    @property
    def stage(self) -> PlannedStage | None:
        """The stage that runs."""
        return self.plan[self.stage_index] if 0 <= self.stage_index < len(self.plan) else None

    @property
    def row(self) -> Row:
        """The newest row of metrics; empty before the first step."""
        return self.rows[-1] if self.rows else {}

    @property
    def steps_done(self) -> int:
        """Steps taken over all stages."""
        return int(self.row.get("step", 0))

    @property
    def steps_left(self) -> int:
        """Steps of this stage and of those after it; a stage that stopped early leaves nothing behind."""
        if self.stage is None:
            return self.total_steps - self.steps_done
        later = sum(stage.steps for stage in self.plan[self.stage_index + 1 :])
        return max(self.stage.steps - self.stage_step, 0) + later

    @property
    def share_done(self) -> float:
        """Steps done of those done and planned, in [0, 1]."""
        total = self.steps_done + self.steps_left
        return self.steps_done / total if total else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Steps left at the pace of the last ones; None before the first step. The final test is not in it."""
        if not self._intervals:
            return None
        pace = sum(self._intervals) / len(self._intervals)
        return max(pace * self.steps_left - (self._clock() - self._last_step_at), 0.0)

    @property
    def seconds(self) -> float:
        """Wall seconds since this process began or resumed the run."""
        return self._clock() - self.started_at

    @property
    def tokens_per_second(self) -> float | None:
        """Response tokens of the last step a second, update included."""
        seconds = self.timings.get("seconds")
        return float(self.row["tokens"]) / seconds if seconds and "tokens" in self.row else None

    def series(self, key: str) -> list[float]:
        """All values of a metric, without the missing ones."""
        return [float(row[key]) for row in self.rows if row.get(key) is not None]

    def validation_change(self, row: Row) -> float | None:
        """Relative change of a validation's length against the base model's (step 0); None for itself."""
        base = self.validations[0] if self.validations else None
        if base is None or base.get("step") != 0 or row.get("step") == 0 or "length" not in row:
            return None
        return change(float(row["length"]), float(base["length"]))


def change(value: float, reference: float) -> float | None:
    """Value / reference - 1; None where the reference is 0."""
    return value / reference - 1.0 if reference else None


def _rows_until(path: Path, last_step: int) -> list[Row]:
    """Rows of a run folder's file up to a step; a torn last line is left to the trainer to deal with."""
    if not path.is_file():
        return []
    rows: list[Row] = []
    for line in path.read_bytes().splitlines():  # As bytes: U+2028 inside a string ends no row.
        try:
            row = json.loads(line)
        except ValueError:
            break
        if row.get("step", 0) <= last_step:
            rows.append(row)
    return rows
