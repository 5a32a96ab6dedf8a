"""Resuming is bit-identical: a run killed at any moment ends with the metrics and weights of one never killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny

from sparing.settings import RunConfig
from sparing.train import stage as stage_module

SCRIPT = Path(tiny.__file__)
COMPARED = ("metrics.jsonl", "validation.jsonl", "decisions.jsonl", "final/model.safetensors", "evals/final.jsonl")


class Second:
    """A second process that works on the run; `ready` once its imports are done."""

    def __init__(self, config: RunConfig, tmp_path: Path, how: str, *arguments: str) -> None:
        config_file = tmp_path / "config.json"
        config_file.write_text(config.model_dump_json())
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parents[2])}
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(config_file), how, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline() == "ready\n"

    def end(self) -> tuple[int, str, str]:
        """Exit status, standard output and error."""
        output, error = self.process.communicate(timeout=120)
        return self.process.returncode, output, error


def work_for(process: subprocess.Popen[str], seconds: float) -> None:
    """Wait until the process has used so many seconds of CPU, so that a busy machine changes nothing; or has ended."""
    stat = Path(f"/proc/{process.pid}/stat")
    if not stat.exists():
        time.sleep(seconds)
        return

    def used() -> float:
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    enough = used() + seconds
    while process.poll() is None and used() < enough:
        time.sleep(0.005)


def how_to_go_on(config: RunConfig) -> str:
    return "resume" if Path(config.output).exists() else "start"


def assert_same_runs(one: Path, other: Path) -> None:
    for name in COMPARED:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (one, other)]
    for key in ("domains", "stages"):
        assert summaries[0][key] == summaries[1][key]
    assert not list(other.rglob(".tmp-*"))


def kill_and_resume(
    config: RunConfig, tmp_path: Path, deaths: Sequence[tuple[str, float]], decision: str = "detect"
) -> int:
    """Kill a process a death, the last one lives; returns how many were killed before they were done."""
    killed = 0
    for kind, value in deaths:
        event = [str(int(value))] if kind == "event" else []
        second = Second(config, tmp_path, how_to_go_on(config), decision, *event)
        assert second.ready
        if kind == "seconds":
            work_for(second.process, value)
            second.process.send_signal(signal.SIGKILL)
        status, _, error = second.end()
        assert status in (0, -signal.SIGKILL), error
        killed += status == -signal.SIGKILL
    status, _, error = Second(config, tmp_path, how_to_go_on(config), decision).end()
    assert status == 0, error
    return killed


def test_a_run_killed_twice_ends_as_one_never_killed(finished_run: Path, base_model: Path, tmp_path: Path) -> None:
    config = tiny.tiny_config(base_model, tmp_path / "run")
    # The first dies while it writes the files of a checkpoint, the second at whichever file operation is drawn.
    killed = kill_and_resume(config, tmp_path, [("event", 100), ("event", random.randint(1, 60))])
    assert killed == 2
    assert_same_runs(finished_run, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["seconds", "event"])
def test_a_run_killed_twenty_times_ends_as_one_never_killed(
    base_model: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two loops in which every compression stage goes back to an earlier checkpoint."""
    sections: dict[str, Any] = {
        "curriculum": {
            "loops": 2,
            "stages": [
                {"type": "accuracy", "steps": 20},
                {"type": "compression", "steps": 20},
                {"type": "accuracy", "steps": 20},
            ],
            "optimizer": "reset",
        },
        "objective": {"algorithm": "dapo", "updates_per_batch": 2},
    }
    monkeypatch.setattr(stage_module, "decide", tiny.go_back_from_second_validation)
    whole = tiny.run_tiny(tiny.tiny_config(base_model, tmp_path / "whole", **sections))
    rollbacks = [json.loads(line)["rollback"] for line in (whole / "decisions.jsonl").read_text().splitlines()]
    assert rollbacks == [False, True, False, True, False]
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    most = {"seconds": 1.0, "event": 150.0}[kind]
    deaths = [(kind, rng.uniform(0, most)) for _ in range(20)]
    killed = kill_and_resume(tiny.tiny_config(base_model, tmp_path / "run", **sections), tmp_path, deaths, "go back")
    print(f"seed {seed}: killed {killed} times, {kind}")
    assert killed >= 15  # Should the run be done early, the rest find nothing left to do.
    assert_same_runs(whole, tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_a_word_on_how_to_go_on(base_model: Path, tmp_path: Path, number: int) -> None:
    config = tiny.tiny_config(base_model, tmp_path / "run")
    second = Second(config, tmp_path, "start")
    while not (tmp_path / "run/checkpoints/step-000001").exists():
        assert second.process.poll() is None
        time.sleep(0.02)
    second.process.send_signal(number)
    status, output, error = second.end()
    assert status != 0
    assert "KeyboardInterrupt" in error
    assert "Interrupted. The last checkpoint is" in output
    assert "with resume" in output
