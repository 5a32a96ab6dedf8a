from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sparing.report.examples import choose_examples, example_figure, typical_response
from sparing.report.load import load_run, response_texts
from sparing.report.records import count_hedges, split_thinking

TAGS = ("<think>", "</think>")
MakeRun = Callable[..., Path]


def test_thinking_and_answer_are_told_apart() -> None:
    assert split_thinking("<think> 3 + 4 </think> 7", TAGS) == ("3 + 4", "7")
    assert split_thinking("3 + 4 </think> 7", TAGS) == ("3 + 4", "7"), "the prompt may open the block"
    assert split_thinking("<think> 3 + 4 = 7", TAGS) == ("3 + 4 = 7", None), "unclosed thinking is no answer"
    assert split_thinking("7", ("", "")) == ("", "7")


def test_hedges_are_whole_words_of_any_case() -> None:
    assert count_hedges("Wait , but butter awaits ; However wait") == 4


def test_an_easy_a_hard_and_an_unseen_problem_are_shown(make_run: MakeRun) -> None:
    examples = choose_examples(load_run(make_run()))
    assert [example.label.partition(":")[0] for example in examples[:3]] == [
        "Trained domain, easy",
        "Trained domain, hard",
        "Unseen domain",
    ]
    assert [example.base.tier for example in examples[:2]] == ["easy", "hard"]
    assert all(example.base.id == example.final.id for example in examples)
    assert examples[2].base.domain != "arithmetic"
    for example in examples[:3]:
        assert example.base.outcomes[typical_response(example.base)] == "correct"
        assert example.final.outcomes[typical_response(example.final)] == "correct"


def test_shown_problem_is_typical_of_its_kind(make_run: MakeRun) -> None:
    run = load_run(make_run())
    easy = choose_examples(run)[0]
    for side, chosen in ((run.base, easy.base), (run.final, easy.final)):
        lengths = [n for p in side if (p.domain, p.tier) == ("arithmetic", "easy") for n in p.lengths]
        low, high = np.quantile(lengths, [0.3, 0.7])
        assert low <= chosen.lengths[typical_response(chosen)] <= high


def test_one_that_got_worse_shows_a_wrong_response(make_run: MakeRun) -> None:
    folder = make_run()
    path = folder / "evals" / "final.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    base = {row["id"]: row for row in map(json.loads, (folder / "evals" / "base.jsonl").read_text().splitlines())}
    for row in rows:  # Nothing changes but one problem that base always solves.
        row["outcomes"] = base[row["id"]]["outcomes"]
    victim = next(row for row in rows if row["outcomes"] == ["correct"] * 4)
    victim["outcomes"] = ["incorrect"] * 4
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = load_run(folder)
    worse = choose_examples(run)[-1]
    assert (worse.label.partition(":")[0], worse.base.id) == ("One that got worse", victim["id"])
    figure = example_figure(run, worse)
    assert "✓ correct" in figure and "✗ incorrect" in figure


def test_texts_are_those_of_the_problem(make_run: MakeRun) -> None:
    folder = make_run()
    run = load_run(folder)
    rows = [json.loads(line) for line in (folder / "evals" / "final.jsonl").read_text().splitlines()]
    for problem, row in zip(run.final, rows, strict=True):
        assert response_texts(run, "final", problem) == tuple(row["texts"])


def test_middle_of_a_very_long_text_is_left_out(make_run: MakeRun) -> None:
    folder = make_run(domains=("arithmetic",))
    for which in ("base", "final"):
        path = folder / "evals" / f"{which}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            row["texts"] = ["begin " + "x" * 300_000 + " end </think> 7"] * 4
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = load_run(folder)
    figure = example_figure(run, choose_examples(run)[0])
    assert len(figure) < 30_000
    assert "begin" in figure and " end<" in figure and "left out here" in figure
