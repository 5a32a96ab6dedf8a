"""Progress on a terminal: events scroll by above, the panel stays below."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sparing.settings import RunConfig
from sparing.terminal.panel import COLOURS, RunPanel
from sparing.terminal.results import result_lines, results_table
from sparing.terminal.state import RunState
from sparing.terminal.words import decision_sentence, duration, run_sentence, stage_sentence, validation_sentence

Row = Mapping[str, Any]

_SECONDS_PER_REFRESH = 0.25
# Columns below which the final table does not fit.
NARROW = 80


class LiveProgress:
    """A panel that is redrawn in place; it vanishes at the end and leaves the events and the final table.

    Redraws and prints share one lock. Rich's own refresh thread does not hold its lock while another thread prints, and a
    panel that grows between the two leaves a torn line behind.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console or Console()
        self.state = RunState(clock)
        self._lock = threading.RLock()
        self._live: Live | None = None
        self._stop = threading.Event()
        self._redrawer = threading.Thread(target=self._redraw, name="sparing-panel", daemon=True)

    def run_started(self, config: RunConfig, total_steps: int, resumed_at: int | None) -> None:
        """Open the panel."""
        with self._lock:
            self.state.start(config, total_steps, resumed_at)
            self._say(run_sentence(config, total_steps, resumed_at), "bold")
            self._live = Live(RunPanel(self.state), console=self.console, auto_refresh=False, transient=True)
            self._live.start(refresh=True)
        self._redrawer.start()

    def stage_started(self, loop: int, stage_index: int, stage: str, steps: int) -> None:
        """Mark the stage."""
        with self._lock:
            self.state.start_stage(stage_index)
            self._say(stage_sentence(self.state, loop, stage, steps), COLOURS.get(stage, ""))

    def message(self, text: str) -> None:
        """Print above the panel; warnings stand out."""
        with self._lock:
            self._say(text, "yellow" if text.lower().startswith("warning") else "")

    def step(self, row: Row, timings: Row) -> None:
        """Take in the figures; the next redraw shows them."""
        with self._lock:
            self.state.observe_step(row, timings)

    def validation(self, row: Row) -> None:
        """Print and put into the panel's table."""
        with self._lock:
            self.state.observe_validation(row)
            self._say(validation_sentence(self.state, row), "")

    def evaluating(self, name: str, done: int, total: int) -> None:
        """Show the evaluation in place of the steps."""
        with self._lock:
            self.state.evaluation = (name, done, total) if done < total else None

    def stage_ended(self, decision: Row) -> None:
        """Print the decision; a roll-back stands out."""
        back = decision["chosen_step"] != decision["stopped_at"]
        with self._lock:
            self._say(decision_sentence(decision), "bold yellow" if back else COLOURS.get(decision["stage"], ""))

    def run_ended(self, summary: Row) -> None:
        """Take the panel away and print the final table."""
        self.close()
        print_results(self.console, summary)

    def close(self) -> None:
        """Give the terminal back."""
        self._stop.set()
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _redraw(self) -> None:
        while not self._stop.wait(_SECONDS_PER_REFRESH):
            with self._lock:
                if self._live is not None:
                    self._live.refresh()

    def _say(self, text: str, style: str) -> None:
        line = Table.grid(padding=(0, 1))  # Two columns, so that long lines wrap beside the time.
        line.add_row(Text(time.strftime("%H:%M:%S"), style="dim"), Text(text, style=style))
        self.console.print(line)


def print_results(console: Console, summary: Row) -> None:
    """The final table with a line above it."""
    seconds, memory = summary.get("seconds"), summary.get("peak_memory_bytes")
    peak = f", {memory / 1e9:.1f} GB of memory at most" if memory else ""
    console.print(Text(f"run done in {duration(seconds)}{peak}", style="bold"))
    if summary.get("domains"):
        console.print()
        if console.width < NARROW:
            # A squeezed table would lose the names of the domains; lines that wrap do not.
            console.print("\n".join(result_lines(summary)), soft_wrap=True, markup=False, highlight=False)
        else:
            console.print(results_table(summary, console.width))
