"""From response texts to verdicts: split the thinking off, find the answer, compare it by its kind."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from sparing.errors import DataError
from sparing.settings import ThinkingSettings, VerifierSettings
from sparing.types import FinishReason, Verdict
from sparing.verify.boxes import find_answer
from sparing.verify.exact import exact_match
from sparing.verify.latex import MAX_CHARACTERS
from sparing.verify.math import decide
from sparing.verify.number import number_match, parse_number
from sparing.verify.pool import COMMAND, Task, TaskResult, WorkerPool
from sparing.verify.thinking import find_answer_text

KINDS = ("math", "number", "exact")

_INTEGER = re.compile(r"-?\d{1,30}")


@dataclass(frozen=True, kw_only=True, slots=True)
class GradeRequest:
    """One response to judge against its gold answer by the verifier named `kind`."""

    kind: str
    gold: str
    text: str
    finish_reason: FinishReason


class Grader:
    """Judges responses; a context manager, since it may hold worker processes. Thread-safe.

    Comparisons that need no sympy are made in-process. Processes start with the first answer that does need it.
    """

    def __init__(
        self, thinking: ThinkingSettings, verifier: VerifierSettings, *, worker_command: Sequence[str] = COMMAND
    ) -> None:
        """`worker_command` starts a worker process; the default is right but for tests."""
        self._thinking = thinking
        self._pool = WorkerPool(verifier.workers, verifier.timeout, worker_command)
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the worker processes."""
        self.close()

    def close(self) -> None:
        """End the worker processes; may be called twice."""
        self._pool.close()

    def grade(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        """One verdict a request, in order.

        A pair of gold and answer that occurs several times is judged once. A timeout, a crash or an error of the
        verifier gives `unknown` with the reason. Raises `DataError` for an unknown kind and `VerifierError` when the
        worker processes cannot start at all.
        """
        started = time.perf_counter()
        verdicts: list[Verdict | None] = []
        waiting: dict[tuple[str, str], list[int]] = {}
        for index, request in enumerate(requests):
            verdict = self._grade_here(request)
            if isinstance(verdict, str):
                waiting.setdefault((request.gold, verdict), []).append(index)
                verdicts.append(None)
            else:
                verdicts.append(verdict)
        tasks = [Task(op="judge", gold=gold, answer=answer) for gold, answer in waiting]
        failures: Counter[str] = Counter()
        for (_, answer), indices, result in zip(waiting, waiting.values(), self._pool.run(tasks), strict=True):
            for index in indices:
                verdicts[index] = _verdict_of(result, answer)
            if result.failed:
                failures[result.failed] += len(indices)
        done = [verdict for verdict in verdicts if verdict is not None]
        assert len(done) == len(requests)
        self._count(done, failures, time.perf_counter() - started)
        return done

    def check_gold(self, kind: str, gold: str) -> str | None:
        """Why a gold answer is unusable, or None. A gold answer must accept itself and be readable."""
        if kind not in KINDS:
            return _unknown_kind(kind)
        if not gold.strip():
            return "the gold answer is empty"
        if kind == "number":
            return (
                None
                if parse_number(gold) is not None
                else (f"the gold answer {gold!r} is not one number; correct it, or use kind exact or math")
            )
        if kind == "exact":
            return None
        if len(gold) > MAX_CHARACTERS:
            return f"the gold answer has {len(gold)} characters; at most {MAX_CHARACTERS} are compared, use kind exact"
        answer, _ = find_answer(rf"\boxed{{{gold}}}")
        if answer is None or decide(gold, answer) is not True:
            return f"the gold answer {gold!r} has unbalanced braces or holds a box; give what stands inside the box"
        if _INTEGER.fullmatch(gold):
            return None
        result = self._pool.run([Task(op="check", gold=gold)])[0]
        problem = result.reason if result.failed else result.problem
        return f"the gold answer {gold!r} is {problem}; use \\text{{}} for words, or kind exact" if problem else None

    def metrics(self) -> dict[str, float]:
        """Counts since the start: correct, incorrect, unknown; timeouts, crashes, errors among unknown; seconds."""
        with self._lock:
            counts = self._counts
            return {
                "correct": counts["correct"],
                "incorrect": counts["incorrect"],
                "unknown": counts["unknown"],
                "timeouts": counts["timeout"],
                "crashes": counts["crash"] + counts["memory"],
                "errors": counts["error"],
                "workers_started": self._pool.num_started,
                "seconds": self._seconds,
            }

    def _grade_here(self, request: GradeRequest) -> Verdict | str:
        """A verdict, or the extracted answer when only a worker can tell."""
        if request.kind not in KINDS:
            raise DataError(_unknown_kind(request.kind))
        text, reason = find_answer_text(request.text, request.finish_reason, self._thinking)
        if text is None:
            return Verdict(outcome="incorrect", reason=reason)
        if request.kind == "exact":
            return _verdict(exact_match(request.gold, text), text.strip(), "another text")
        if request.kind == "number":
            equal, found, reason = number_match(request.gold, text)
            return _verdict(equal, found, reason)
        answer, reason = find_answer(text)
        if answer is None:
            return Verdict(outcome="incorrect", reason=reason)
        gold = request.gold
        # Most answers are integers, and most of those are right.
        if answer == gold:
            return Verdict(outcome="correct", extracted=answer)
        if _INTEGER.fullmatch(answer) and _INTEGER.fullmatch(gold):
            return _verdict(int(answer) == int(gold), answer, "another integer")
        equal_here = decide(gold, answer)
        return answer if equal_here is None else _verdict(equal_here, answer, "not equal to the gold answer")

    def _count(self, verdicts: Sequence[Verdict], failures: Counter[str], seconds: float) -> None:
        outcomes = Counter(verdict.outcome for verdict in verdicts)
        with self._lock:
            self._counts.update(outcomes)
            self._counts.update(failures)
            self._seconds += seconds


def _verdict(equal: bool, extracted: str | None, reason: str) -> Verdict:
    return Verdict(outcome="correct" if equal else "incorrect", extracted=extracted, reason="" if equal else reason)


def _verdict_of(result: TaskResult, answer: str) -> Verdict:
    if result.failed:
        return Verdict(outcome="unknown", extracted=answer, reason=f"{result.failed}: {result.reason}")
    return _verdict(result.equal, answer, "not equal to the gold answer")


def _unknown_kind(kind: str) -> str:
    return f"kind is {kind!r}; a verifier is one of {', '.join(KINDS)}"
