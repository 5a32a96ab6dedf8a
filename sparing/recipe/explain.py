"""Mistakes in a recipe, in plain language: key, value, rule and remedy, one a line."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sparing.recipe.keys import dotted, field_at, nearest_key, rule
from sparing.recipe.toml_file import KeyPath
from sparing.settings import RunConfig

_TAGS = ("jsonl", "lab")
_LONGEST_VALUE = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    """One thing wrong with a recipe: the key it is about and the sentence about it."""

    path: KeyPath
    text: str


def validate(raw: dict[str, Any]) -> tuple[RunConfig, list[Mistake]]:
    """Read `raw` as a `RunConfig`; what is wrong is left out of it and listed.

    The partial config lets the checks across keys run
    even when a single key is wrong, so that all mistakes come out at once.
    """
    try:
        return RunConfig.model_validate(raw), []
    except ValidationError as error:
        mistakes = [_explain(raw, detail) for detail in error.errors(include_url=False)]
    rest = copy.deepcopy(raw)
    for mistake in mistakes:
        _remove(rest, mistake.path)
    return RunConfig.model_validate(rest), mistakes


def _remove(raw: dict[str, Any], path: KeyPath) -> None:
    """Take out the whole setting that the mistake is in, a list with all its tables: its default is valid."""
    section = raw.get(str(path[0]))
    if len(path) > 1 and isinstance(section, dict):
        section.pop(str(path[1]), None)
    else:
        raw.pop(str(path[0]), None)


def _user_path(raw: Any, loc: tuple[int | str, ...]) -> KeyPath:
    """The path as the user wrote it: without union tags, and without the index of a table that is no list."""
    path: KeyPath = ()
    node: Any = raw
    for position, key in enumerate(loc):
        if key in _TAGS and position > 0 and isinstance(loc[position - 1], int):
            continue
        if isinstance(key, int) and not isinstance(node, list):
            continue
        path = (*path, key)
        node = _child(node, key)
    return path


def _child(node: Any, key: int | str) -> Any:
    if isinstance(node, dict):
        return node.get(key)
    if isinstance(node, list) and isinstance(key, int) and key < len(node):
        return node[key]
    return None


def _explain(raw: dict[str, Any], detail: ErrorDetails) -> Mistake:
    path = _user_path(raw, detail["loc"])
    tag = next((key for key in detail["loc"] if isinstance(key, str) and key in _TAGS), "")
    name, kind = dotted(path), detail["type"]
    shown = _shown(detail["input"])
    if kind == "extra_forbidden":
        nearest = nearest_key(path, tag)
        what = "section" if isinstance(detail["input"], dict) else "key"
        value = "" if what == "section" else f" = {shown}"
        remedy = f"; did you mean {nearest}?" if nearest else "; remove it"
        return Mistake(path=path, text=f"{name}{value}: there is no such {what}{remedy}")
    if kind == "missing":
        field = field_at(path, tag)
        what = f"; add it: {rule(field)}" if field else "; add it"
        return Mistake(path=path, text=f"{name} is missing{what}")
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        if not isinstance(detail["input"], dict):
            text = f'{name} = {shown}: must be a file name, or a table of type "jsonl" or "lab"'
            return Mistake(path=path, text=text)
        given = detail["input"].get("type")
        path = (*path, "type")
        start = f"{dotted(path)} is missing" if given is None else f"{dotted(path)} = {_shown(given)}"
        return Mistake(path=path, text=f'{start}: a source of problems is of type "jsonl" or "lab"')
    if kind == "value_error":
        return Mistake(path=path, text=f"{name}: {detail['ctx']['error']!s}")
    field = field_at(path, tag)
    if field is None:
        return Mistake(path=path, text=f"{name} = {shown}: {detail['msg']}")
    must = "must be a table with keys" if path and isinstance(path[-1], int) else f"must be {rule(field)}"
    meaning = f" ({field.description.rstrip('.')})" if field.description else ""
    return Mistake(path=path, text=f"{name} = {shown}: {must}{meaning}")


def _shown(value: Any) -> str:
    """The value as TOML writes it, cut where it is long."""
    text = str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
