"""One row of a problem file: what it may hold, and what to say where it does not."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, get_args

from sparing.settings import JsonlSource
from sparing.types import Problem, Turn

KINDS: tuple[str, ...] = get_args(JsonlSource.model_fields["kind"].annotation)
"""Verifiers a row may name."""

ROLES = ("system", "user", "assistant")
"""Roles a message may have."""

_OPTIONAL = ("id", "kind", "domain", "tier", "shortest_length")
_KEYS = ("prompt", "messages", "answer", *_OPTIONAL)
# What published data sets call the two fields that every row needs.
_OTHER_NAMES = {
    "prompt": ("problem", "question", "query", "instruction", "input", "text", "puzzle"),
    "answer": (
        "final_answer", "expected_answer", "ground_truth", "gt", "gold", "label", "target", "solution", "output"
    ),
}  # fmt: skip


class RowError(ValueError):
    """One mistake in a row, in words, without its place."""


def parse_line(line: bytes) -> dict[str, Any]:
    """A line of a JSONL file as a JSON object."""
    try:
        # Without its line break: a row cut short would else be broken in column 1 of the next line.
        row = json.loads(line.decode("utf-8").rstrip())
    except UnicodeDecodeError as error:
        raise RowError(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise RowError(f"broken JSON at column {error.colno}: {error.msg}; every line holds one object") from error
    except (ValueError, RecursionError) as error:
        raise RowError(f"JSON that cannot be read: {error}") from error
    if not isinstance(row, dict):
        raise RowError(f'{_type_name(row)} instead of an object; write {{"prompt": "...", "answer": "..."}}')
    return row


def problem_of(row: Mapping[str, Any], *, name: str, kind: str, domain: str, suffix: str) -> Problem:
    """The problem a row describes; `name`, `kind` and `domain` serve rows that give none of their own."""
    turns = _turns(row, suffix)
    answer = _answer(row)
    if not row.keys() <= _KNOWN:
        _check_spelling(row)
    return Problem(
        id=_id(row, name),
        turns=turns,
        answer=answer,
        kind=_kind(row, kind),
        domain=_label(row, "domain") or domain,
        tier=_label(row, "tier"),
        shortest_length=_shortest_length(row),
    )


_KNOWN = frozenset(_KEYS)


def _turns(row: Mapping[str, Any], suffix: str) -> tuple[Turn, ...]:
    # Tables written out as JSONL hold null where a row lacks a column.
    has_prompt, has_messages = row.get("prompt") is not None, row.get("messages") is not None
    if has_prompt and has_messages:
        raise RowError('both "prompt" and "messages"; keep one of them')
    if has_prompt or ("prompt" in row and not has_messages):
        if isinstance(row["prompt"], list):
            raise RowError('"prompt" is a list; a conversation goes under "messages"')
        return (Turn(role="user", content=_text(row["prompt"], '"prompt"') + suffix),)
    if "messages" not in row:
        raise RowError(f'no "prompt" or "messages"{_rename_hint(row, "prompt", "messages")}')
    messages = row["messages"]
    if not isinstance(messages, list) or not messages:
        found = "is empty" if messages == [] else f"is {_type_name(messages)}"
        raise RowError(f'"messages" {found}; give a list of {{"role": "user", "content": "..."}}')
    turns = [_turn(message, number) for number, message in enumerate(messages, start=1)]
    if turns[-1].role != "user":
        raise RowError(
            f'the last message is from "{turns[-1].role}"; end "messages" with the user\'s question that '
            "the model is to answer"
        )
    if suffix:
        turns[-1] = Turn(role="user", content=turns[-1].content + suffix)
    return tuple(turns)


def _turn(message: Any, number: int) -> Turn:
    if not isinstance(message, dict):
        raise RowError(f'message {number} is {_type_name(message)}; give {{"role": "user", "content": "..."}}')
    for key in ("role", "content"):
        if key not in message:
            raise RowError(f'message {number} has no "{key}"; give {{"role": "user", "content": "..."}}')
    role = message["role"]
    if role not in ROLES:
        raise RowError(f"message {number} has the role {_shown(role)}; use one of {', '.join(ROLES)}")
    return Turn(role=role, content=_text(message["content"], f'"content" of message {number}'))


def _answer(row: Mapping[str, Any]) -> str:
    if "answer" not in row:
        raise RowError(f'no "answer"{_rename_hint(row, "answer")}')
    value = row["answer"]
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise RowError(f'"answer" is {value}; a verifier needs a finite number or a text')
        try:
            return str(value)
        except ValueError as error:
            raise RowError(f'"answer" is too long a number: {error}') from error
    return _text(value, '"answer"')


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise RowError(f"{what} is {_type_name(value)}; give a text")
    if not value or value.isspace():
        raise RowError(f"{what} is empty; fill it in or remove the row")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RowError(f"{what} has half of a surrogate pair at character {error.start + 1}; remove it") from error
    return value


def _id(row: Mapping[str, Any], name: str) -> str:
    value = row.get("id")
    if value is None:
        return name
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _text(value, '"id"')


def _kind(row: Mapping[str, Any], kind: str) -> str:
    value = row.get("kind")
    if value is None:
        return kind
    if value not in KINDS:
        raise RowError(f'unknown "kind" {_shown(value)}; use one of {", ".join(KINDS)}')
    return str(value)


def _label(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if value is None or value == "":
        return ""
    return _text(value, f'"{key}"')


def _shortest_length(row: Mapping[str, Any]) -> int | None:
    value = row.get("shortest_length")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RowError(f'"shortest_length" is {_shown(value)}; give a whole number of tokens of at least 1')
    return value


def _rename_hint(row: Mapping[str, Any], *keys: str) -> str:
    """What the row probably calls the missing field."""
    for key in keys:
        folded = {name.casefold().strip(): name for name in row if name not in _KNOWN}
        for other in (*_OTHER_NAMES.get(key, ()), *get_close_matches(key, folded, n=1, cutoff=0.7), key):
            if other in folded:
                return f'; there is "{folded[other]}": rename it to "{key}"'
    return f"; its keys are {', '.join(sorted(map(str, row))[:8]) or 'none'}"


def _check_spelling(row: Mapping[str, Any]) -> None:
    """Other keys are data of their own, unless one is nearly an optional key that is missing."""
    for name in row.keys() - _KNOWN:
        near = get_close_matches(name.casefold().strip(), _OPTIONAL, n=1, cutoff=0.87)
        if near and near[0] not in row and len(name) > 3:
            raise RowError(f'"{name}" is probably meant to be "{near[0]}"; rename it, or remove it')


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "an object")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."
