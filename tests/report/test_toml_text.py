from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparing.report.toml_text import to_toml
from sparing.settings import RunConfig

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalar = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), text)
table = st.dictionaries(text.filter(bool), st.one_of(scalar, st.lists(scalar, max_size=3)), max_size=4)


@given(
    st.dictionaries(text.filter(bool), st.one_of(scalar, table, st.lists(table, min_size=1, max_size=2)), max_size=5)
)
def test_toml_reads_back_as_the_same_values(config: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(config)) == config


def test_recipe_reads_back_as_the_same_settings() -> None:
    config = RunConfig.model_validate(
        {
            "seed": 3,
            "output": 'runs/"quoted" \\ \x7f é',
            "data": {"train": [{"path": "a.jsonl", "limit": 4}, {"path": "b.jsonl"}]},
            "optimizer": {"learning_rate": 3e-6, "eps": 1e-08},
            "curriculum": {"stages": [{"type": "compression", "steps": 5}]},
        }
    )
    written = to_toml(config.model_dump(mode="json"))
    assert RunConfig.model_validate(tomllib.loads(written)) == config
    assert "clip_low" not in written, "an unset value has no place in TOML"
