"""Hangs, crashes and deaths of worker processes, with a judge that does those on request."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sparing.settings import ThinkingSettings, VerifierSettings
from sparing.types import Verdict
from sparing.verify.grader import Grader, GradeRequest
from sparing.verify.pool import Task, VerifierError, WorkerPool

# Equal when "GOLD+0" answers "GOLD". It hangs inside one multiplication, which holds the interpreter's lock.
JUDGE = r"""
import os, signal, sys
from pathlib import Path
from sparing.verify.worker import serve

def judge(request):
    if request["id"]:
        Path({pids!r}, str(os.getpid())).touch()
        Path({pids!r}, str(os.getppid())).touch()
    answer = request["answer"]
    if answer.startswith("hang"):
        9 ** (9 ** 9)
    if answer.startswith("die"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if answer.startswith("eat"):
        bytearray(64 << 30)
    if answer.startswith("raise"):
        raise ValueError("odd text")
    print("noise on stdout")
    return {{"equal": answer == request["gold"] + "+0"}}

serve(judge)
"""


def command(pids: Path) -> list[str]:
    return [sys.executable, "-P", "-c", JUDGE.format(pids=str(pids))]


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def children() -> set[int]:
    """Children of this process, zombies included."""
    command = ["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return {int(line.split()[0]) for line in lines if line.split()[1] != "ps"}


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def seen(pids: Path) -> set[int]:
    return {int(path.name) for path in pids.iterdir()}


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    (tmp_path / "pids").mkdir()
    return tmp_path / "pids"


def request(gold: str, answer: str) -> GradeRequest:
    return GradeRequest(kind="math", gold=gold, text=rf"</think>\boxed{{{answer}}}", finish_reason="stop")


def grader(pids: Path, *, workers: int = 1, timeout: float = 2.0) -> Grader:
    return Grader(ThinkingSettings(), VerifierSettings(workers=workers, timeout=timeout), worker_command=command(pids))


def test_each_failure_is_unknown_with_its_reason_and_the_next_answer_is_judged(pids: Path) -> None:
    before = children()
    with grader(pids) as judge:
        bad = ["hang", "die", "eat", "raise"]
        verdicts = judge.grade(
            [r for i, word in enumerate(bad) for r in (request(f"{i}x", word + "(x)"), request(f"{i}x", f"{i}x+0"))]
        )
        assert [verdict.outcome for verdict in verdicts] == ["unknown", "correct"] * 4
        reasons = [verdict.reason.split(":")[0] for verdict in verdicts[::2]]
        assert reasons == ["timeout", "crash", "memory", "error"]
        assert "signal 11" in verdicts[2].reason
        assert "odd text" in verdicts[6].reason
        metrics = judge.metrics()
        assert metrics["unknown"] == metrics["timeouts"] + metrics["crashes"] + metrics["errors"] == 4
        assert (metrics["timeouts"], metrics["crashes"], metrics["errors"]) == (1, 2, 1)
        assert (metrics["correct"], metrics["incorrect"], metrics["workers_started"]) == (4, 0, 1)
        assert metrics["seconds"] >= 2.0
    assert children() <= before
    assert eventually(lambda: not any(map(is_running, seen(pids))))


def test_nothing_is_spawned_for_what_needs_no_worker(pids: Path) -> None:
    before = children()
    with grader(pids) as judge:
        assert [v.outcome for v in judge.grade([request("5", "5"), request("5", "6"), request("(1,2)", "1,2")])] == [
            "correct",
            "incorrect",
            "incorrect",
        ]
        assert judge.check_gold("math", "5") is None
        assert judge.metrics()["workers_started"] == 0
        assert children() <= before


def test_a_pair_that_occurs_often_is_judged_once_and_counted_often(pids: Path) -> None:
    with grader(pids, timeout=0.5) as judge:
        verdicts = judge.grade([request("x", "hang(x)")] * 20)
        assert [verdict.outcome for verdict in verdicts] == ["unknown"] * 20
        assert judge.metrics()["timeouts"] == 20
        assert judge.metrics()["seconds"] < 10.0


def test_a_worker_killed_between_answers_is_replaced(pids: Path) -> None:
    with grader(pids) as judge:
        assert judge.grade([request("x", "x+0")])[0].correct
        for pid in seen(pids):
            os.kill(pid, signal.SIGKILL)
        # Either the death is noticed before, or the answer that met it is unknown; never a wrong verdict.
        assert judge.grade([request("y", "y+0")])[0].outcome in ("correct", "unknown")
        assert judge.grade([request("z", "z+0")])[0].correct
    assert eventually(lambda: not any(map(is_running, seen(pids))))


def test_a_stopped_worker_does_not_stop_the_grader(pids: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparing.verify.pool._GRACE_SECONDS", 0.5)
    monkeypatch.setattr("sparing.verify.pool._GOODBYE_SECONDS", 0.5)
    with WorkerPool(1, 0.5, command(pids)) as pool:
        assert pool.run([Task(op="judge", gold="x", answer="x+0")])[0].equal
        for pid in seen(pids):
            os.kill(pid, signal.SIGSTOP)
        result = pool.run([Task(op="judge", gold="x", answer="x+0")])[0]
        assert result.failed == "crash"
        assert pool.run([Task(op="judge", gold="y", answer="y+0")])[0].equal


def test_a_worker_that_cannot_start_is_an_error_and_no_verdict() -> None:
    pool = WorkerPool(1, 1.0, [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(VerifierError, match="does not start"):
        pool.run([Task(op="judge", gold="x", answer="y")])
    pool.close()
    pool.close()
    with pytest.raises(VerifierError, match="closed"):
        pool.run([Task(op="judge", gold="x", answer="y")])


PARENT = r"""
import sys, threading
sys.path.insert(0, {folder!r})
from pathlib import Path
from test_pool import grader, request
with grader(Path({pids!r}), workers=2, timeout=60.0) as judge:
    threading.Thread(target=judge.grade, args=([request("x", "hang(x)")],), daemon=True).start()
    judge.grade([request("y", "y+0")])
    threading.Event().wait()
"""


def test_kill_9_of_the_parent_leaves_no_worker_even_in_the_middle_of_a_computation(pids: Path) -> None:
    source = PARENT.format(folder=str(Path(__file__).parent), pids=str(pids))
    parent = subprocess.Popen([sys.executable, "-c", source])
    # Two workers of two processes: one pair idle, one in a multiplication of minutes.
    assert eventually(lambda: len(seen(pids)) == 4, 60.0)
    assert all(map(is_running, seen(pids)))
    parent.kill()
    parent.wait()
    assert eventually(lambda: not any(map(is_running, seen(pids))), 10.0)


def mixed_load(pids: Path, num: int, timeout: float) -> None:
    """`num` requests from four threads, 1 % hanging and 1 % crashing: every verdict is there and is the right one."""
    before = children()
    kinds = ["hang"] * (num // 100) + ["die"] * (num // 100)
    kinds += ["right", "wrong"] * ((num - len(kinds)) // 2)
    random.Random(0).shuffle(kinds)
    answers = {"hang": "hang(x_{%d})", "die": "die(x_{%d})", "right": "x_{%d}+0", "wrong": "x_{%d}+1"}
    requests = [request(f"x_{{{i}}}", answers[kind] % i) for i, kind in enumerate(kinds)]
    verdicts: dict[int, list[Verdict]] = {}
    with grader(pids, workers=2, timeout=timeout) as judge:

        def work(part: int) -> None:
            verdicts[part] = judge.grade(requests[part::4])

        threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        metrics = judge.metrics()
    expected = {"hang": "unknown", "die": "unknown", "right": "correct", "wrong": "incorrect"}
    reasons = {"hang": "timeout", "die": "crash", "right": "", "wrong": "not equal to the gold answer"}
    for part in range(4):
        assert [v.outcome for v in verdicts[part]] == [expected[kind] for kind in kinds[part::4]]
        assert [v.reason.split(":")[0] for v in verdicts[part]] == [reasons[kind] for kind in kinds[part::4]]
    assert (metrics["timeouts"], metrics["crashes"]) == (num // 100, num // 100)
    assert metrics["workers_started"] == 2
    assert children() <= before
    assert eventually(lambda: not any(map(is_running, seen(pids))))


def test_300_requests_with_hangs_and_crashes_from_four_threads(pids: Path) -> None:
    mixed_load(pids, 300, timeout=1.0)


@pytest.mark.slow
def test_10_000_requests_with_hangs_and_crashes_from_four_threads(pids: Path) -> None:
    mixed_load(pids, 10_000, timeout=1.0)
