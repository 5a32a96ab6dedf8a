"""Groups and evaluation with a real tokenizer and grader; the engine plays scripted tokens or a tiny model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sparing.rollout.decode import LocalCompleter
from sparing.rollout.evaluate import evaluate
from sparing.rollout.groups import decode_texts, rollout_groups
from sparing.rollout.model import LoadedModel
from sparing.settings import ThinkingSettings, VerifierSettings
from sparing.types import Completion, FinishReason, Problem, RolloutGroup, Turn
from sparing.verify.grader import Grader

SPECIAL = ["<pad>", "<end>", "<think>", "</think>"]
WORDS = [*SPECIAL, "1", "2", "3", "+", "?", "="]
TOKEN = {word: number for number, word in enumerate(WORDS)}


def tokenizer_of() -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel(dict(TOKEN), unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<end>",
        pad_token="<pad>",
        extra_special_tokens=["<think>", "</think>"],
    )


class ScriptedCompleter:
    """An engine that answers the i-th entry of a call with the i-th of its responses, written in words."""

    def __init__(self, responses: Sequence[str]) -> None:
        self.tokenizer = tokenizer_of()
        self.eos_ids = (TOKEN["<end>"],)
        self.context_length = 64
        self._responses = list(responses)
        self.calls: list[tuple[list[tuple[int, ...]], int]] = []

    def generate(
        self, prompts: Sequence[Sequence[int]], *, temperature: float, top_p: float, max_tokens: int, seed: int
    ) -> list[Completion]:
        self.calls.append(([tuple(prompt) for prompt in prompts], seed))
        responses, self._responses = self._responses[: len(prompts)], self._responses[len(prompts) :]
        return [completion(response) for response in responses]


def completion(response: str) -> Completion:
    ids = np.array([TOKEN[word] for word in response.split()], dtype=np.int64)
    finish_reason: FinishReason = "stop" if response.endswith("<end>") else "length"
    return Completion(
        response_ids_T=ids, logprobs_T=np.zeros(ids.shape[0], dtype=np.float32), finish_reason=finish_reason
    )


@pytest.fixture
def grader() -> Iterator[Grader]:
    with Grader(ThinkingSettings(), VerifierSettings()) as opened:
        yield opened


PROBLEMS = [
    Problem(id="a", turns=(Turn(role="user", content="1 + 1 ?"),), answer="2", kind="exact"),
    Problem(id="b", turns=(Turn(role="user", content="1 + 2 ?"),), answer="3", kind="exact"),
]
RIGHT, WRONG = "1 + 1 </think> 2 <end>", "</think> 1 <end>"
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 16, "seed": 5}


def test_groups_hold_the_rollouts_of_their_problem_in_order(grader: Grader) -> None:
    completer = ScriptedCompleter([RIGHT, WRONG, "</think> 3 <end>", "1 + </think> 3 <end>"])
    first, second = rollout_groups(completer, grader, PROBLEMS, num_rollouts=2, **SAMPLING)
    assert [group.problem.id for group in (first, second)] == ["a", "b"]
    assert first.correct_N.tolist() == [True, False] and second.correct_N.tolist() == [True, True]
    # Lengths count every generated token, the end token included.
    assert first.lengths_N.tolist() == [6, 3] and second.lengths_N.tolist() == [3, 5]
    prompts, seed = completer.calls[0]
    assert seed == 5
    assert prompts == [(4, 7, 4, 8)] * 2 + [(4, 7, 5, 8)] * 2
    assert [rollout.prompt_ids for rollout in second.rollouts] == prompts[2:]


def test_special_tags_stay_and_end_and_padding_go() -> None:
    completer = ScriptedCompleter([])
    responses = ["<think> 1 + 1 </think> 2 <end>", "<think> 1 <pad> 2 <pad>"]
    texts = decode_texts(completer, [completion(response) for response in responses])
    assert texts == ["<think> 1 + 1 </think> 2", "<think> 1 <pad> 2"]


def test_a_padding_token_with_a_meaning_stays_in_the_answer(grader: Grader) -> None:
    completer = ScriptedCompleter(["</think> 2 ? <end>", "? </think> 2 <end>", "</think> ? 2 <end>"])
    completer.tokenizer.pad_token = "?"
    (group,) = rollout_groups(completer, grader, PROBLEMS[:1], num_rollouts=3, **SAMPLING)
    assert [rollout.text for rollout in group.rollouts] == ["</think> 2 ?", "? </think> 2", "</think> ? 2"]
    assert group.correct_N.tolist() == [False, True, False]


def test_padding_behind_the_end_token_goes_with_it() -> None:
    completer = ScriptedCompleter([])
    responses = ["1 <end> <pad> <pad>", "1 <pad> <end>", "<end>", "<pad>", ""]
    assert decode_texts(completer, [completion(response) for response in responses]) == ["1", "1 <pad>", "", "", ""]


def test_cut_and_unclosed_responses_are_wrong(grader: Grader) -> None:
    completer = ScriptedCompleter(["1 + 1 </think> 2", "2 <end>"])
    (group,) = rollout_groups(completer, grader, PROBLEMS[:1], num_rollouts=2, **SAMPLING)
    assert group.correct_N.tolist() == [False, False]
    assert group.truncated_N.tolist() == [True, False]


def test_no_problems_give_no_groups(grader: Grader) -> None:
    assert rollout_groups(ScriptedCompleter([]), grader, [], num_rollouts=2, **SAMPLING) == []


def test_evaluation_keeps_outcomes_lengths_reasons_and_texts(grader: Grader) -> None:
    completer = ScriptedCompleter([RIGHT, WRONG, "1 + 1", "</think> 3 <end>", WRONG, WRONG])
    first, second = evaluate(completer, grader, PROBLEMS, k=3, **SAMPLING)
    assert first.problem is PROBLEMS[0] and second.problem is PROBLEMS[1]
    assert first.outcomes == ("correct", "incorrect", "incorrect")
    assert first.lengths == (6, 3, 3)
    assert first.finish_reasons == ("stop", "stop", "length")
    assert first.texts == ("1 + 1 </think> 2", "</think> 1", "1 + 1")
    assert second.correct == (True, False, False)


def test_evaluation_in_parts_reports_progress_and_gives_each_part_its_seed(grader: Grader) -> None:
    completer = ScriptedCompleter([RIGHT, WRONG, "</think> 3 <end>", WRONG])
    seen: list[tuple[int, int]] = []
    results = evaluate(
        completer,
        grader,
        PROBLEMS,
        k=2,
        problems_at_once=1,
        on_progress=lambda done, total: seen.append((done, total)),
        **SAMPLING,
    )
    assert [result.correct for result in results] == [(True, False), (True, False)]
    assert seen == [(1, 2), (2, 2)]
    assert completer.calls[0][1] != completer.calls[1][1]


def test_a_real_model_gives_repeatable_groups(grader: Grader) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        eos_token_id=TOKEN["<end>"],
    )
    loaded = LoadedModel(
        model=LlamaForCausalLM(config),
        tokenizer=tokenizer_of(),
        device=torch.device("cpu"),
        eos_ids=(TOKEN["<end>"],),
        context_length=64,
        has_chat_template=False,
    )

    def sampled(seed: int) -> list[RolloutGroup]:
        return rollout_groups(
            LocalCompleter(loaded, max_sequences=3),
            grader,
            PROBLEMS,
            num_rollouts=4,
            temperature=1.0,
            top_p=1.0,
            max_tokens=12,
            seed=seed,
        )

    def tokens(groups: list[RolloutGroup]) -> list[list[int]]:
        return [rollout.completion.response_ids_T.tolist() for group in groups for rollout in group.rollouts]

    first = sampled(1)
    assert tokens(first) == tokens(sampled(1)) != tokens(sampled(2))
    assert [len(group.rollouts) for group in first] == [4, 4]
    for group in first:
        for rollout in group.rollouts:
            ended = rollout.completion.response_ids_T[-1] == TOKEN["<end>"]
            assert ended == (rollout.completion.finish_reason == "stop")
            assert "<end>" not in rollout.text and rollout.length <= 12
