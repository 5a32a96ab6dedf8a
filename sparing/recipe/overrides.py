"""`--set a.b=c`: one value of a recipe, set from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from sparing.errors import RecipeError
from sparing.recipe.toml_file import KeyPath
from sparing.settings import RunConfig


def apply_overrides(raw: dict[str, Any], overrides: Sequence[str]) -> tuple[set[KeyPath], list[str]]:
    """Write every override into `raw`; return the keys they set and what is wrong with those that cannot be written.

    Values are TOML values, and bare words are strings. Entries of a list of tables are reached by their index
    from 0 (`curriculum.stages.1.steps=20`), the index after the last one adds an entry, and what the recipe
    leaves to its default is taken from there first.
    """
    defaults = RunConfig().model_dump(mode="json")
    touched: set[KeyPath] = set()
    mistakes: list[str] = []
    for override in overrides:
        dotted, equals, text = override.partition("=")
        keys = dotted.strip().split(".")
        if not equals or not all(key.strip() for key in keys):
            mistakes.append(f"--set {override}: write it as KEY=VALUE, for example --set mixture.rho=0.2")
            continue
        try:
            touched.add(_write(raw, defaults, [key.strip() for key in keys], _value(text)))
        except RecipeError as error:
            mistakes.append(f"--set {override}: {error}")
    return touched, mistakes


def _value(text: str) -> Any:
    text = text.strip()
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # More than one key means the text held a line break and more TOML: not a value.
    return parsed["value"] if list(parsed) == ["value"] else text


def _write(raw: dict[str, Any], defaults: Any, keys: list[str], value: Any) -> KeyPath:
    """Walk down to the last key, making tables on the way, and return the path as it is in `raw`."""
    node: Any = raw
    path: KeyPath = ()
    for position, key in enumerate(keys):
        last = position == len(keys) - 1
        step: str | int = key
        if isinstance(node, list):
            step = _index(key, len(node), path)
            if step == len(node):
                node.append({})
            elif not last and isinstance(node[step], str):
                node[step] = {"type": "jsonl", "path": node[step]}  # A source written as a bare file name.
        elif not isinstance(node, dict):
            raise RecipeError(f"{_dotted(path)} is {node!r}, which has no keys inside")
        path = (*path, step)
        defaults = _child(defaults, step)
        if last:
            node[step] = value
        else:
            node = _enter(node, step, defaults, next_is_index=keys[position + 1].isdigit())
    return path


def _enter(node: Any, step: str | int, default: Any, *, next_is_index: bool) -> Any:
    """The table or list under `step`; one that the recipe leaves out is made, a list from its default."""
    if isinstance(node, dict) and step not in node:
        node[step] = default if isinstance(default, list) else {}
    if next_is_index and isinstance(default, list) and isinstance(node[step], str | dict):
        node[step] = [node[step]]
    return node[step]


def _child(defaults: Any, step: str | int) -> Any:
    if isinstance(defaults, dict):
        return defaults.get(str(step))
    if isinstance(defaults, list) and isinstance(step, int) and step < len(defaults):
        return defaults[step]
    return None


def _index(key: str, length: int, path: KeyPath) -> int:
    if not key.isdigit() or int(key) > length:
        raise RecipeError(
            f"{_dotted(path)} is a list of {length}; name an entry by its index, 0 to {length - 1 if length else 0}"
            f" ({length} adds one)"
        )
    return int(key)


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))
