from __future__ import annotations

import pytest

from sparing.train.validation import _known_accuracy
from sparing.types import Outcome, Problem, ProblemResult, Turn


def result(*outcomes: Outcome) -> ProblemResult:
    problem = Problem(id="p", turns=(Turn(role="user", content="q"),), answer="a")
    return ProblemResult(
        problem=problem,
        outcomes=outcomes,
        lengths=(3,) * len(outcomes),
        finish_reasons=("stop",) * len(outcomes),
    )


def test_a_verifier_that_fails_does_not_look_like_a_decline() -> None:
    assert _known_accuracy(result("correct", "unknown", "correct", "unknown"), 0.5) == 1.0
    assert _known_accuracy(result("correct", "incorrect", "incorrect"), 0.5) == pytest.approx(1 / 3)
    assert _known_accuracy(result("unknown", "unknown"), 0.75) == 0.75
