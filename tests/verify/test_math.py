from __future__ import annotations

import pytest

from sparing.verify.latex import normalise, rational
from sparing.verify.math import check, decide, judge

EQUAL = [
    # Numbers.
    ("033", "33"),
    ("10,\\!080", "10,080"),
    ("\\$32,\\!348", "\\$32,348"),
    ("1{,}000", "1000"),
    ("3\\frac{1}{2}", "\\frac{7}{2}"),
    (".5", "\\dfrac12"),
    ("-\\frac{1}{2}", "\\frac{-1}{2}"),
    ("1234567", "1234567.0000001"),
    ("\uff13", "3"),
    ("-4", "\u22124"),
    # Units, degrees and percentages.
    ("90^\\circ", "90"),
    ("145", "145\\text{ degrees}"),
    ("864 \\mbox{ inches}^2", "864"),
    ("5.4 \\text{ cents}", "5.4cents"),
    ("25\\%", "25"),
    ("25\\%", "0.25"),
    # Expressions.
    ("\\frac{\\sqrt3}{3}", "\\frac{1}{\\sqrt3}"),
    ("70 \\sqrt{2}", "70*sqrt(2)"),
    ("\\frac{1}{2^{99}}", "2^{-99}"),
    ("x^2+2x+1", "(x+1)^2"),
    ("\\sin^2 x+\\cos^2 x", "1"),
    ("e^{i\\pi}", "-1"),
    ("3+4i", "4i+3"),
    ("\\log_2 8", "3"),
    ("p - q", "p-q"),
    # Lists and sets.
    ("-2,1", "1,-2"),
    ("\\{1,2,3\\}", "\\{3,2,1\\}"),
    ("\\{1,2\\}", "1,2"),
    ("\\pm 2", "2,-2"),
    ("3 \\pm 2 \\sqrt{2}", "3-2\\sqrt2, 3+2\\sqrt2"),
    ("10\\text{ or }12", "12, 10"),
    ("x=1,y=2", "y=2,x=1"),
    ("x=1,y=2", "1,2"),
    # Tuples, intervals and inequalities.
    ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3,pi/2)"),
    ("(3,5)", "3<x<5"),
    ("3<x<5", "(3,5)"),
    ("[3,\\infty)", "x \\ge 3"),
    ("(-\\infty,3]", "3 \\geq x"),
    ("x \\in [-2,7]", "[-2,7]"),
    ("(-\\infty,2)\\cup(5,\\infty)", "x<2 \\text{ or } x>5"),
    ("(0,9) \\cup (9,36)", "(9,36)\\cup(0,9)"),
    # Equations.
    ("5", "x=5"),
    ("x=5", "5"),
    ("5", "x = 2+3 = 5"),
    ("y = 2x + 3", "2x+3"),
    ("2x+y=3", "4x+2y=6"),
    ("2x+y=3", "y=3-2x"),
    # Matrices.
    ("\\begin{pmatrix} -1/3 \\\\ 2/3 \\end{pmatrix}", "\\begin{bmatrix} -\\frac13 \\\\ \\frac23 \\end{bmatrix}"),
    # Bases.
    ("2516_8", "2516_8"),
    ("2516_8", "2516"),
    ("4210_{5}", "4210_5"),
    # Words and choices.
    ("\\text{Evelyn}", "Evelyn"),
    ("Yes", "\\text{yes}"),
    ("C", "\\text{(C)}"),
    ("\\text{(C)}", "C"),
    ("C", "\\textbf{(C)}\\ 12"),
]
UNEQUAL = [
    # What math-verify takes for equal.
    ("\\frac{1}{2^{99}}", "\\frac{1}{2^{98}}"),
    ("\\frac{1}{2004!}", "\\frac{1}{2006!}"),
    ("1-\\frac{1}{e}", "1+\\frac{1}{e}"),
    ("1,2,\\ldots,n", "1,3,5,\\ldots,2n-1"),
    ("\\frac13", "0.333333"),
    ("0.12345678", "0.12345699"),
    ("(1,2)", "1,2"),
    ("1,2", "(1,2)"),
    ("2516_7", "2516_8"),
    ("2x+y=3", "x-y=1"),
    ("x=5", "y=5"),
    ("n", "N"),
    ("0", "\\frac{1}{2^{99}}"),
    # Hedging.
    ("5", "5 or 6"),
    ("6", "5 \\text{ or } 6"),
    ("7", "1,2,3,4,5,6,7"),
    ("C", "(C) or (D)"),
    ("C", "(C)(D)"),
    # Plainly another answer.
    ("7", "7=8"),
    ("7", "8=7"),
    ("1.414", "\\sqrt{2}"),
    ("25", "0.25"),
    ("(1,2)", "(2,1)"),
    ("(-2,7]", "[-2,7]"),
    ("x<3", "x \\le 3"),
    ("x<3", "x>3"),
    ("1,2", "1,1"),
    ("1,1", "1,2"),
    ("x=1,y=2", "x=2,y=1"),
    ("x=1,y=2", "2,1"),
    ("\\text{even}", "\\text{neve}"),
    ("\\text{(C)}", "\\text{(D)}"),
    ("\\begin{pmatrix}1&2\\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"),
    ("p-q", "q-p"),
    ("5m", "5"),
    ("7", "\\text{seven}"),
    ("\\infty", "-\\infty"),
    ("5", "__import__('os').getcwd()"),
    ("5", "\\frac{"),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(gold: str, answer: str) -> None:
    assert judge(gold, answer)
    assert decide(gold, answer) in (True, None)


@pytest.mark.parametrize(("gold", "answer"), UNEQUAL)
def test_unequal(gold: str, answer: str) -> None:
    assert not judge(gold, answer)
    assert decide(gold, answer) in (False, None)


@pytest.mark.parametrize("gold", sorted({gold for gold, _ in EQUAL + UNEQUAL}))
def test_gold_accepts_gold(gold: str) -> None:
    assert decide(gold, gold) is True
    assert check(gold) == ""


def test_long_answers_are_refused_unread() -> None:
    assert decide("5", "1+" * 1000 + "1") is False


def test_a_deeply_nested_answer_is_left_to_a_worker() -> None:
    assert decide("\\{1\\}", "\\{" * 450 + "1" + "\\}" * 450) is None


def test_an_unreadable_gold_answer_is_named() -> None:
    assert "not readable" in check("\\frac{1}{")


def test_rationals_are_exact() -> None:
    assert rational("0.1") == rational("\\frac{1}{10}") == rational("1/10")
    assert rational("\\frac{1}{0}") is rational("1/0") is rational("x") is None


def test_normalising_keeps_rows_of_matrices_and_words() -> None:
    assert normalise(r"\begin{pmatrix}1\\ 2\end{pmatrix}") == r"\begin{pmatrix}1 \cr 2\end{pmatrix}"
    assert normalise(r"$\text{ no }$.") == r"\text{ no }"
