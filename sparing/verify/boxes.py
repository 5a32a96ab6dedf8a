r"""Find the final answer of a text: its last balanced \boxed or \fbox."""

from __future__ import annotations

import re

_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_PLAIN = re.compile(r"([^{}\\]*)\}")
# Nothing can be stated in so few characters; most responses end right behind the box.
_SHORT = 5
# Boxes that one statement joins are one answer, so that "\boxed{5} or \boxed{6}" cannot pass as 6.
_JOIN = re.compile(
    r"(?:\\[\])]|[\s$.*:])*(?:,|(?:,\s*)?(?:\\(?:text|mbox|mathrm)\s*\{\s*)?\b(?:and|or)\b(?:\s*\})?)"
    r"(?:\\[\[(]|[\s$*]|\\[,;: ]|\\quad)*(?:[A-Za-z]\s*=\s*)?",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\s*\$*\s*(?:is|was|are)\s*(?:not\b|n't\b|wrong\b|incorrect\b)", re.IGNORECASE)
_RESTATED = re.compile(r"\banswer\s*(?:is|was|:|=|should be|must be)\s*([^\n]{1,200})", re.IGNORECASE)


def find_answer(text: str) -> tuple[str | None, str]:
    r"""Return (content of the last box, "") or (None, reason).

    An unterminated last box is no answer. Text behind the box that denies it or states another answer takes the
    answer back. Boxes joined by a comma, "and" or "or" are one list.
    """
    starts = list(_BOX.finditer(text))
    if not starts:
        return None, r"no \boxed answer"
    plain = _PLAIN.match(text, starts[-1].end())
    content, end = (plain[1], plain.end()) if plain else _balanced(text, starts[-1].end())
    if content is None:
        return None, "the last box is not terminated"
    if not content or content.isspace():
        return None, "the last box is empty"
    if end + _SHORT < len(text):
        reason = _taken_back(content, text[end:])
        if reason:
            return None, reason
    return (content if len(starts) == 1 else _with_joined(text, starts, content)), ""


def _taken_back(content: str, after: str) -> str:
    """Why the text behind the box says that the box is not the answer, or an empty text."""
    if _DENIED.match(after):
        return "the text takes the boxed answer back"
    restated = _RESTATED.search(after)
    # "The answer is correct" states nothing; another answer shows by a digit or a command.
    if restated and re.search(r"[\d\\]", restated[1]) and _squash(content) not in _squash(restated[1]):
        return "another answer is stated behind the box"
    return ""


def _with_joined(text: str, starts: list[re.Match[str]], content: str) -> str:
    """Prepend the contents of the boxes that lead up to the last one in the same statement."""
    parts, start = [content], starts[-1].start()
    for match in reversed(starts[:-1]):
        earlier, end = _balanced(text, match.end())
        if earlier is None or end > start or not _JOIN.fullmatch(text, end, start):
            break
        parts.insert(0, earlier)
        start = match.start()
    return ",".join(parts) if len(set(parts)) > 1 else content


def _balanced(text: str, start: int) -> tuple[str | None, int]:
    """Content from `start`, just behind an opening brace, to its closing brace; escaped braces do not count."""
    depth, at = 1, start
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return text[start:at], at + 1
        at += 1
    return None, len(text)


def _squash(text: str) -> str:
    return re.sub(r"[\s$*]|\\(?:text|left|right|[dt](?=frac)|[()\[\]])", "", text)
