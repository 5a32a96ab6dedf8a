"""The recipe reference in the documentation is the one the settings give."""

from pathlib import Path

from sparing.recipe.reference import reference_markdown
from sparing.settings import RunConfig

PAGE = Path(__file__).parents[2] / "docs" / "recipe.md"


def test_page_is_up_to_date():
    assert PAGE.read_text() == reference_markdown(), "run: python -m sparing.recipe.reference > docs/recipe.md"


def test_every_key_is_on_the_page():
    page = reference_markdown()
    for name, field in RunConfig.model_fields.items():
        keys = getattr(field.annotation, "model_fields", {name: field})
        for key in keys:
            assert f"| `{key}` |" in page, key
