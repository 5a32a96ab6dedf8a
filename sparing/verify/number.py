r"""Kind `number`: the last number of the answer text equals the gold number.

For models that will not write \boxed, such as small instruct models without a thinking block. It is more lenient
than `math`, where a missing box is no answer: ask for it by name, on problems whose answers are plain numbers.
"""

from __future__ import annotations

import re
from fractions import Fraction

from sparing.verify.latex import MAX_CHARACTERS, rational, same_rational

# A sign right behind a digit, a letter or a bracket is a subtraction: "7-2" ends in 2.
_NUMBER = re.compile(
    r"(?:(?<![\w)\]])[-+\u2212])?\$?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:(?<=\d)\.\d+|(?<![\d.])\.\d+)?(?:\s?/\s?\d+)?"
)
_HEDGE = re.compile(r"\s*,?\s*(?:or|and/or|/)\s*\$?\s*$", re.IGNORECASE)


def parse_number(text: str) -> Fraction | None:
    """The value of a text that is one number, or None."""
    return rational(text.strip().lstrip("$").replace("\u2212", "-").replace("$", ""))


def last_number(text: str) -> str | None:
    """The last number of `text` as written, or None; "5 or 6" is hedging and gives None."""
    found = [match for match in _NUMBER.finditer(text[-MAX_CHARACTERS:]) if any(c.isdigit() for c in match.group())]
    if not found:
        return None
    if len(found) > 1 and _HEDGE.fullmatch(text[-MAX_CHARACTERS:][found[-2].end() : found[-1].start()]):
        return None
    return found[-1].group()


def number_match(gold: str, answer: str) -> tuple[bool, str | None, str]:
    """Return (equal, the number found, reason when not equal)."""
    found = last_number(answer)
    if found is None:
        return False, None, "the answer holds no number, or hedges between two"
    value, target = parse_number(found), parse_number(gold)
    if value is None or target is None:
        return False, found, "not a number"
    return (True, found, "") if same_rational(target, value) else (False, found, "another number")
