from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparing.data.problems import load_problems, split_validation, write_problems
from sparing.errors import DataError
from sparing.settings import JsonlSource
from sparing.types import Problem, Turn

BENCHMARKS = Path(__file__).parents[3] / "shared" / "benchmarks"


def load(tmp_path: Path, content: str | bytes | list[Any], **source) -> list[Problem]:
    path = tmp_path / "train.jsonl"
    suffix = source.pop("prompt_suffix", "")
    if isinstance(content, list):
        content = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in content) + "\n"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_problems(JsonlSource(path=str(path), **source), prompt_suffix=suffix)


def mistakes(tmp_path: Path, *rows: Any, **source) -> list[str]:
    with pytest.raises(DataError) as caught:
        load(tmp_path, list(rows), **source)
    return str(caught.value).replace(str(tmp_path) + "/", "").splitlines()


GOOD = {"prompt": "1 + 1?", "answer": "2"}


def test_defaults_of_a_minimal_row(tmp_path: Path) -> None:
    assert load(tmp_path, [GOOD]) == [
        Problem(id="train-1", turns=(Turn(role="user", content="1 + 1?"),), answer="2", kind="math", domain="train")
    ]


def test_every_key_is_read_and_others_are_ignored(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}]
    row = {"messages": messages, "answer": "2", "id": 7, "domain": "sums", "tier": "easy", "kind": "exact"}
    row |= {"shortest_length": 12, "level": 3, "url": None, "unique_id": "x"}
    (problem,) = load(tmp_path, [row], prompt_suffix=" Think.")
    assert problem == Problem(
        id="7",
        turns=(Turn(role="system", content="Be brief."), Turn(role="user", content="1 + 1? Think.")),
        answer="2",
        kind="exact",
        domain="sums",
        tier="easy",
        shortest_length=12,
    )


def test_source_serves_rows_that_name_no_kind_or_domain(tmp_path: Path) -> None:
    rows = [GOOD, {"prompt": "b", "answer": "3", "domain": "own", "kind": "math"}, {"prompt": "c", "answer": "4"}]
    problems = load(tmp_path, rows, kind="number", domain="given", limit=2)
    assert [(problem.kind, problem.domain) for problem in problems] == [("number", "given"), ("math", "own")]


def test_numbers_become_texts(tmp_path: Path) -> None:
    rows = [{"prompt": str(place), "answer": value} for place, value in enumerate([18, -3, 0, 3.5])]
    assert [problem.answer for problem in load(tmp_path, rows)] == ["18", "-3", "0", "3.5"]


