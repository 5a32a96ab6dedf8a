"""Agreement with labelled cases and real traces, where the checkout has them beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparing.settings import ThinkingSettings, VerifierSettings
from sparing.verify.grader import Grader, GradeRequest

BENCHMARKS = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="no labelled cases at ../shared/benchmarks")

GPT_OSS = ThinkingSettings(open="<|channel|>analysis<|message|>", close="<|start|>assistant<|channel|>final<|message|>")
TRACES = {
    "math_train_longcot_Qwen3-30B-A3B-Thinking-2507": ThinkingSettings(),
    "math_train_longcot_R1-1.5B": ThinkingSettings(),
    "math_train_longcot_R1-32B": ThinkingSettings(),
    "math_train_longcot_gpt-oss-20b": GPT_OSS,
}


def rows(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (BENCHMARKS / path).read_text().splitlines()]


def grader(thinking: ThinkingSettings) -> Grader:
    return Grader(thinking, VerifierSettings(workers=1, timeout=30.0))


@pytest.fixture(scope="module")
def plain() -> Iterator[Grader]:
    with grader(ThinkingSettings(enabled=False)) as judge:
        yield judge


def test_hand_pairs(plain: Grader) -> None:
    pairs = rows("verifier_cases/hand_pairs.jsonl")
    requests = [
        GradeRequest(kind="math", gold=row["gold"], text=row["response"], finish_reason="stop") for row in pairs
    ]
    verdicts = plain.grade(requests)
    apart = {
        row["name"]: verdict.reason
        for row, verdict in zip(pairs, verdicts, strict=True)
        if (verdict.outcome == "correct") != row["expected"] or verdict.outcome == "unknown"
    }
    # "The answer is A" has no box; without one there is no answer of kind `math`.
    assert apart == {"string A": r"no \boxed answer"}


def is_mangled(prediction: str) -> bool:
    r"""Whether the file's producer lost braces, spaces or \text, so that the prediction says something else."""
    marks = (r"\frac*", r"*sqrt(3)4", r"\pm*", "pmatrix", r"\mbox", r"\frac919", r"\frac2707", "11+9a/20", r"{\1")
    return any(mark in prediction for mark in marks) or prediction in (r"\boxed{14/5}", r"\boxed{1371/2}")


def test_right_predictions_of_math500_are_accepted_but_for_mangled_ones(plain: Grader) -> None:
    cases = rows("verifier_cases/math500_gpt_answers.jsonl")
    requests = [
        GradeRequest(kind="math", gold=row["answer"], text=row["prediction"], finish_reason="stop") for row in cases
    ]
    verdicts = plain.grade(requests)
    rejected = [row["prediction"] for row, verdict in zip(cases, verdicts, strict=True) if verdict.outcome != "correct"]
    assert all(map(is_mangled, rejected)), rejected
    assert len(rejected) == 20


def test_every_gold_answer_of_math500_is_usable(plain: Grader) -> None:
    golds = {row["answer"] for row in rows("verifier_cases/math500_gpt_answers.jsonl")}
    assert {gold: problem for gold in golds if (problem := plain.check_gold("math", gold))} == {}


@pytest.mark.parametrize("name", sorted(TRACES))
def test_whole_traces_are_accepted_and_cut_ones_never(name: str) -> None:
    traces = rows(f"traces/{name}.jsonl")
    thinking = TRACES[name]
    with grader(thinking) as judge:
        whole = judge.grade(
            [
                GradeRequest(kind="math", gold=row["last_boxed"] or "", text=row["response"], finish_reason="stop")
                for row in traces
            ]
        )
        # Some traces never leave their thinking, or box their answer nowhere else; those have no answer.
        boxed = [r"\box" in row["response"].rpartition(thinking.close)[2] for row in traces]
        closed = [thinking.close in row["response"] for row in traces]
        expected = [a and b for a, b in zip(boxed, closed, strict=True)]
        assert [verdict.correct for verdict in whole] == expected
        assert sum(expected) >= 85
        for share in (0.5, 0.8):
            cut = [(row["last_boxed"] or "", row["response"][: int(share * len(row["response"]))]) for row in traces]
            truncated = [GradeRequest(kind="math", gold=gold, text=text, finish_reason="length") for gold, text in cut]
            unclosed = [
                GradeRequest(kind="math", gold=gold, text=text, finish_reason="stop")
                for gold, text in cut
                if thinking.close not in text
            ]
            assert unclosed
            outcomes = {verdict.outcome for verdict in judge.grade(truncated + unclosed)}
            assert outcomes == {"incorrect"}
