"""Plain text work on LaTeX answers: normalisation, splitting, numbers. No sympy here; it runs in-process."""

# ruff: noqa: RUF001 (the table below is about look-alike characters)

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

# Longer answers are refused unread, so no pattern below sees more than this.
MAX_CHARACTERS = 2000
# Decimals as close as this, relative, are float noise of one number: 1234567.0000001 is 1234567.
_DECIMAL_NOISE = Fraction(1, 10**12)

_UNICODE: dict[int, str] = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_UNICODE |= {ord(digit): f"^{value}" for value, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_UNICODE |= {
    ord(symbol): text
    for symbol, text in {
        "−": "-", "–": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": "/", "π": r"\pi ", "∞": r"\infty ",
        "°": r"^\circ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "∪": r"\cup ", "∈": r"\in ", "±": r"\pm ",
        "√": r"\sqrt ", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "…": r"\ldots ",
        "θ": r"\theta ", "\u00a0": " ", "\u2009": " ",
    }.items()
}  # fmt: skip

_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\\(?:\s*\[[^\]]*\])?", r" \\cr "),  # A row of a matrix ends; first, or "\\\\ " would be read as a space.
        (r"\\!\s*", ""),
        (r"\\(?:left|right|[bB]ig+[lr]?|displaystyle|limits|mathstrut)(?![a-zA-Z])\s*\.?", ""),
        (r"\\[,;:> ]|~|\\q?quad(?![a-zA-Z])", " "),
        (r"\\[dtc]frac", r"\\frac"),
        (r"\\(?:mbox|textbf|textit|textrm|textnormal|mathrm|mathbf|hbox|rm)\s*\{", r"\\text{"),
        (r"\\leq?(?:slant)?(?![a-zA-Z])|<=", r"\\le "),
        (r"\\geq?(?:slant)?(?![a-zA-Z])|>=", r"\\ge "),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (r"\\neq(?![a-zA-Z])", r"\\ne "),
        (r"\\(?:lbrace|{)", r"\\{"),
        (r"\\(?:rbrace|})", r"\\}"),
        (r"\\(?:l|c|d)?dots[bcio]?(?![a-zA-Z])", "..."),
        (r"\\[\[\]()]", " "),
        (r"\\?\$", ""),
        (r"\\%", "%"),
        (r"^\s*(?:\\approx|\\simeq|\\sim|=)", ""),
        (r"\*\*", "^"),
        (r"(?<![\\a-zA-Z])(pi|infty|theta|sqrt|sin|cos|tan|cot|sec|csc|log|ln)(?![a-zA-Z])", r"\\\1 "),
        (r"(?<![\\a-zA-Z])(?:infinity|inf|oo)(?![a-zA-Z])", r"\\infty "),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
        (r"(\\frac\s*\{[^{}]*\})\s*(\d)", r"\1{\2}"),
        (r"\\sqrt\s*(\d)", r"\\sqrt{\1}"),
        (r"\+\s*\\infty", r"\\infty"),
        (r"\s+", " "),
    )
)
_SIGN = r"(?P<sign>[-+]?)\s*"
_PLAIN = re.compile(_SIGN + r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:\s*/\s*(?P<below>\d+))?")
_FRAC = re.compile(_SIGN + r"(?P<whole>\d+)?\s*\\frac\s*\{\s*(?P<top>-?\d+)\s*\}\s*\{\s*(?P<below>-?\d+)\s*\}")
_PARENTHESES = re.compile(r"\\(sqrt|frac)\s*\(")


@lru_cache(maxsize=4096)
def normalise(text: str) -> str:
    r"""Rewrite spellings of one thing to one spelling; the value is untouched.

    Full-width digits and other Unicode, spacing commands, \dfrac, dollar signs, bare function names, and so on.
    """
    text = text.translate(_UNICODE).strip()
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = _braces_for_parentheses(text)
    return text.strip().rstrip(".;,").strip()


def squash(text: str) -> str:
    """Without any whitespace."""
    return "".join(text.split())


def rational(text: str) -> Fraction | None:
    r"""The exact value of an integer, decimal, a/b, \frac{a}{b} or mixed number; None for anything else."""
    match = _PLAIN.fullmatch(text)
    if match:
        value = Fraction(match["number"].replace(",", "").rstrip("."))
        below = int(match["below"] or 1)
        return None if below == 0 else _signed(match["sign"], value / below)
    match = _FRAC.fullmatch(text)
    if match:
        top, below = int(match["top"]), int(match["below"])
        if below == 0:
            return None
        # 3\frac{1}{2} is a mixed number, never a product.
        return _signed(match["sign"], int(match["whole"] or 0) + Fraction(top, below))
    return None


def same_rational(gold: Fraction, answer: Fraction) -> bool:
    """Exact equality; decimals of one number may differ by float noise, never by rounding (1/3 is not 0.333333)."""
    if gold == answer:
        return True
    if not (_is_decimal(gold) and _is_decimal(answer)):
        return False
    return abs(gold - answer) <= _DECIMAL_NOISE * abs(gold)


def split_top(text: str, separator: str = ",") -> list[str]:
    """Split at separators outside every bracket; a number with thousands separators stays whole."""
    if separator == "," and _PLAIN.fullmatch(text):
        return [text]
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        character = text[at]
        if text.startswith(separator, at) and depth == 0:
            parts.append(text[start:at].strip())
            at += len(separator)
            start = at
            continue
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        at += 1
    parts.append(text[start:].strip())
    return parts


def enclosing(text: str) -> tuple[str, str] | None:
    r"""(brackets, content) when one pair encloses the whole text: "()", "[]", "(]", "[)" or "{}" for \{ \}."""
    if text.startswith(r"\{") and text.endswith(r"\}") and _closes_last(text, 1, len(text) - 1):
        return "{}", text[2:-2].strip()
    if text[:1] in ("(", "[") and text[-1:] in (")", "]") and _closes_last(text, 0, len(text) - 1):
        return text[0] + text[-1], text[1:-1].strip()
    return None


def _closes_last(text: str, first: int, last: int) -> bool:
    depth = 0
    for at in range(first, last + 1):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at == last
    return False


def _braces_for_parentheses(text: str) -> str:
    r"""sqrt(51) was rewritten to \sqrt (51); LaTeX wants \sqrt{51}."""
    while match := _PARENTHESES.search(text):
        depth, at = 1, match.end()
        while at < len(text) and depth:
            depth += (text[at] == "(") - (text[at] == ")")
            at += 1
        if depth:
            return text
        text = f"{text[: match.start()]}\\{match[1]}{{{text[match.end() : at - 1]}}}{text[at:]}"
    return text


def _signed(sign: str, value: Fraction) -> Fraction:
    return -value if sign == "-" else value


def _is_decimal(value: Fraction) -> bool:
    below = value.denominator
    for prime in (2, 5):
        while below % prime == 0:
            below //= prime
    return below == 1