def test_mark_carriage_returns_and_blank_lines(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + b'{"prompt": "a", "answer": "1"}\r\n\r\n   \r\n{"prompt": "b", "answer": "2"}'
    assert [problem.id for problem in load(tmp_path, content)] == ["train-1", "train-4"]


def test_line_separators_inside_texts_do_not_split_a_row(tmp_path: Path) -> None:
    content = '{"prompt": "a\u2028b\u0085c", "answer": "é"}\n'
    assert load(tmp_path, content)[0].question == "a\u2028b\u0085c"


def test_null_is_an_absent_column(tmp_path: Path) -> None:
    row = {"prompt": None, "messages": [{"role": "user", "content": "a"}], "answer": "1", "id": None, "tier": None}
    assert load(tmp_path, [row])[0].id == "train-1"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"prompt": "a", "answer": }', "broken JSON at column 27"),
        ('{"prompt": "a"', "broken JSON at column 15"),
        ('["a", "b"]', 'a list instead of an object; write {"prompt": "...", "answer": "..."}'),
        ('"a"', "a text instead of an object"),
        ("null", "null instead of an object"),
        ("[" * 100_000, "JSON that cannot be read"),
        ('{"prompt": "a", "answer": ' + "1" * 5000 + "}", "JSON that cannot be read"),
        ({"answer": "2"}, 'no "prompt" or "messages"; its keys are answer'),
        ({}, 'no "prompt" or "messages"; its keys are none'),
        ({"problem": "a", "answer": "2"}, 'there is "problem": rename it to "prompt"'),
        ({"Prompt": "a", "answer": "2"}, 'there is "Prompt": rename it to "prompt"'),
        ({"promt": "a", "answer": "2"}, 'there is "promt": rename it to "prompt"'),
        ({"message": [], "answer": "2"}, 'there is "message": rename it to "messages"'),
        ({"prompt": "a"}, 'no "answer"; its keys are prompt'),
        ({"prompt": "a", "ground_truth": "2"}, 'no "answer"; there is "ground_truth": rename it to "answer"'),
        ({"prompt": "a", "anwser": "2"}, 'no "answer"; there is "anwser": rename it to "answer"'),
        ({**GOOD, "messages": [{"role": "user", "content": "a"}]}, 'both "prompt" and "messages"; keep one'),
        ({"prompt": "", "answer": "2"}, '"prompt" is empty'),
        ({"prompt": " \n", "answer": "2"}, '"prompt" is empty'),
        ({"prompt": 3, "answer": "2"}, '"prompt" is a number; give a text'),
        ({"prompt": None, "answer": "2"}, '"prompt" is null; give a text'),
        ({"prompt": [{"role": "user"}], "answer": "2"}, '"prompt" is a list; a conversation goes under "messages"'),
        ({"prompt": "a", "answer": ""}, '"answer" is empty'),
        ({"prompt": "a", "answer": None}, '"answer" is null; give a text'),
        ({"prompt": "a", "answer": True}, '"answer" is true or false; give a text'),
        ({"prompt": "a", "answer": ["2"]}, '"answer" is a list; give a text'),
        ('{"prompt": "a", "answer": NaN}', '"answer" is nan; a verifier needs a finite number'),
        ('{"prompt": "a\\ud800", "answer": "2"}', '"prompt" has half of a surrogate pair at character 2'),
        ({"messages": [], "answer": "2"}, '"messages" is empty; give a list of {"role"'),
        ({"messages": "a", "answer": "2"}, '"messages" is a text; give a list of {"role"'),
        ({"messages": ["a"], "answer": "2"}, "message 1 is a text"),
        ({"messages": [{"role": "user"}], "answer": "2"}, 'message 1 has no "content"'),
        ({"messages": [{"role": "human", "content": "a"}], "answer": "2"}, 'the role "human"; use one of system, user'),
        ({"messages": [{"role": ["user"], "content": "a"}], "answer": "2"}, 'message 1 has the role ["user"]'),
        ({"messages": [{"role": "user", "content": ""}], "answer": "2"}, '"content" of message 1 is empty'),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "answer": "2"},
            'the last message is from "assistant"; end "messages" with the user',
        ),
        ({**GOOD, "kind": "maths"}, 'unknown "kind" "maths"; use one of math, number, exact'),
        ({**GOOD, "id": ""}, '"id" is empty'),
        ({**GOOD, "id": True}, '"id" is true or false'),
        ({**GOOD, "domain": 3}, '"domain" is a number; give a text'),
        ({**GOOD, "shortest_length": 0}, '"shortest_length" is 0; give a whole number of tokens of at least 1'),
        ({**GOOD, "shortest_length": 3.5}, '"shortest_length" is 3.5'),
        ({**GOOD, "shortest_lenght": 3}, '"shortest_lenght" is probably meant to be "shortest_length"'),
        ({**GOOD, "Domain": "x"}, '"Domain" is probably meant to be "domain"; rename it, or remove it'),
    ],
)
def test_mistakes_name_line_reason_and_remedy(tmp_path: Path, row: Any, message: str) -> None:
    (line,) = mistakes(tmp_path, {"prompt": "fine", "answer": "1"}, row)
    assert line.startswith("train.jsonl:2: ")
    assert message in line


def test_broken_bytes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.jsonl:2: byte 13 is not UTF-8; save the file as UTF-8"):
        load(tmp_path, b'{"prompt": "a", "answer": "1"}\n{"prompt": "\xff", "answer": "1"}\n')


def test_duplicates_name_the_first_line(tmp_path: Path) -> None:
    rows = [
        {"prompt": "a", "answer": "1", "id": "x"},
        {"prompt": "b", "answer": "1", "id": "x"},
        {"prompt": "a", "answer": "2", "id": "y"},
        {"messages": [{"role": "user", "content": "a"}], "answer": "2"},
    ]
    assert mistakes(tmp_path, *rows) == [
        'train.jsonl:2: the id "x" is that of line 1 already; give every row its own',
        "train.jsonl:3: the same question as line 1; keep one of them (and on 1 more line, next 4)",
    ]


