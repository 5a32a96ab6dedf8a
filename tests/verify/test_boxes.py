from __future__ import annotations

import pytest

from sparing.verify.boxes import find_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{5}", "5"),
        (r"so $\boxed{\frac{\sqrt{3}}{2}}$.", r"\frac{\sqrt{3}}{2}"),
        (r"\fbox{3}", "3"),
        (r"\boxed {3}", "3"),
        (r"first \boxed{3}, wait. So \boxed{5}", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\text{a \} b}}", r"\text{a \} b}"),
        (r"\boxed{x = \boxed{5}}", "5"),
        (r"\boxed{5}. The answer is 5.", "5"),
        (r"\boxed{5}. This answer is correct.", "5"),
        (r"\boxed{\frac12}. So the answer is $\frac12$.", r"\frac12"),
    ],
)
def test_the_last_balanced_box_is_the_answer(text: str, answer: str) -> None:
    assert find_answer(text) == (answer, "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("the answer is 5", r"no \boxed"),
        (r"\boxed{5} so \boxed{6", "not terminated"),
        (r"\boxed{\frac{1}{2}", "not terminated"),
        (r"\boxed{ }", "empty"),
        (r"\boxed{5} is not the answer", "takes the boxed answer back"),
        (r"$\boxed{5}$ is wrong, sorry", "takes the boxed answer back"),
        (r"\boxed{5}, no: the answer is 7", "another answer is stated"),
    ],
)
def test_no_answer_and_why(text: str, reason: str) -> None:
    answer, why = find_answer(text)
    assert answer is None
    assert reason in why


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{1} and \boxed{2}", "1,2"),
        (r"$\boxed{1}$, $\boxed{2}$ or $\boxed{3}$", "1,2,3"),
        (r"$x = \boxed{1}$ or $x = \boxed{2}$", "1,2"),
        (r"\boxed{5} and again \boxed{5}", "5"),
        (r"\boxed{5} and \boxed{5}", "5"),
    ],
)
def test_boxes_of_one_statement_are_one_list(text: str, answer: str) -> None:
    assert find_answer(text)[0] == answer
