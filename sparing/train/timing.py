"""Seconds of the parts of a step, and memory of this process. Nothing here enters metrics.jsonl."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sparing.rollout.groups import Grades
from sparing.types import Verdict
from sparing.verify.grader import GradeRequest


class Stopwatch:
    """Adds up seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the wall seconds of the block to `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


class TimedGrader:
    """A grader whose seconds are counted under `verify`."""

    def __init__(self, grader: Grades, stopwatch: Stopwatch) -> None:
        self._grader = grader
        self._stopwatch = stopwatch

    def grade(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        """As the grader's own."""
        with self._stopwatch.measure("verify"):
            return self._grader.grade(requests)


def peak_memory() -> int:
    """Most resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int:
    """Resident memory of this process in bytes; the peak where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return peak_memory()
    return pages * resource.getpagesize()