def test_id_may_equal_the_question_of_another_row(tmp_path: Path) -> None:
    assert len(load(tmp_path, [{"prompt": "a", "answer": "1", "id": "b"}, {"prompt": "b", "answer": "1"}])) == 2


def test_ten_different_mistakes_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    rows = [{**GOOD, "kind": f"kind{number}"} for number in range(25)] + [{**GOOD, "kind": "kind3"}]
    lines = mistakes(tmp_path, *rows)
    assert len(lines) == 11
    assert lines[3].startswith("train.jsonl:4: ") and lines[3].endswith("(and on 1 more line, next 26)")
    assert lines[10] == "and 15 more broken rows"


def test_a_json_document_is_told_from_json_lines(tmp_path: Path) -> None:
    lines = mistakes(tmp_path, *json.dumps([GOOD], indent=2).splitlines())
    assert lines[0] == "train.jsonl: the file looks like one JSON document; write one object a line (JSON Lines)"


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "\ufeff\r\n"])
def test_empty_file(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match=r"train\.jsonl has no problems; write one"):
        load(tmp_path, content)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.jsonl does not exist"):
        load_problems(JsonlSource(path=str(tmp_path / "none.jsonl")))
    with pytest.raises(DataError, match=r"is a folder; name the JSONL file in it"):
        load_problems(JsonlSource(path=str(tmp_path)))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda text: text.strip())


@st.composite
def problem_lists(draw: st.DrawFn) -> list[Problem]:
    problems = []
    for number in range(draw(st.integers(1, 4))):
        before = [Turn(role=role, content=draw(TEXTS)) for role in draw(st.sampled_from([(), ("system",)]))]
        turns = (*before, Turn(role="user", content=f"{number} {draw(TEXTS)}"))
        length = draw(st.none() | st.integers(1, 99))
        kind = draw(st.sampled_from(["math", "number", "exact"]))
        problems.append(
            Problem(
                id=f"{number}", turns=turns, answer=draw(TEXTS), kind=kind, domain=draw(TEXTS), shortest_length=length
            )
        )
    return problems


@settings(max_examples=50, deadline=None)
@given(problem_lists())
def test_written_problems_are_read_back(tmp_path_factory: pytest.TempPathFactory, problems: list[Problem]) -> None:
    path = tmp_path_factory.mktemp("data") / "p.jsonl"
    write_problems(path, problems)
    assert load_problems(JsonlSource(path=str(path))) == problems


def test_split_validation_is_a_seeded_partition_in_order() -> None:
    problems = [Problem(id=str(place), turns=(), answer="") for place in range(100)]
    train, validation = split_validation(problems, 20, seed=3)
    assert len(validation) == 20
    assert sorted(train + validation, key=lambda problem: int(problem.id)) == problems
    assert [int(problem.id) for problem in train] == sorted(int(problem.id) for problem in train)
    assert split_validation(problems, 20, seed=3) == (train, validation)
    assert split_validation(problems, 20, seed=4)[1] != validation


def test_split_validation_leaves_something_to_train_on() -> None:
    problems = [Problem(id=str(place), turns=(), answer="") for place in range(8)]
    with pytest.raises(DataError, match=r"8 validation problems .* has 8; set validation\.num_problems lower"):
        split_validation(problems, 8, seed=0)


@pytest.mark.slow
def test_a_hundred_thousand_lines_load_fast(tmp_path: Path) -> None:
    rows = [{"prompt": f"What is {number} + 7? " + "Think. " * 20, "answer": number + 7} for number in range(100_000)]
    path = tmp_path / "large.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    begun = time.process_time()
    assert len(load_problems(JsonlSource(path=str(path)))) == 100_000
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(("name", "key"), [("math500", "problem"), ("gsm8k", "question")])
def test_published_benchmarks_get_a_remedy_and_load_once_renamed(tmp_path: Path, name: str, key: str) -> None:
    path = BENCHMARKS / name / f"{name}_test.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    with pytest.raises(DataError, match=f'_test.jsonl:1: .* there is "{key}": rename it to "prompt"') as caught:
        load_problems(JsonlSource(path=str(path)))
    assert len(str(caught.value).splitlines()) == 1
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(load(tmp_path, [{"prompt": row[key], **row} for row in rows])) == len(rows)
