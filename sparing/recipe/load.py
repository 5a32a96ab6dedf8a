"""From a recipe in TOML to a `RunConfig`, or to an error that lists every mistake at once."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparing.errors import RecipeError, RunError
from sparing.recipe.checks import cross_check
from sparing.recipe.explain import Mistake, validate
from sparing.recipe.overrides import apply_overrides
from sparing.recipe.toml_file import KeyPath, key_lines, read_toml
from sparing.settings import RunConfig

PRESETS = Path(__file__).parent / "presets"
DEFAULT_PRESET = "lab"


def preset_names() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load_recipe(recipe: str | Path | None = None, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a TOML file or a preset, apply `--set` overrides and check the whole.

    Args:
        recipe: a path, the name of a preset, or None for the lab preset.
        overrides: `a.b=c` each; see `apply_overrides`.

    Raises:
        RecipeError: all mistakes, one a line, each with its line in the file where there is one.
    """
    path = find_recipe(recipe)
    raw = read_toml(path)
    lines = key_lines(path.read_text(encoding="utf-8"))
    name = f"preset {path.stem}" if path.parent == PRESETS else str(path)
    return _checked(raw, name, lines, overrides)


def find_recipe(recipe: str | Path | None) -> Path:
    """The file of a recipe: as given, or that of the preset of this name."""
    if recipe is None:
        return PRESETS / f"{DEFAULT_PRESET}.toml"
    path = Path(recipe)
    if path.is_file():
        return path
    preset = PRESETS / f"{recipe}.toml"
    if path.name == str(recipe) and preset.is_file():
        return preset
    what = "is a folder, not a recipe" if path.is_dir() else "there is no such recipe"
    near = difflib.get_close_matches(str(recipe), preset_names(), n=1)
    remedy = (
        f"did you mean the preset {near[0]}?" if near else f"give a TOML file or a preset: {', '.join(preset_names())}"
    )
    raise RecipeError(f"{recipe}: {what}; {remedy}")


def load_run_config(folder: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The resolved recipe that a run folder keeps in its config.json; its output is that folder.

    Raises:
        RunError: there is no run in the folder, or its config.json is broken.
        RecipeError: as `load_recipe`.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise RunError(f"{folder} holds no run (no config.json); give the folder of a run that was started before")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}; resume with the recipe the run was started with") from error
    return _checked({**raw, "output": str(folder)}, str(path), {}, overrides)


def _checked(raw: dict[str, Any], name: str, lines: dict[KeyPath, int], overrides: Sequence[str]) -> RunConfig:
    touched, unwritten = apply_overrides(raw, overrides)
    config, mistakes = validate(raw)
    mistakes = [*mistakes, *cross_check(config, [mistake.path for mistake in mistakes])]
    if not mistakes and not unwritten:
        return config
    placed = sorted(((_line(mistake.path, lines, touched), mistake) for mistake in mistakes), key=lambda pair: pair[0])
    told = [*unwritten, *(f"{_place(line, mistake, touched)}{mistake.text}" for line, mistake in placed)]
    count = "1 mistake" if len(told) == 1 else f"{len(told)} mistakes"
    raise RecipeError("\n  ".join([f"{name}: {count} in the recipe", *told]))


def _line(path: KeyPath, lines: dict[KeyPath, int], touched: set[KeyPath]) -> int:
    """Line of the key or of its nearest enclosing one; 0 where the file has neither, or `--set` wrote it."""
    if path in touched:
        return 0
    return next((lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in lines), 0)


def _place(line: int, mistake: Mistake, touched: set[KeyPath]) -> str:
    return f"line {line}: " if line else "--set " if mistake.path in touched else ""
