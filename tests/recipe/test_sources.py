import json
from pathlib import Path

import pytest

from sparing.errors import DataError
from sparing.recipe.load import load_recipe
from sparing.recipe.sources import domain_notes, resolve_model, resolve_problems
from sparing.settings import RunConfig


def jsonl(path: Path, questions: range, **extra: str) -> Path:
    path.write_text(
        "".join(json.dumps({"prompt": f"What is {n} + 1?", "answer": str(n + 1), **extra}) + "\n" for n in questions)
    )
    return path


def config(**data: object) -> RunConfig:
    return RunConfig.model_validate({"data": data, "mixture": {"batch_size": 4}, "validation": {"num_problems": 5}})


def test_validation_is_set_apart_from_train(tmp_path):
    problems = resolve_problems(config(train=str(jsonl(tmp_path / "a.jsonl", range(20)))))
    assert (len(problems.train), len(problems.validation), len(problems.test)) == (15, 5, 0)
    assert not {p.turns for p in problems.train} & {p.turns for p in problems.validation}


def test_named_validation_is_taken_as_it_is(tmp_path):
    train, validation = jsonl(tmp_path / "a.jsonl", range(8)), jsonl(tmp_path / "b.jsonl", range(50, 53))
    problems = resolve_problems(config(train=str(train), validation=str(validation), prompt_suffix=" Be brief."))
    assert [p.question for p in problems.validation] == [f"What is {n} + 1? Be brief." for n in range(50, 53)]
    assert len(problems.train) == 8


@pytest.mark.parametrize(
    ("second", "third", "names"),
    [
        ("validation", None, "data.train and in data.validation"),
        ("test", None, "data.train and in data.test"),
        ("validation", "test", "data.validation and in data.test"),
    ],
)
def test_a_question_in_two_sets_is_refused(tmp_path, second, third, names):
    data = {"train": str(jsonl(tmp_path / "a.jsonl", range(10)))}
    data[second] = str(jsonl(tmp_path / "b.jsonl", range(20, 25) if third else range(8, 12)))
    if third:
        data[third] = str(jsonl(tmp_path / "c.jsonl", range(24, 30)))
    with pytest.raises(DataError, match=f"questions? (is|are) both in {names}"):
        resolve_problems(config(**data))


def test_a_question_in_two_training_files_is_refused(tmp_path):
    files = [str(jsonl(tmp_path / "a.jsonl", range(6))), str(jsonl(tmp_path / "b.jsonl", range(5, 9)))]
    with pytest.raises(DataError, match=r"1 question is both in data.train.0 and in data.train.1"):
        resolve_problems(config(train=files))


def test_ids_that_two_files_share_are_made_distinct(tmp_path):
    (tmp_path / "x").mkdir()
    first, second = jsonl(tmp_path / "a.jsonl", range(6)), jsonl(tmp_path / "x" / "a.jsonl", range(6, 12))
    problems = resolve_problems(config(train=[str(first), str(second)]))
    ids = [p.id for p in (*problems.train, *problems.validation)]
    assert len(set(ids)) == 12


def test_fewer_problems_than_a_batch(tmp_path):
    with pytest.raises(DataError, match="batch"):
        resolve_problems(config(train=str(jsonl(tmp_path / "a.jsonl", range(8)))))


def test_lab_sources_need_no_file():
    lab = load_recipe("lab", [f"data.{name}.0.num_problems=20" for name in ("train", "validation")])
    problems = resolve_problems(lab)
    assert len(problems.train) == 40
    assert {p.domain for p in problems.train} == {"arithmetic"}
    assert len({p.domain for p in problems.test}) == 7
    assert {p.tier for p in problems.test} == {"easy", "hard"}


def test_only_the_word_lab_stands_for_the_base_model():
    assert resolve_model(load_recipe("lab")).model.path.endswith("base")
    other = load_recipe("lab", ["model.path=org/name"])
    assert resolve_model(other) is other


def test_a_test_file_of_another_name_is_told_to_count_as_an_unseen_domain(tmp_path):
    train, test = str(jsonl(tmp_path / "train.jsonl", range(20))), str(jsonl(tmp_path / "test.jsonl", range(50, 60)))
    (note,) = domain_notes(resolve_problems(config(train=train, test=test)))
    assert "data.test has the domains test and data.train has train" in note
    named = config(train={"path": train, "domain": "sums"}, test={"path": test, "domain": "sums"})
    assert domain_notes(resolve_problems(named)) == []
    assert domain_notes(resolve_problems(config(train=train))) == []
