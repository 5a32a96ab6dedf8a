"""Both ways of watching, driven by the events of a short run; the live one in a real pseudo-terminal too."""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from sparing.progress import Progress, SilentProgress
from sparing.recipe.load import load_recipe
from sparing.terminal import open_progress
from sparing.terminal.live import LiveProgress
from sparing.terminal.panel import RunPanel
from sparing.terminal.plain import PlainProgress
from sparing.terminal.results import results_table


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


FIGURES = {
    "base": {"accuracy": 0.8, "length": 1234.0},
    "final": {"accuracy": 0.85, "length": 456.0},
    "delta_accuracy": 0.05,
    "delta_accuracy_ci": [0.01, 0.09],
    "relative_length": 0.37,
    "relative_length_ci": [0.33, 0.44],
    "shortest_length": 200.0,
    "excess_removed": 0.752,
}
SUMMARY = {
    "seconds": 83,
    "domains": {"arithmetic": {**FIGURES, "trained": True, "tiers": {"easy": FIGURES, "hard": FIGURES}}},
}


def step_row(step: int, stage: str, stage_index: int) -> dict:
    compression = stage == "compression"
    return {
        "step": step,
        "stage": stage,
        "stage_index": stage_index,
        "accuracy": 0.8,
        "length": 100.0 - step,
        "mastered_share": 0.5,
        "penalty_fired_share": 0.25 if compression else 0.0,
        "rho": 0.375 if compression else 0.0,
        "tokens": 6000,
        "shortage": "",
    }


def drive(progress: Progress, clock: Clock, seconds_per_step: float = 1.0) -> None:
    """4 accuracy steps, 6 of 8 compression steps with a roll-back, 2 accuracy steps."""
    stages = [f"curriculum.stages.{index}.steps={steps}" for index, steps in enumerate((4, 8, 2))]
    progress.message("model tiny")
    progress.run_started(load_recipe("lab", stages), 14, None)
    validation = {"accuracy": 0.9, "accuracy_low": 0.86, "accuracy_high": 0.93, "weights_step": 0}
    progress.evaluating("test of the base model", 0, 8)
    progress.evaluating("test of the base model", 8, 8)
    progress.validation({"step": 0, "length": 100.0, **validation})
    step = 0
    for index, (stage, planned, taken) in enumerate([("accuracy", 4, 4), ("compression", 8, 6), ("accuracy", 2, 2)]):
        progress.stage_started(0, index, stage, planned)
        for _ in range(taken):
            step += 1
            clock.now += seconds_per_step
            progress.step(step_row(step, stage, index), {"seconds": 2.0, "rss_bytes": 1.2e9})
        progress.validation({"step": step, "length": 100.0 - 5 * step, **validation, "weights_step": step})
        chosen = step - 2 if stage == "compression" else step
        decision = {"stage": stage, "started_at": step - taken, "stopped_at": step, "chosen_step": chosen}
        progress.stage_ended({**decision, "steps_planned": planned, "reason": "so it is"})
    progress.run_ended(SUMMARY)
    progress.close()


