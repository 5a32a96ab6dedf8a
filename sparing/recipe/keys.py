"""Every key a recipe may have, what each must hold, and the nearest one to a misspelling."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sparing.recipe.toml_file import KeyPath
from sparing.settings import RunConfig

_NAMES = {int: "a whole number", float: "a number", str: "text in quotes", bool: "true or false"}


def field_at(path: KeyPath, tag: str = "") -> FieldInfo | None:
    """The field a key path names, or None. `tag` chooses between the sections of a tagged union."""
    models: list[type[BaseModel]] = [RunConfig]
    field: FieldInfo | None = None
    for key in path:
        if isinstance(key, int):
            continue
        fields = [model.model_fields[key] for model in _of_tag(models, tag) if key in model.model_fields]
        if not fields:
            return None
        field = fields[0]
        models = _models_in(field.annotation)
    return field


def keys_below(path: KeyPath, tag: str = "") -> list[str]:
    """Keys that the section at `path` may have."""
    field = field_at(path, tag)
    models: list[type[BaseModel]] = [RunConfig] if not path else []
    if field:
        models = _models_in(field.annotation)
    return [name for model in _of_tag(models, tag) for name in model.model_fields]


def nearest_key(path: KeyPath, tag: str = "") -> str:
    """The valid key most like an unknown one: a sibling first, else the same name in another section."""
    name, parent = str(path[-1]), path[:-1]
    if siblings := difflib.get_close_matches(name, keys_below(parent, tag), n=1, cutoff=0.6):
        return dotted((*parent, siblings[0]))
    if elsewhere := [key for key in _all_keys() if key.rsplit(".", 1)[-1] == name]:
        return elsewhere[0]
    last_names = {key.rsplit(".", 1)[-1]: key for key in reversed(_all_keys())}
    if similar := difflib.get_close_matches(name, last_names, n=1, cutoff=0.75):
        return last_names[similar[0]]
    return ""


def rule(field: FieldInfo) -> str:
    """What the field must hold, in words: type, choices and bounds."""
    types_held = _alternatives(field.annotation)
    for held in types_held:
        if typing.get_origin(held) is Literal:
            return "one of " + ", ".join(repr(choice).replace("'", '"') for choice in typing.get_args(held))
    if _models_in(field.annotation):
        is_list = any(typing.get_origin(held) is tuple for held in types_held)
        return "a list of tables" if is_list else "a section of settings"
    name = next((_NAMES[held] for held in types_held if held in _NAMES), "a value")
    return f"{name}{_bounds(field)}"


def _bounds(field: FieldInfo) -> str:
    words = []
    for bound in field.metadata:
        if isinstance(bound, annotated_types.Ge):
            words.append(f"at least {bound.ge}")
        elif isinstance(bound, annotated_types.Gt):
            words.append(f"above {bound.gt}")
        elif isinstance(bound, annotated_types.Le):
            words.append(f"at most {bound.le}")
        elif isinstance(bound, annotated_types.Lt):
            words.append(f"below {bound.lt}")
        elif isinstance(bound, annotated_types.MinLen):
            words.append("not empty")
    return ", " + " and ".join(words) if words else ""


def dotted(path: KeyPath) -> str:
    """`("a", 1, "b")` as `a.1.b`."""
    return ".".join(map(str, path))


@cache
def _all_keys() -> tuple[str, ...]:
    return tuple(dotted(path) for path in _walk(RunConfig, ()))


def _walk(model: type[BaseModel], prefix: KeyPath) -> Iterator[KeyPath]:
    for name, field in model.model_fields.items():
        yield (*prefix, name)
        for inner in _models_in(field.annotation):
            yield from _walk(inner, (*prefix, name))


def _of_tag(models: list[type[BaseModel]], tag: str) -> list[type[BaseModel]]:
    """Of several alternative sections, the one whose `type` is `tag`; all of them where none is."""
    if len(models) < 2:
        return models
    return [model for model in models if model.model_fields["type"].default == tag] or models


def _alternatives(annotation: Any) -> list[Any]:
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return [inner for part in typing.get_args(annotation) for inner in _alternatives(part)]
    return [annotation]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    models = []
    for held in _alternatives(annotation):
        if isinstance(held, type) and issubclass(held, BaseModel):
            models.append(held)
        elif typing.get_origin(held) is tuple:
            models += _models_in(typing.get_args(held)[0])
    return models
