"""TOML in, with the line of every key, so that a mistake can be pointed at."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from sparing.errors import RecipeError

KeyPath = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(
    r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PLACE = re.compile(r"^(.*) \(at line (\d+), column (\d+)\)$")


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        RecipeError: the file cannot be read, or is not TOML: file, line and column, and the line itself.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot read the recipe: {error}") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(_syntax_message(path, text, str(error))) from error


def _syntax_message(path: Path, text: str, detail: str) -> str:
    lines = text.splitlines() or [""]
    match = _PLACE.match(detail)
    if match:
        what, line, column = match[1], int(match[2]), int(match[3])
    else:  # tomllib says "(at end of document)"
        what, line, column = detail.split(" (at ")[0], len(lines), len(lines[-1]) + 1
    shown = lines[min(line, len(lines)) - 1]
    return f"{path}:{line}:{column}: not valid TOML: {what}\n  {shown}\n  {' ' * (column - 1)}^"


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line (from 1) of every table header and assignment of a valid TOML text.

    A plain scan: keys inside inline tables and multi-line strings are not followed, so callers fall back to
    the nearest enclosing key.
    """
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _inside_arrays(_split(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*table, *_split(assignment[1])), number)
    return lines


def _inside_arrays(keys: KeyPath, counts: dict[KeyPath, int]) -> KeyPath:
    """Put in the indices: `[a.b]` under the second `[[a]]` is a.1.b."""
    path: KeyPath = ()
    for position, key in enumerate(keys):
        path = (*path, key)
        if position < len(keys) - 1 and path in counts:
            path = (*path, counts[path])
    return path


def _split(dotted: str) -> KeyPath:
    parts = re.findall(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""", dotted)
    return tuple(part.strip("\"'") for part in parts)
