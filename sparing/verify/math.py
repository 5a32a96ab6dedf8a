r"""Kind `math`: the last \boxed answer is mathematically equal to the gold answer.

`decide` runs in-process and answers what needs no sympy; `judge` answers everything, may run for ever or crash, and is
called in worker processes only (`sparing.verify.worker`). Nothing here imports torch.
"""

from __future__ import annotations

import random
from typing import Any

from sparing.verify.latex import MAX_CHARACTERS
from sparing.verify.structure import same_answer, single_expressions

_DIGITS = 60
# Two real numbers that agree to so many digits are taken as equal; 1/2^99 and 1/2^98 do not, whatever their size.
_AGREEMENT = 40
_POINTS = 3


class _NeedsSympyError(Exception):
    """Raised out of a structural comparison that reached an expression only sympy can decide."""


class UnreadableError(ValueError):
    """An expression that the LaTeX parser cannot read."""


def decide(gold: str, answer: str) -> bool | None:
    """Whether `answer` equals `gold`, or None when sympy is needed. Fast and bounded."""
    if len(answer) > MAX_CHARACTERS:
        return False
    try:
        return same_answer(gold, answer, _needs_sympy)
    except (_NeedsSympyError, RecursionError):
        return None


def judge(gold: str, answer: str) -> bool:
    """Whether `answer` equals `gold`. Unbounded in time and memory: for workers only.

    An unreadable answer is not equal; other errors of the parser and of sympy are raised.
    """
    try:
        return same_answer(gold, answer, same_expression)
    except UnreadableError:
        return False


def check(gold: str) -> str:
    """Why a gold answer can be matched by its own spelling only; empty when nothing is wrong. For workers only."""
    try:
        for leaf in single_expressions(gold):
            if not same_expression(leaf, leaf):
                return f"{leaf} does not equal itself for math-verify"
    except UnreadableError as error:
        return str(error)
    return ""


def same_expression(gold: str, answer: str) -> bool:
    """Whether two single expressions or equations are equal: math-verify first, then a check of its yes.

    math-verify compares numbers at a fixed precision, so it takes 1/2^99 for 1/2^98 and 0.333333 for 1/3. Its yes
    stands only if both sides agree relative to their size; decimals are read as exact fractions.
    """
    from math_verify import verify

    left, right = _read(gold), _read(answer)
    if "=" in gold or "=" in answer:
        return _same_line(left, right)
    equal = verify(left, right, strict=True, timeout_seconds=None, raise_on_error=True)
    return bool(equal) and not _differ(left, right)


def _needs_sympy(gold: str, answer: str) -> bool:
    raise _NeedsSympyError


def _read(text: str) -> Any:
    """Parse normalised LaTeX to sympy; no `eval` is involved. Case counts, i is the imaginary unit."""
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig, NormalizationConfig, latex2sympy, normalize_latex
    from math_verify.grader import should_treat_as_complex
    from sympy import I

    # Units are dropped before, and only where they cannot be variables.
    cleaning = NormalizationConfig(
        basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
    )
    text = normalize_latex(text, config=cleaning)
    try:
        expression: Any = latex2sympy(
            text,
            is_real=not should_treat_as_complex(text),
            convert_degrees=False,
            normalization_config=None,
            conversion_config=ConversionConfig(lowercase_symbols=False),
        )
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # The parser raises bare Exception on bad syntax.
        raise UnreadableError(f"not readable as mathematics: {text[:80]}") from error
    return expression.subs({symbol: I for symbol in getattr(expression, "free_symbols", ()) if symbol.name == "i"})


def _differ(left: Any, right: Any) -> bool:
    """Whether two sympy expressions that were judged equal are in fact apart."""
    from sympy import Expr, Float, Rational

    if not isinstance(left, Expr) or not isinstance(right, Expr):
        return False
    left, right = (side.replace(Float, lambda *a: Rational(str(Float(*a)))) for side in (left, right))
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    rng = random.Random(0)
    for _ in range(_POINTS if symbols else 1):
        point = {symbol: Rational(rng.randint(101, 997), rng.randint(101, 997)) for symbol in symbols}
        if _apart(left.subs(point), right.subs(point)):
            return True
    return False


def _apart(left: Any, right: Any) -> bool:
    from sympy import Rational, nan, zoo

    left, right = left.doit(), right.doit()
    if isinstance(left, Rational) and isinstance(right, Rational):
        return bool(left != right)
    a, b = left.evalf(_DIGITS), right.evalf(_DIGITS)
    if not (a.is_number and b.is_number) or nan in (a, b) or zoo in (a, b):
        return False
    size = max(abs(a), abs(b))
    if size == 0 or a == b:
        return False
    if 0 in (left, right):
        # Next to an exact zero nothing is relatively small.
        return not (left - right).equals(0)
    return bool(abs(a - b) > size * Rational(1, 10**_AGREEMENT))


def _same_line(left: Any, right: Any) -> bool:
    """Two equations are equal when one is the other times a constant: 2x+y=3 and 4x+2y=6, not x-y=3."""
    from sympy import Eq, simplify

    if not isinstance(left, Eq) or not isinstance(right, Eq):
        return False
    gold, answer = left.lhs - left.rhs, right.lhs - right.rhs
    if simplify(gold) == 0 or simplify(answer) == 0:
        return False
    ratio = simplify(gold / answer)
    return bool(not ratio.free_symbols and ratio.is_finite and ratio != 0)
