"""Groups of N rollouts: prompts rendered, responses generated, decoded and graded (Sec. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sparing.data.chat import render_prompt
from sparing.rollout.completer import Completer
from sparing.types import Completion, Problem, Rollout, RolloutGroup, Verdict
from sparing.verify.grader import GradeRequest


class Grades(Protocol):
    """What rollouts need of a grader; `sparing.verify.grader.Grader` is the one of this package."""

    def grade(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        """One verdict for every request, in order."""
        ...


def rollout_groups(
    completer: Completer,
    grader: Grades,
    problems: Sequence[Problem],
    *,
    num_rollouts: int,
    temperature: float,
    top_p: float,
    max_tokens: int,
    seed: int,
) -> list[RolloutGroup]:
    """`num_rollouts` graded rollouts of every problem under the current policy, in the order of `problems`.

    Raises:
        ModelError: a prompt cannot be rendered for this model.
    """
    prompts = [tuple(render_prompt(completer.tokenizer, problem)) for problem in problems]
    completions = completer.generate(
        [prompt for prompt in prompts for _ in range(num_rollouts)],
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        seed=seed,
    )
    texts = decode_texts(completer, completions)
    asked = [problem for problem in problems for _ in range(num_rollouts)]
    verdicts = grader.grade(
        [
            GradeRequest(kind=problem.kind, gold=problem.answer, text=text, finish_reason=completion.finish_reason)
            for problem, text, completion in zip(asked, texts, completions, strict=True)
        ]
    )
    rollouts = [
        Rollout(prompt_ids=prompts[place // num_rollouts], completion=completion, text=text, verdict=verdict)
        for place, (completion, text, verdict) in enumerate(zip(completions, texts, verdicts, strict=True))
    ]
    return [
        RolloutGroup(problem=problem, rollouts=tuple(rollouts[place * num_rollouts : (place + 1) * num_rollouts]))
        for place, problem in enumerate(problems)
    ]


def decode_texts(completer: Completer, completions: Sequence[Completion]) -> list[str]:
    """The text of each response without the end token that closes it and padding behind that.

    All other tokens stay: in many models the tags of the thinking block are special tokens, and in some the padding token
    has a meaning of its own, such as an unknown word.
    """
    tokenizer = completer.tokenizer
    return [
        str(
            tokenizer.decode(
                _without_end(completion.response_ids_T.tolist(), completer.eos_ids, tokenizer.pad_token_id),
                skip_special_tokens=False,
                clean_up_tokenization_spaces=False,
            )
        )
        for completion in completions
    ]


def _without_end(ids: list[int], eos_ids: Sequence[int], pad_id: int | None) -> list[int]:
    stop = len(ids)
    while stop and ids[stop - 1] == pad_id:
        stop -= 1
    if stop and ids[stop - 1] in eos_ids:
        stop -= 1
    return ids[:stop]
