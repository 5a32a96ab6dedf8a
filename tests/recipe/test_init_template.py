import json
import tomllib
from pathlib import Path

import pytest

from sparing.errors import RecipeError
from sparing.recipe.checks import notes
from sparing.recipe.init_template import write_recipe
from sparing.recipe.load import load_recipe
from sparing.recipe.sources import resolve_problems


def make_data(path: Path, num: int) -> Path:
    path.write_text("".join(json.dumps({"prompt": f"q{n}", "answer": "1"}) + "\n" for n in range(num)))
    return path


@pytest.mark.parametrize("num", [4, 10, 100])
def test_the_recipe_loads_with_its_data_and_raises_no_note(tmp_path, num):
    data = make_data(tmp_path / "my data.jsonl", num)
    config = load_recipe(write_recipe(tmp_path / "new" / "run", model="org/name", data=data, num_problems=num))
    assert config.model.path == "org/name"
    assert notes(config) == []
    problems = resolve_problems(config)
    assert len(problems.train) + len(problems.validation) == num


def test_paths_are_absolute_and_odd_names_are_escaped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path('mo"del').mkdir()
    config = load_recipe(
        write_recipe(Path("run"), model='mo"del', data=make_data(Path("d\\x.jsonl"), 9), num_problems=9)
    )
    assert config.model.path == str(tmp_path / 'mo"del')
    assert config.data.train[0].path == str(tmp_path / "d\\x.jsonl")
    assert config.output == "runs/run"


def test_nothing_is_overwritten(tmp_path):
    data = make_data(tmp_path / "d.jsonl", 9)
    path = write_recipe(tmp_path, model="a", data=data, num_problems=9)
    before = path.read_text()
    with pytest.raises(RecipeError, match="exists and is left as it is"):
        write_recipe(tmp_path, model="b", data=data, num_problems=9)
    assert path.read_text() == before
    with pytest.raises(RecipeError, match="is a file"):
        write_recipe(data, model="b", data=data, num_problems=9)


def test_too_few_problems_for_any_run(tmp_path):
    with pytest.raises(RecipeError, match="has 3 problems; a run needs at least 4"):
        write_recipe(tmp_path, model="a", data=make_data(tmp_path / "d.jsonl", 3), num_problems=3)
    assert not (tmp_path / "recipe.toml").exists()


def test_every_section_and_most_keys_are_explained(tmp_path):
    path = write_recipe(tmp_path, model="a", data=make_data(tmp_path / "d.jsonl", 9), num_problems=9)
    text = path.read_text()
    assert text.count("#") > 25
    assert {"model", "data", "rollout", "mixture", "optimizer", "validation"} <= tomllib.loads(text).keys()
