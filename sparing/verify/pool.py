"""A pool of killable worker processes with a wall deadline for every answer.

Workers are plain subprocesses: they inherit no torch, no CUDA and no threads, and start lazily.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import sparing
from sparing.errors import SparingError
from sparing.verify.frames import FrameTimeoutError, read_frame, write_frame

Failure = Literal["timeout", "crash", "memory", "error"]
COMMAND = (sys.executable, "-P", "-m", "sparing.verify.worker")
# Importing sympy takes half a second on an idle machine; this is for a machine on its knees.
_START_SECONDS = 120.0
# The worker keeps the deadline itself; the pool only steps in when the worker is stopped or gone.
_GRACE_SECONDS = 5.0
_GOODBYE_SECONDS = 2.0


class VerifierError(SparingError):
    """The verifier cannot run at all, so no verdict would mean anything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A request to a worker: judge `answer` against `gold`, or check `gold` alone."""

    op: Literal["judge", "check"]
    gold: str
    answer: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskResult:
    """`equal` of a judgement, `problem` of a check, or how the worker failed and why."""

    equal: bool = False
    problem: str = ""
    failed: Failure | None = None
    reason: str = ""


class WorkerPool:
    """At most `workers` processes, started when first needed; may be used from several threads at once."""

    def __init__(self, workers: int, timeout: float, command: Sequence[str] = COMMAND) -> None:
        """`timeout` is in wall seconds for one task; `command` starts a worker."""
        self._timeout = timeout
        self._command = list(command)
        self._slots: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        for _ in range(workers):
            self._slots.put(None)
        self._num_workers = workers
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.num_started = 0

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the worker processes."""
        self.close()

    def run(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """Results in the order of the tasks; returns within about timeout * tasks / workers seconds."""
        if not tasks:
            return []
        with self._lock:
            if self._closed:
                raise VerifierError("the verifier pool is closed; use the grader inside its `with` block")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._num_workers, thread_name_prefix="verify")
            futures = [self._executor.submit(self._run_one, task) for task in tasks]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End every worker and wait for them; further tasks are refused. May be called twice."""
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        for _ in range(self._num_workers):
            worker = self._slots.get()
            if worker is not None:
                worker.kill()

    def _run_one(self, task: Task) -> TaskResult:
        worker = self._slots.get()
        try:
            if worker is None or not worker.alive():
                if worker is not None:
                    worker.kill()
                worker = None
                worker = self._start()
            try:
                return worker.ask(task, self._timeout)
            except (EOFError, BrokenPipeError, FrameTimeoutError):
                worker.kill()
                worker = None
                return TaskResult(failed="crash", reason="the verifier process ended without a verdict")
        finally:
            self._slots.put(worker)

    def _start(self) -> _Worker:
        with self._lock:
            self.num_started += 1
        return _Worker(self._command)


class _Worker:
    """One worker process and its pipes."""

    def __init__(self, command: list[str]) -> None:
        # -P keeps the caller's folder off the path, so the package's own folder has to be put on it.
        path = os.pathsep.join(filter(None, [str(Path(sparing.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        # A session of its own: the terminal's Ctrl-C does not reach it, and the whole group can be killed at once.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._replies = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._next_id = 0
        try:
            hello = read_frame(self._replies, _START_SECONDS)
        except (EOFError, FrameTimeoutError):
            hello = {"error": "it ended or hung before it was ready"}
        if not hello.get("ready"):
            self.kill()
            raise VerifierError(
                f"the verifier process does not start ({hello.get('error')}); it needs math-verify and fork: "
                "pip install math-verify==0.9.0"
            )

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, task: Task, timeout: float) -> TaskResult:
        self._next_id += 1
        request = {"id": self._next_id, "op": task.op, "gold": task.gold, "answer": task.answer, "timeout": timeout}
        write_frame(self._requests, request)
        reply: dict[str, Any] = read_frame(self._replies, timeout + _GRACE_SECONDS)
        if reply.pop("id", None) != self._next_id:
            # Never take one answer's verdict for another's.
            raise EOFError
        return TaskResult(**reply)

    def kill(self) -> None:
        """End the process and what it forked, reap it, close the pipes. May be called twice."""
        assert self._process.stdin is not None
        # At the end of its stdin a worker kills and reaps its inner process itself, so that none is left to an init
        # process that may not reap. The signal is for a worker that does not react.
        self._process.stdin.close()
        try:
            self._process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            # The group may be gone already.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
