"""Teacher traces: right in the end, redundant by plan, spelt in the tokenizer's words."""

import numpy as np
import pytest

from sparing.lab import FAMILIES, make_problems
from sparing.lab.curriculum_data import encode, rows
from sparing.lab.families import Puzzle, Step
from sparing.lab.problems import num_steps, split_of
from sparing.lab.teacher import drill, overthinking_trace, shortest_trace
from sparing.lab.tokenizer import make_tokenizer
from sparing.settings import ThinkingSettings
from sparing.verify.exact import exact_match
from sparing.verify.thinking import split_response

PUZZLE = Puzzle(
    question="start at 12 (1) + 7 result ?",
    steps=(Step(work="12 + 7 =", result="19", slip="18"),),
    answer="19",
)


def test_shortest_trace_holds_the_steps_and_nothing_else():
    assert shortest_trace(PUZZLE) == "<think> (1) 12 + 7 = 19 . </think> 19"
    assert drill(PUZZLE) == "(1) 12 + 7 = 19 ."


def puzzles(domain, num=40):
    rng = np.random.default_rng(5)
    for tier in ("easy", "hard"):
        for _ in range(num):
            yield FAMILIES[domain](rng, num_steps(rng, domain, tier))


@pytest.mark.parametrize("domain", FAMILIES)
def test_every_trace_ends_with_the_answer_and_is_no_shorter_than_the_shortest(domain):
    rng = np.random.default_rng(1)
    for puzzle in puzzles(domain):
        trace = overthinking_trace(puzzle, rng)
        answer = split_response(trace, "stop", ThinkingSettings())[1]
        assert exact_match(puzzle.answer, answer)
        assert len(trace.split()) >= len(shortest_trace(puzzle).split())


def test_traces_of_one_problem_differ_in_length():
    rng = np.random.default_rng(2)
    lengths = [len(overthinking_trace(PUZZLE, rng).split()) for _ in range(50)]
    assert max(lengths) > 3 * min(lengths)


@pytest.mark.parametrize("domain", FAMILIES)
def test_short_problems_carry_more_redundancy_than_long_ones(domain):
    rng = np.random.default_rng(3)
    excess = {"short": [], "long": []}
    for puzzle in puzzles(domain, num=80):
        shortest = len(shortest_trace(puzzle).split())
        kind = "short" if len(puzzle.steps) <= 3 else "long"
        excess[kind].append(len(overthinking_trace(puzzle, rng).split()) / shortest)
    assert np.mean(excess["short"]) > np.mean(excess["long"]) > 2


def test_a_slip_is_always_checked_and_corrected():
    rng = np.random.default_rng(4)
    slipped = [trace for trace in (overthinking_trace(PUZZLE, rng) for _ in range(400)) if "= 18" in trace]
    assert slipped
    assert all("no , " in trace.split("= 18", 1)[1] for trace in slipped)


def test_transition_words_are_there_to_be_counted():
    rng = np.random.default_rng(6)
    text = " ".join(overthinking_trace(PUZZLE, rng) for _ in range(200)).split()
    assert all(text.count(word) > 10 for word in ("but", "however", "wait"))


def test_every_word_has_a_token():
    tokenizer = make_tokenizer()
    stream = rows(seed=1, drill_share=0.5, hard_share=0.5)
    for _ in range(300):
        prompt, response = next(stream)
        prompt_ids, response_ids = encode(tokenizer, prompt, response)
        assert tokenizer.unk_token_id not in prompt_ids + response_ids
        assert response_ids[-1] == tokenizer.eos_token_id
        message = [{"role": "user", "content": prompt}]
        rendered = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=False)
        assert prompt_ids == rendered
        assert split_of(prompt.removeprefix("drill ")) == "train"


def test_shortest_length_counts_the_end_token():
    problem = make_problems(domain="arithmetic", tier="easy", split="test", num_problems=1)[0]
    steps = problem.question.count("(")
    # <think>, six words and a full stop a step, </think>, the answer, the end token
    assert problem.shortest_length == 1 + 7 * steps + 3