def test_plain_lines_tell_the_run():
    out, clock = io.StringIO(), Clock()
    drive(PlainProgress(out, clock), clock)
    lines = out.getvalue().splitlines()
    assert lines[0] == "model tiny"
    assert lines[1].startswith("run: 14 steps at most (accuracy 4 > compression 8 > accuracy 2), seed 0")
    assert lines[2] == "base model: accuracy 0.90 [0.86, 0.93], length 100"
    assert lines[3] == "stage 1 of 3: accuracy, 4 steps at most"
    assert lines[4] == "step 1/14 accuracy accuracy=0.800 length=99 mastered=50% tokens/s=3000 left=13s"
    assert (
        "step 5/14 compression accuracy=0.800 length=95 mastered=50% penalised=25% rho=0.38 tokens/s=3000 left=9s"
        in lines
    )
    assert "validation at step 10: accuracy 0.90 [0.86, 0.93], length 50 (-50 %)" in lines
    assert "compression stopped at step 10: so it is; rolled back to step 8" in lines
    # The two steps that compression did not take are no longer in the plan.
    assert any(line.startswith("step 12/12 accuracy") and line.endswith("left=0s") for line in lines)
    assert any(line.startswith("arithmetic     hard   trained") for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_plain_lines_are_at_most_two_a_second_and_never_lose_the_last_step():
    out, clock = io.StringIO(), Clock()
    drive(PlainProgress(out, clock), clock, seconds_per_step=0.125)
    steps = [int(match[1]) for match in re.finditer(r"^step (\d+)/", out.getvalue(), re.M)]
    assert steps == [1, 4, 5, 9, 10, 12]  # Every fourth, and the last before each validation.
    assert "validation at step 4" in out.getvalue()


def test_plain_evaluations_are_quiet_unless_they_take_long():
    out, clock = io.StringIO(), Clock()
    progress = PlainProgress(out, clock)
    for done in range(0, 101):
        clock.now += 0.4
        progress.evaluating("test of the base model", done, 100)
    assert out.getvalue().splitlines() == [f"test of the base model: {done}/100 problems" for done in (38, 76)]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_the_panel_fits_its_terminal(width):
    clock = Clock()
    console = Console(
        width=width, height=50, file=io.StringIO(), force_terminal=True, color_system=None, legacy_windows=False
    )
    progress = LiveProgress(console, clock)
    progress.state.start(load_recipe("lab"), 100, None)
    with console.capture() as capture:
        console.print(RunPanel(progress.state))  # Before the first event.
    assert "sparing" in capture.get()
    for step in range(0, 21):
        progress.state.start_stage(1)
        clock.now += 1
        progress.state.observe_step(step_row(step, "compression", 1), {"seconds": 2.0, "rss_bytes": 1.2e9})
        if step % 2 == 0:
            row = {
                "step": step,
                "accuracy": 0.9,
                "accuracy_low": 0.86,
                "accuracy_high": 0.93,
                "length": 12345.0 - 400 * step,
            }
            progress.state.observe_validation(row)
    with console.capture() as capture:
        console.print(RunPanel(progress.state))
    lines = capture.get().splitlines()
    assert all(len(line) == width - 2 for line in lines)
    text = "\n".join(lines)
    for shown in (
        "◉ compression",
        "step 20/",
        "left",
        "accuracy",
        "25 % of groups",
        "0.38",
        "of 0.4",
        "3,000",
        "1.2 GB",
    ):
        assert shown in text
    assert "12,345" in text  # The base's validation stays,
    assert "step 20" in text  # and so does the newest.
    assert "step 2 " not in text
    progress.evaluating("validation at step 20", 30, 96)
    with console.capture() as capture:
        console.print(RunPanel(progress.state))
    assert "30/96 problems" in capture.get()


@pytest.mark.parametrize("width", [80, 120])
def test_the_final_table_fits_and_loses_nothing(width):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    with console.capture() as capture:
        console.print(results_table(SUMMARY, width))
    text = capture.get()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for shown in ("arithmetic", "trained", "easy", "hard", "1,234 → 456", "0.37", "[0.33, 0.44]", "200", "75 %"):
        assert shown in text
    assert ("[+0.01, +0.09]" if width == 80 else "[+0.010, +0.090]") in text


def screen(output: str) -> list[str]:
    """What a terminal shows in the end, scrolled-off lines included, of the few controls that the panel uses."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x1b]", output):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif part.endswith("A"):
            row -= int(part[2:-1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif not part.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + 1 :]
            column += 1
        assert row >= 0
    return lines


LIVE_SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
from test_progress import drive, Clock
from sparing.terminal import open_progress
from sparing.terminal.live import LiveProgress

class Slow(Clock):
    def __setattr__(self, name, value):
        if name == "now" and value: time.sleep(0.05)
        object.__setattr__(self, name, value)

progress = open_progress()
assert isinstance(progress, LiveProgress)
drive(progress, Slow())
"""


@pytest.mark.parametrize("columns", [80, 120])
def test_live_in_a_pseudo_terminal(columns):
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    script = LIVE_SCRIPT.format(tests=str(Path(__file__).parent))
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=follower, stdout=follower, stderr=follower, env=environment
    )
    os.close(follower)
    output = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # The other end closed: how a pseudo-terminal says it is over.
            break
        if not chunk:
            break
        output += chunk
    os.close(leader)
    assert process.wait() == 0, output.decode()
    text = output.decode()
    assert "\x1b[?25l" in text  # The cursor is hidden while the panel is redrawn,
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # and is shown again.
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    shown = screen(text)
    assert not any("╭" in line or "│" in line for line in shown)  # No torn piece of the panel stays behind.
    assert sum("validation at step" in line for line in shown) == 3
    assert "rolled back to step 8" in plain
    assert "◉ compression" in plain
    assert "excess" in plain[plain.rindex("run done in 1m23s") :]
    assert max(len(line) for line in re.split(r"[\r\n]", plain)) <= columns


def test_what_is_opened_where_stdout_is_no_terminal(monkeypatch):
    assert isinstance(open_progress(), PlainProgress)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(open_progress(), PlainProgress)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(open_progress(plain=True), PlainProgress)
    assert isinstance(open_progress(), LiveProgress)


def test_silence_takes_every_event(capsys):
    drive(SilentProgress(), Clock())
    assert capsys.readouterr().out == ""
