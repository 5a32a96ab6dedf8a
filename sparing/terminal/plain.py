"""Progress as plain lines, for files, pipes and `--plain`: greppable, at most about two lines a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from sparing.settings import RunConfig
from sparing.terminal.results import result_lines
from sparing.terminal.state import RunState
from sparing.terminal.words import (
    decision_sentence,
    duration,
    percent,
    run_sentence,
    stage_sentence,
    tokens,
    validation_sentence,
)

Row = Mapping[str, Any]

# Seconds between two lines of the same kind; other events are rare and always printed.
_STEP_PAUSE = 0.5
_EVALUATION_PAUSE = 15.0


class PlainProgress:
    """Writes one line an event; steps that come faster than two a second are left out, the last of a stage never."""

    def __init__(self, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._next_step = self._next_evaluation = float("-inf")
        self._unprinted = ""
        self.state = RunState(clock)

    def run_started(self, config: RunConfig, total_steps: int, resumed_at: int | None) -> None:
        """The plan, on one line."""
        self.state.start(config, total_steps, resumed_at)
        self._print(run_sentence(config, total_steps, resumed_at))

    def stage_started(self, loop: int, stage_index: int, stage: str, steps: int) -> None:
        """A line for the stage."""
        self.state.start_stage(stage_index)
        self._print(stage_sentence(self.state, loop, stage, steps))

    def message(self, text: str) -> None:
        """The text as it is."""
        self._print(text)

    def step(self, row: Row, timings: Row) -> None:
        """`step 34/100 compression accuracy=0.84 length=61 ...`."""
        self.state.observe_step(row, timings)
        self._unprinted = step_line(self.state)
        if self._clock() >= self._next_step:
            self._print(self._unprinted)
            self._unprinted = ""
            self._next_step = self._clock() + _STEP_PAUSE

    def validation(self, row: Row) -> None:
        """A line for the validation, after that of its step."""
        self.state.observe_validation(row)
        self._catch_up()
        self._print(validation_sentence(self.state, row))

    def evaluating(self, name: str, done: int, total: int) -> None:
        """A sign of life now and then in long evaluations."""
        if done == 0:
            self._next_evaluation = self._clock() + _EVALUATION_PAUSE
        elif done == total or self._clock() < self._next_evaluation:
            return
        else:
            self._next_evaluation = self._clock() + _EVALUATION_PAUSE
            self._print(f"{name}: {done}/{total} problems")

    def stage_ended(self, decision: Row) -> None:
        """Why the stage ended."""
        self._catch_up()
        self._print(decision_sentence(decision))

    def run_ended(self, summary: Row) -> None:
        """The final table."""
        print_plain_results(summary, self._file)

    def close(self) -> None:
        """Print the last step that was left out."""
        self._catch_up()

    def _catch_up(self) -> None:
        if self._unprinted:
            self._print(self._unprinted)
            self._unprinted = ""

    def _print(self, text: str) -> None:
        # Looked up late, so that a redirected stdout is honoured; flushed, so that `tail -f` sees it.
        print(text, file=self._file or sys.stdout, flush=True)


def print_plain_results(summary: Row, file: TextIO | None = None) -> None:
    """The final table as aligned lines, one a domain or tier."""
    lines = [f"run done in {duration(summary.get('seconds'))}"]
    lines += result_lines(summary) if summary.get("domains") else []
    print("\n".join(lines), file=file or sys.stdout, flush=True)


def step_line(state: RunState) -> str:
    """The newest step as `key=value` pairs after step number and stage."""
    row = state.row
    speed = state.tokens_per_second
    parts = [
        f"step {state.steps_done}/{state.steps_done + state.steps_left}",
        str(row.get("stage", "")),
        f"accuracy={row['accuracy']:.3f}",
        f"length={tokens(row['length'])}",
        f"mastered={percent(row.get('mastered_share'))}".replace(" ", ""),
    ]
    if row.get("stage") == "compression":
        parts.append(f"penalised={percent(row.get('penalty_fired_share'))}".replace(" ", ""))
        parts.append(f"rho={row['rho']:.2f}")
    if row.get("shortage"):
        parts.append(f"shortage={row['shortage']!r}")
    parts.append(f"tokens/s={tokens(speed)}".replace(",", ""))
    parts.append(f"left={duration(state.seconds_left)}")
    return " ".join(parts)
