"""The recipe reference of the documentation, made from the settings themselves.

`python -m sparing.recipe.reference > docs/recipe.md` writes it; a test keeps the two equal.
"""

from __future__ import annotations

from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sparing.settings import JsonlSource, LabSource, RunConfig, StageSettings

_HEAD = """\
# Recipe reference

Every key of a recipe, its type, its default and what it does. Where the paper gives a value (Sec. 4.1), it is the default. Set a key in the
TOML file or on the command line: `sparing train recipe.toml --set mixture.rho=0.2`. An unknown key, a wrong type or an impossible value is an
error that names the nearest valid key.
"""


def reference_markdown() -> str:
    """The whole page as Markdown."""
    top = [(name, field) for name, field in RunConfig.model_fields.items() if not _section(field)]
    parts = [_HEAD, "## Top level\n", _table(top)]
    for name, field in RunConfig.model_fields.items():
        section = _section(field)
        if section is not None:
            parts += [
                f"## [{name}]\n",
                (section.__doc__ or "").strip() + "\n",
                _table(list(section.model_fields.items())),
            ]
    for title, model in (
        ("A source of problems: a JSONL file", JsonlSource),
        ("A source of problems: the lab", LabSource),
        ("A stage: `[[curriculum.stages]]`", StageSettings),
    ):
        parts += [f"## {title}\n", (model.__doc__ or "").strip() + "\n", _table(list(model.model_fields.items()))]
    return "\n".join(parts)


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _table(fields: list[tuple[str, FieldInfo]]) -> str:
    lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in fields:
        meaning = (field.description or "").replace("|", "or")
        lines.append(f"| `{name}` | {_type(field)} | {_default(field)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _type(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(rule, key):g}"
        for rule in field.metadata
        for key, sign in _BOUNDS.items()
        if hasattr(rule, key)
    ]
    return ", ".join([_type_name(field.annotation), *bounds])


_BOUNDS = {"gt": ">", "ge": "at least", "lt": "<", "le": "at most"}


def _type_name(kind: Any) -> str:
    if kind is type(None):
        return "unset"
    arguments = get_args(kind)
    if not arguments:
        return str(getattr(kind, "__name__", kind))
    if get_origin(kind) is tuple:
        return "list"
    if all(isinstance(argument, str) for argument in arguments):
        return " / ".join(f"`{argument}`" for argument in arguments)
    return " or ".join(_type_name(argument) for argument in arguments)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, tuple):
        items = [f"{item.type} {item.steps}" if isinstance(item, StageSettings) else str(item) for item in value]
        return ", ".join(items) or "none"
    return "unset" if value is None else f"`{value}`" if value != "" else "empty"


if __name__ == "__main__":
    print(reference_markdown(), end="")
