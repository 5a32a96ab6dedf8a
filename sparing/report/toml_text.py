"""A resolved recipe as TOML, so that a report holds what is needed to run it again."""

from __future__ import annotations

import json
import re
from typing import Any

_BARE = re.compile(r"^[A-Za-z0-9_-]+$")


def to_toml(config: dict[str, Any]) -> str:
    """The config as TOML; None is left out, since TOML has no null and an unset key takes its default."""
    plain = {key: value for key, value in config.items() if not isinstance(value, dict) and value is not None}
    blocks = ["\n".join(f"{_key(key)} = {_value(value)}" for key, value in plain.items())] if plain else []
    for key, value in config.items():
        if isinstance(value, dict):
            blocks.append(_section(_key(key), value))
    return "\n\n".join(blocks) + "\n"


def _section(name: str, table: dict[str, Any]) -> str:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict) and value is not None}
    blocks = ["\n".join([f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in plain.items())])]
    blocks += [_section(f"{name}.{_key(key)}", value) for key, value in table.items() if isinstance(value, dict)]
    return "\n\n".join(blocks)


def _key(key: str) -> str:
    return key if _BARE.match(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        items = [_value(item) for item in value if item is not None]
        if any(isinstance(item, dict) for item in value):
            return "[\n" + "".join(f"    {item},\n" for item in items) + "]"
        return f"[{', '.join(items)}]"
    if isinstance(value, dict):
        pairs = [f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None]
        return "{ " + ", ".join(pairs) + " }"
    return _string(str(value))


def _string(text: str) -> str:
    # JSON escapes are TOML's, once characters beyond ASCII stay as they are; only DEL differs.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
