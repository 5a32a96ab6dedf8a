from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sparing.errors import DataError
from sparing.settings import ThinkingSettings, VerifierSettings
from sparing.types import FinishReason, Verdict
from sparing.verify.grader import Grader, GradeRequest


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(ThinkingSettings(), VerifierSettings(workers=1, timeout=20.0)) as judge:
        yield judge


def grade(grader: Grader, gold: str, text: str, *, kind: str = "math", finish_reason: FinishReason = "stop") -> Verdict:
    return grader.grade([GradeRequest(kind=kind, gold=gold, text=text, finish_reason=finish_reason)])[0]


def test_verdicts_of_each_kind(grader: Grader) -> None:
    assert grade(grader, "5", r"so 5</think>It is $\boxed{5}$.") == Verdict(outcome="correct", extracted="5")
    assert grade(grader, "5", "</think>2 + 3 = 5", kind="number") == Verdict(outcome="correct", extracted="5")
    assert grade(grader, "a b", "</think> a  b\n", kind="exact") == Verdict(outcome="correct", extracted="a  b")
    assert grade(grader, "5", r"</think>\boxed{6}").reason == "another integer"
    assert grade(grader, "a b", "</think>a b c", kind="exact").outcome == "incorrect"


def test_a_box_in_the_thinking_or_no_box_is_no_answer(grader: Grader) -> None:
    assert grade(grader, "5", r"\boxed{5}</think>It is 5.").outcome == "incorrect"
    assert grade(grader, "5", r"</think>The answer is 5.").reason == r"no \boxed answer"


def test_truncation_is_incorrect_for_every_kind(grader: Grader) -> None:
    for kind in ("math", "number", "exact"):
        verdict = grade(grader, "5", r"</think>\boxed{5}", kind=kind, finish_reason="length")
        assert verdict == Verdict(outcome="incorrect", reason="the response ran into the token limit")


def test_sympy_answers_go_to_a_worker_and_come_back(grader: Grader) -> None:
    started = grader.metrics()["workers_started"]
    requests = [
        GradeRequest(kind="math", gold=gold, text=rf"</think>\boxed{{{answer}}}", finish_reason="stop")
        for gold, answer in [("x^2-1", "(x-1)(x+1)"), ("7", "7"), ("x^2-1", "(x-1)(x+2)"), ("x^2-1", "(x-1)(x+1)")]
    ]
    outcomes = [verdict.outcome for verdict in grader.grade(requests)]
    assert outcomes == ["correct", "correct", "incorrect", "correct"]
    assert grader.metrics()["workers_started"] <= started + 1


def test_unknown_kinds_are_refused(grader: Grader) -> None:
    with pytest.raises(DataError, match="kind is 'code'; a verifier is one of math, number, exact"):
        grade(grader, "5", "</think>5", kind="code")


@pytest.mark.parametrize(
    ("kind", "gold"),
    [("math", "5"), ("math", r"\frac{1}{2}"), ("math", r"\sqrt{2}"), ("math", "Yes"), ("math", r"x \in [-2,7]"),
     ("number", "1,000"), ("exact", "any text")],
)  # fmt: skip
def test_usable_gold(grader: Grader, kind: str, gold: str) -> None:
    assert grader.check_gold(kind, gold) is None


@pytest.mark.parametrize(
    ("kind", "gold", "reason"),
    [
        ("math", " ", "empty"),
        ("math", "{5", "unbalanced braces"),
        ("math", "5}", "unbalanced braces"),
        ("math", r"\boxed{5} or 6", "holds a box"),
        ("math", r"\frac{}{}", "not readable as mathematics"),
        ("math", "1" * 3000, "at most 2000"),
        ("number", "five", "not one number"),
        ("code", "5", "a verifier is one of"),
    ],
)
def test_unusable_gold_is_explained(grader: Grader, kind: str, gold: str, reason: str) -> None:
    assert reason in (grader.check_gold(kind, gold) or "")


def test_hostile_answers_end_at_the_deadline_as_unknown() -> None:
    with Grader(ThinkingSettings(), VerifierSettings(workers=2, timeout=1.0)) as judge:
        hostile = ["9^{9^{9^9}}", "(10^9)!", "2^{2^{40}}"]
        requests = [
            GradeRequest(kind="math", gold="5", text=rf"</think>\boxed{{{answer}}}", finish_reason="stop")
            for answer in hostile
        ]
        verdicts = judge.grade(requests)
        assert [verdict.outcome for verdict in verdicts] == ["unknown"] * 3
        assert all(verdict.reason.startswith(("timeout", "memory")) for verdict in verdicts)
        # Two workers, three answers of one second, and the start of the workers on a busy machine.
        assert judge.metrics()["seconds"] < 30.0


@pytest.mark.slow
def test_integers_are_judged_50_000_a_second() -> None:
    requests = [
        GradeRequest(
            kind="math",
            gold=str(i % 900),
            text=f"<think>{'so it goes ' * 50}{i}</think>\nThe answer is $\\boxed{{{i % 899}}}$.",
            finish_reason="stop",
        )
        for i in range(50_000)
    ]
    with Grader(ThinkingSettings(), VerifierSettings()) as judge:
        best = 0.0
        for _ in range(5):
            started = time.process_time()
            judge.grade(requests)
            best = max(best, len(requests) / (time.process_time() - started))
        assert judge.metrics()["workers_started"] == 0
    assert best >= 50_000
