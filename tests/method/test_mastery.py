from __future__ import annotations

import pytest

from sparing.errors import MethodError, SparingError
from sparing.method import is_mastered, max_length, pass_rate, safe_length


def test_pass_rate_is_the_share_of_correct_rollouts() -> None:
    assert pass_rate([True, True, False, True]) == 0.75
    assert pass_rate([0, 0]) == 0.0


def test_gate_opens_only_when_all_are_correct() -> None:
    assert is_mastered([1] * 8)
    assert not is_mastered([1] * 7 + [0])
    assert not is_mastered([0] * 8)


def test_one_unknown_verdict_closes_the_gate() -> None:
    assert is_mastered([1, 1, 1], [0, 0, 0])
    assert not is_mastered([1, 1, 1], [0, 1, 0])
    assert not is_mastered([1, 1, 0], [0, 0, 1])


def test_length_targets() -> None:
    assert safe_length([14, 10, 20, 12]) == 13.0  # mean of the middle two, 12 and 14
    assert safe_length([30, 10, 20]) == 20.0
    assert max_length([14, 10, 20, 12]) == 20


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: pass_rate([]), "empty"),
        (lambda: pass_rate([0.5, 1]), "0.5"),
        (lambda: pass_rate([[1, 0]]), r"\(1, 2\)"),
        (lambda: pass_rate([float("nan")]), "nan"),
        (lambda: pass_rate(["yes"]), "yes"),
        (lambda: is_mastered([1, 1], [0]), "unknown_N"),
        (lambda: safe_length([-1, 3]), "-1"),
        (lambda: max_length([3, 4.5]), "4.5"),
    ],
)
def test_bad_input_names_the_value(call, named) -> None:
    with pytest.raises(MethodError, match=named) as caught:
        call()
    assert isinstance(caught.value, SparingError)
