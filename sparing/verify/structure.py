r"""Compare two answers by their structure: lists, tuples, intervals, equations, matrices, words.

What math-verify gets wrong is mostly structure: it equates (1,2) with "1,2", unlike equations, and 2516_7 with
2516_8, and it knows no ellipsis. So structure is decided here, and only single expressions are left to `scalar`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sparing.verify.latex import enclosing, normalise, rational, same_rational, split_top, squash

Scalar = Callable[[str, str], bool]
"""Whether two single expressions, in normalised LaTeX, are equal; the first is gold."""

_OR = re.compile(
    r",?\s*(?:\\text\s*\{\s*,?\s*(?:or|and)\s*\}|(?<![a-zA-Z\\])(?:or|and)(?![a-zA-Z])|\\lor\b|\\vee\b)\s*"
)
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[^\W\d_](?:[^\W\d_]|[\s'.,:;!?()-])*")
_BARE_WORDS = re.compile(r"[^\W\d_]{2,}(?: [^\W\d_]{2,})*")
_CHOICE = re.compile(r"\(?([A-Z])\)?")
_CHOICE_WITH_TEXT = re.compile(r"\(([A-Z])\)(?!.*\([A-Z]\))|([A-Z])[).:](?!.*[A-Z][).:])", re.DOTALL)
_UNIT_WORDS = (
    # No single letters and no "in": without \text those are variables.
    r"(?:square|cubic)?\s*(?:degrees?|cents?|dollars?|inch(?:es)?|cm|mm|km|ft|feet|foot|yards?|miles?|mph|hours?|"
    r"minutes?|seconds?|units?|days?|weeks?|months?|years?|percent|meters?|kg|grams?|points?)"
)
_UNIT_TAIL = re.compile(rf"(?<=[\d}})])\s*(?:\\text\s*\{{[^{{}}]*\}}|{_UNIT_WORDS}\b)\.?\s*(?:\^\s*\{{?\d\}}?)?$")
_DEGREES = re.compile(r"\s*\^\s*(?:\\circ(?![a-zA-Z])|\{\s*\\circ\s*\})$|\\degrees?$")
_SYMBOL = re.compile(r"(?:[A-Za-z]|\\[a-zA-Z]+)(?:_\{?\w+\}?)?'?(?:\([A-Za-z, ]+\))?")
_NAME = re.compile(rf"(?:{_SYMBOL.pattern}|\([A-Za-z](?:\s*,\s*[A-Za-z])+\)|\\text\s*\{{[^{{}}]*\}})")
_EQUALS = re.compile(r"(?<![<>!=])=(?!=)")
_RELATION = re.compile(r"(\\le(?![a-zA-Z])|\\ge(?![a-zA-Z])|<|>)")
_MEMBER = re.compile(rf"{_SYMBOL.pattern}\s*\\in(?![a-zA-Z])\s*")
_NUMERAL = re.compile(r"(?:\\text\s*\{)?([0-9A-Z]+)\}?(?:_\{?(?:\\text\s*\{)?(\d+)\}*)?")
_MATRIX = re.compile(r"\\begin\s*\{([a-zA-Z]*matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\s*\{\1\}", re.DOTALL)
_PLUS_MINUS = re.compile(r"\\(pm|mp)(?![a-zA-Z])")


def same_answer(gold: str, answer: str, scalar: Scalar) -> bool:
    """Whether `answer` means `gold`; both as written. Raises what `scalar` raises."""
    gold, answer = normalise(gold), normalise(answer)
    if squash(gold) == squash(answer):
        return bool(gold)
    words = _same_words(gold, answer)
    # "5 or 6" is a list of two from here on, and so never the answer 6.
    return _same(_OR.sub(",", gold), _OR.sub(",", answer), scalar) if words is None else words


def _same(gold: str, answer: str, scalar: Scalar) -> bool:
    """Top-down: what holds several things first, single expressions last."""
    if squash(gold) == squash(answer):
        return True
    if "..." in gold or "..." in answer:
        # Two different sequences with a gap have no decidable equality.
        return False
    for decide in (_same_words, _same_numeral):
        decided = decide(gold, answer)
        if decided is not None:
            return decided
    gold, answer = _MEMBER.sub("", gold, count=1), _MEMBER.sub("", answer, count=1)
    for compare in (_same_union, _same_list, _same_matrix, _same_equation, _same_brackets):
        verdict = compare(gold, answer, scalar)
        if verdict is not None:
            return verdict
    return _same_single(gold, answer, scalar)


def single_expressions(gold: str) -> list[str]:
    """The expressions of a gold answer that `scalar` would be asked about: no words, no numerals, no plain numbers."""
    return _expressions(_OR.sub(",", text)) if not is_words(text := normalise(gold)) else []


def _expressions(text: str) -> list[str]:
    text = _interval(_MEMBER.sub("", text, count=1))[0]
    if "..." in text or is_words(text) or _CHOICE.fullmatch(text) or _NUMERAL.fullmatch(squash(text)):
        return []
    matrix, pair = _MATRIX.fullmatch(text), enclosing(text)
    if matrix:
        parts = [cell.strip() for row in _rows(matrix[2]) for cell in row.split("&")]
    elif r"\cup" in text:
        parts = split_top(text, r"\cup")
    elif pair:
        parts = split_top(pair[1])
    else:
        parts = _elements(text)[0]
        sides = _sides(text)
        if len(parts) == 1 and len(sides) > 1:
            parts = sides[1:] if _NAME.fullmatch(sides[0]) else sides
    if parts != [text]:
        return [expression for part in parts for expression in _expressions(part)]
    text = _without_unit(text)[0]
    return [] if rational(text) is not None else [text]


def is_words(gold: str) -> bool:
    r"""Whether a normalised gold answer is words: all inside \text, or bare words that no product looks like."""
    inner = _TEXT.sub(r"\1", gold).strip()
    if inner != gold:
        return bool(_WORDS.fullmatch(inner))
    return bool(_BARE_WORDS.fullmatch(gold)) and (len(gold) > 3 or gold.istitle())


def _same_words(gold: str, answer: str) -> bool | None:
    """Words and choices; None when gold is neither."""
    bare, said = _TEXT.sub(r"\1", gold).strip(), _TEXT.sub(r"\1", answer).strip()
    choice = _CHOICE.fullmatch(bare)
    if choice:
        given = _CHOICE.fullmatch(said) or (None if _OR.search(said) else _CHOICE_WITH_TEXT.match(said))
        if given:
            return choice[1] in given.groups()
        # A lone capital may also be a variable, as in r = A; only \text or brackets make it a choice for sure.
        return False if bare != gold or len(bare) > 1 else None
    return _fold(bare) == _fold(said) if is_words(gold) else None


def _fold(words: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", words.replace("'", "")).casefold().split())


def _same_numeral(gold: str, answer: str) -> bool | None:
    """2516_8 against 2516_8 or a bare 2516; another base is another number."""
    left, right = _NUMERAL.fullmatch(squash(gold)), _NUMERAL.fullmatch(squash(answer))
    if not left or not right or not (left[2] or right[2]):
        return None
    return left[1] == right[1] and (left[2] == right[2] or not (left[2] and right[2]))


def _same_union(gold: str, answer: str, scalar: Scalar) -> bool | None:
    if r"\cup" not in gold and r"\cup" not in answer:
        return None
    sides = []
    for text in (gold, answer):
        parts = split_top(text, r"\cup")
        # "x < 2 or x > 5" is a union as well.
        sides.append(parts if len(parts) > 1 else split_top(text))
    return _same_multiset(sides[0], sides[1], scalar)


def _same_list(gold: str, answer: str, scalar: Scalar) -> bool | None:
    r"""Unordered lists, with or without \{ \}; \pm stands for two elements."""
    left, left_listed = _elements(gold)
    right, right_listed = _elements(answer)
    if not left_listed and not right_listed:
        return None
    named = [_EQUALS.split(part)[0].strip() for part in left if _EQUALS.search(part)]
    if len(named) == len(left) and len(set(named)) > 1 and not any(_EQUALS.search(part) for part in right):
        # "x=1, y=2" answered by "1, 2": the order carries the names.
        values = [part.split("=", 1)[1].strip() for part in left]
        return len(values) == len(right) and all(_same(a, b, scalar) for a, b in zip(values, right, strict=True))
    return _same_multiset(left, right, scalar)


def _elements(text: str) -> tuple[list[str], bool]:
    """Elements and whether the text is a list at all."""
    pair = enclosing(text)
    braces = pair is not None and pair[0] == "{}"
    parts = split_top(pair[1] if braces and pair else text)
    head = re.match(r"([A-Za-z])\s*=\s*(?=.*,)", text)
    if head and len(parts) > 1 and not any("=" in part for part in parts[1:]):
        # "x = 1, 2" names every element.
        parts[0] = parts[0][head.end() :]
    expanded: list[str] = []
    for part in parts:
        if len(_PLUS_MINUS.findall(part)) == 1 and enclosing(part) is None:
            expanded += [_PLUS_MINUS.sub("+", part).lstrip("+ "), _PLUS_MINUS.sub("-", part)]
        else:
            expanded.append(part)
    return expanded, braces or len(expanded) > 1


def _same_multiset(gold: Sequence[str], answer: Sequence[str], scalar: Scalar) -> bool:
    if len(gold) != len(answer):
        return False
    rest = list(answer)
    for element in gold:
        at = next((i for i, candidate in enumerate(rest) if _same(element, candidate, scalar)), None)
        if at is None:
            return False
        del rest[at]
    return True


def _same_matrix(gold: str, answer: str, scalar: Scalar) -> bool | None:
    left, right = _MATRIX.fullmatch(gold), _MATRIX.fullmatch(answer)
    if not left and not right:
        return None
    if not left or not right:
        return False
    rows = [[[cell.strip() for cell in row.split("&")] for row in _rows(match[2])] for match in (left, right)]
    if [len(row) for row in rows[0]] != [len(row) for row in rows[1]]:
        return False
    left_cells, right_cells = ([cell for row in side for cell in row] for side in rows)
    return all(_same(a, b, scalar) for a, b in zip(left_cells, right_cells, strict=True))


def _rows(body: str) -> list[str]:
    return [row for row in re.split(r"\\cr(?![a-zA-Z])", body) if row.strip()]


def _same_equation(gold: str, answer: str, scalar: Scalar) -> bool | None:
    left, right = _sides(gold), _sides(answer)
    if len(left) == 1 and len(right) == 1:
        return None
    if len(right) > 2 or (len(right) == 2 and len(left) == 1):
        # "x = 2 + 3 = 5" says 5 only if every part behind the name does; "7 = 8" says nothing.
        values = right[1:] if _NAME.fullmatch(right[0]) else right
        target = left[-1] if len(left) == 1 or _NAME.fullmatch(left[0]) else None
        return target is not None and all(_same(target, value, scalar) for value in values)
    if len(right) == 1:
        return len(left) == 2 and bool(_NAME.fullmatch(left[0])) and _same(left[1], right[0], scalar)
    if squash(left[0]) == squash(right[0]) and len(left) == 2 and _NAME.fullmatch(left[0]):
        return _same(left[1], right[1], scalar)
    return scalar("=".join(left), "=".join(right))


def _sides(text: str) -> list[str]:
    r"""Parts between equals signs; "5 = x" is turned to name the left side. \text{Area} counts as a name."""
    parts = [part.strip() for part in _EQUALS.split(text)]
    if len(parts) == 2 and _NAME.fullmatch(parts[1]) and not _NAME.fullmatch(parts[0]):
        parts.reverse()
    return parts


def _same_brackets(gold: str, answer: str, scalar: Scalar) -> bool | None:
    """Tuples and intervals, ordered, with their kind of bracket; inequalities in one variable are intervals."""
    (left, left_name), (right, right_name) = _interval(gold), _interval(answer)
    if left_name and right_name and left_name != right_name:
        return False
    left_pair, right_pair = enclosing(left), enclosing(right)
    left_parts = split_top(left_pair[1]) if left_pair else [left]
    right_parts = split_top(right_pair[1]) if right_pair else [right]
    if len(left_parts) == 1 and len(right_parts) == 1:
        return None
    if not left_pair or not right_pair or left_pair[0] != right_pair[0] or len(left_parts) != len(right_parts):
        return False
    return all(_same(a, b, scalar) for a, b in zip(left_parts, right_parts, strict=True))


def _interval(text: str) -> tuple[str, str]:
    r"""("(3,5)", "x") for 3<x<5 and ("[3,\infty)", "x") for x \ge 3; other text comes back with an empty name."""
    parts = [part.strip().replace(r"\le", "<=").replace(r"\ge", ">=") for part in _RELATION.split(text)]
    if len(parts) == 3:
        # Complete the half-line to low < name < high, in either direction of the signs.
        infinite = (r"-\infty", r"\infty") if parts[1].startswith("<") else (r"\infty", r"-\infty")
        strict = parts[1][0]
        named_first = _SYMBOL.fullmatch(parts[0])
        parts = [infinite[0], strict, *parts] if named_first else [*parts, strict, infinite[1]]
    if len(parts) != 5 or not _SYMBOL.fullmatch(parts[2]) or parts[1][0] != parts[3][0]:
        return text, ""
    low, first, name, second, high = parts if parts[1].startswith("<") else reversed(parts)
    return f"{'[' if '=' in first else '('}{low},{high}{']' if '=' in second else ')'}", name


def _same_single(gold: str, answer: str, scalar: Scalar) -> bool:
    """One expression each: exact numbers here, everything else by `scalar`."""
    (gold, gold_percent), (answer, answer_percent) = _without_unit(gold), _without_unit(answer)
    if squash(gold) == squash(answer):
        return True
    target, value = rational(gold), rational(answer)
    if target is not None and value is not None:
        if same_rational(target, value):
            return True
        # 25 %, 25 and 0.25 are spellings of one answer, but 0.25 for a gold answer of 25 is not.
        return gold_percent != answer_percent and same_rational(
            target / 100 if gold_percent else target, value / 100 if answer_percent else value
        )
    return scalar(gold, answer)


def _without_unit(text: str) -> tuple[str, bool]:
    """Drop a unit, degrees, a percent sign and brackets around the whole; also return whether it was a percentage."""
    text, percent = text.strip(), False
    while True:
        short = _DEGREES.sub("", _UNIT_TAIL.sub("", text)).strip()
        if short.endswith("%") or re.search(r"percent\W*$", text):
            short, percent = short.removesuffix("%").strip(), True
        pair = enclosing(short)
        if pair and pair[0] == "()":
            short = pair[1]
        if short == text:
            return text, percent
        text = short
