"""The live panel: where a run stands, what its figures do, and its last validations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sparing.terminal.state import RunState
from sparing.terminal.words import duration, interval, is_repeat, percent, signed_percent, sparkline, tokens

Row = Mapping[str, Any]

COLOURS = {"accuracy": "green", "compression": "magenta"}
_SHOWN_VALIDATIONS = 5
_WIDE = 100


class RunPanel:
    """Draws a `RunState`; drawn anew at every refresh, so that the clock goes on between events."""

    def __init__(self, state: RunState) -> None:
        self.state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The panel at the width of the terminal."""
        # Two columns stay free: a terminal that echoes ^C at the end of a full line would scroll, and the panel tear.
        width = options.max_width - 2
        inner = width - 4
        parts: list[RenderableType] = [self._stages(), self._bar()]
        if self.state.rows:
            parts += [Text(), self._figures(inner)]
        if self.state.validations:
            parts += [Text(), self._validations(inner)]
        config = self.state.config
        title = Text.assemble(("sparing", "bold"), ("  " + config.output if config else "", "dim"))
        yield Panel(Group(*parts), title=title, title_align="left", border_style="dim", width=width)

    def _stages(self) -> RenderableType:
        """The curriculum in one line, the running stage marked."""
        line = Text(no_wrap=True, overflow="ellipsis")
        for stage in self.state.plan:
            if stage.stage_index:
                line.append("  ")
            if stage.stage_index < self.state.stage_index:
                line.append(f"● {stage.type}", style="dim")
            elif stage.stage_index == self.state.stage_index:
                line.append(f"◉ {stage.type}", style=f"bold {COLOURS[stage.type]}")
                line.append(f" {self.state.stage_step}/{stage.steps}", style=COLOURS[stage.type])
            else:
                line.append(f"○ {stage.type}", style="dim")
        return line

    def _bar(self) -> RenderableType:
        """Step, bar and time left; during an evaluation how far that has got."""
        state = self.state
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1)
        grid.add_column(justify="right", no_wrap=True)
        if state.evaluation:
            name, done, total = state.evaluation
            share = done / total if total else 0.0
            label, right = Text(name, style="cyan"), Text(f"{done}/{total} problems", style="cyan")
            bar = ProgressBar(total=1.0, completed=share, complete_style="cyan", finished_style="cyan")
        elif state.stage is None:
            label, right = Text("preparing", style="bold"), Text(f"{duration(state.seconds)} gone", style="dim")
            bar = ProgressBar(total=None, pulse=True, pulse_style="cyan")
        else:
            label = Text(f"step {state.steps_done}/{state.steps_done + state.steps_left}", style="bold")
            colour = COLOURS[state.stage.type]
            bar = ProgressBar(total=1.0, completed=state.share_done, complete_style=colour, finished_style=colour)
            left = state.seconds_left
            right = Text(f"{duration(state.seconds)} gone", style="dim")
            if left is not None:
                right.append(f"  {duration(left)} left", style="not dim bold")
        grid.add_row(label, bar, right)
        return grid

    def _figures(self, width: int) -> RenderableType:
        """Figures of the last step with their course over the run."""
        state, row = self.state, self.state.row
        spark = 28 if width >= _WIDE else 10
        grid = Table.grid(padding=(0, 1), expand=False)
        for index in range(6):
            grid.add_column(no_wrap=True, justify="right" if index in (1, 4) else "left")
        length = Text(sparkline(state.series("length"), spark), style="magenta")
        grid.add_row(
            Text("accuracy", style="dim"),
            Text(f"{row['accuracy']:.2f}", style="bold"),
            Text(sparkline(state.series("accuracy"), spark), style="green"),
            Text("  length", style="dim"),
            Text(tokens(row["length"]), style="bold"),
            length,
        )
        penalised = row.get("penalty_fired_share") if row.get("stage") == "compression" else None
        grid.add_row(
            Text("mastered", style="dim"),
            percent(row.get("mastered_share")),
            Text(sparkline(state.series("mastered_share"), spark), style="cyan"),
            Text("  penalised", style="dim"),
            percent(penalised),
            Text("of groups" if penalised is not None else "no penalty in accuracy stages", style="dim"),
        )
        grid.add_row(
            Text("rho", style="dim"),
            f"{row.get('rho', 0.0):.2f}" if penalised is not None else "-",
            self._target(row),
            Text("  tokens/s", style="dim"),
            tokens(state.tokens_per_second),
            self._memory(),
        )
        return grid

    def _target(self, row: Row) -> Text:
        if row.get("shortage"):
            return Text(str(row["shortage"])[:28], style="yellow")
        if row.get("stage") != "compression" or self.state.config is None:
            return Text()
        return Text(f"of {self.state.config.mixture.rho:g}", style="dim")

    def _memory(self) -> Text:
        resident = self.state.timings.get("rss_bytes")
        return Text(f"{resident / 1e9:.1f} GB" if resident else "", style="dim")

    def _validations(self, width: int) -> RenderableType:
        """The base model's validation and the last ones."""
        rows = [row for row in self.state.validations if not is_repeat(row)]
        shown = rows if len(rows) <= _SHOWN_VALIDATIONS else [rows[0], *rows[1 - _SHOWN_VALIDATIONS :]]
        grid = Table.grid(padding=(0, 2), expand=False)
        for justify in ("left", "right", "left", "right", "right", "left"):
            grid.add_column(justify=justify, no_wrap=True)
        grid.add_row(*(Text(head, style="dim") for head in ("validation", "accuracy", "95 %", "length", "", "")))
        longest = max(float(row["length"]) for row in shown)
        room = max(0, width - 52)  # What the other columns leave.
        for row in shown:
            newest = row is rows[-1]
            bar = "━" * max(1, round(room * float(row["length"]) / longest)) if longest and room else ""
            grid.add_row(
                Text(f"step {row['step']}" if row["step"] else "base", style="bold" if newest else ""),
                Text(f"{row['accuracy']:.2f}", style="bold green" if newest else "green"),
                Text(interval(row, "accuracy_low", "accuracy_high"), style="dim"),
                Text(tokens(row["length"]), style="bold" if newest else ""),
                Text(signed_percent(self.state.validation_change(row)), style="magenta"),
                Text(bar, style="magenta" if newest else "dim magenta"),
            )
        return grid
