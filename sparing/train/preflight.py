"""Before training: mistakes that would cost hours, found in seconds, and what a step will take.

Shape legend: G groups of N rollouts, P problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sparing.data.chat import render_prompt
from sparing.data.sampler import check_enough_problems
from sparing.errors import DataError, ModelError, RecipeError
from sparing.method.mastery import is_mastered
from sparing.rollout.groups import rollout_groups
from sparing.seeding import derive_rng, derive_seed
from sparing.settings import RunConfig
from sparing.train.costs import estimate_memory, measure_update_rate, step_costs
from sparing.train.timing import Stopwatch, TimedGrader, peak_memory
from sparing.train.trainer import Trainer
from sparing.types import Problem, RolloutGroup

Problems = Mapping[str, Sequence[Problem]]
NUM_PROBLEMS = 16
MANY_TRUNCATED = 0.10
MANY_UNSOLVED = 0.60
MANY_UNKNOWN = 0.01


def check_settings(config: RunConfig, problems: Problems) -> None:
    """Settings that cannot work with these problems; called before any model is loaded."""
    check_enough_problems(len(problems["train"]), config.mixture.batch_size)
    if len(problems["validation"]) < 2:
        raise DataError(
            f"validation has {len(problems['validation'])} problems; its paired statistics need at least 2, add problems "
            "to data.validation or raise validation.num_problems"
        )
    if config.objective.updates_per_batch > config.mixture.batch_size:
        raise RecipeError(
            f"objective.updates_per_batch is {config.objective.updates_per_batch} and a batch has "
            f"{config.mixture.batch_size} problems; every update needs at least one, set it to at most mixture.batch_size"
        )


def run_preflight(trainer: Trainer, problems: Problems) -> dict[str, Any]:
    """What rollouts of a few training problems show, as preflight.json holds it: shares, lengths, time, memory, warnings.

    Raises ModelError where a prompt and its longest response do not fit the model's context. Changes no weight and no
    state of the run.
    """
    config, watch = trainer.config, Stopwatch()
    longest = longest_prompt(trainer, [problem for split in problems.values() for problem in split])
    chosen = derive_rng(config.seed, "preflight").permutation(len(problems["train"]))[:NUM_PROBLEMS]
    trainer.progress.message(f"Preflight: {len(chosen)} problems with {config.rollout.num_rollouts} rollouts each.")
    with watch.measure("collect"):
        groups = rollout_groups(
            trainer.completer,
            TimedGrader(trainer.grader, watch),
            [problems["train"][index] for index in chosen],
            num_rollouts=config.rollout.num_rollouts,
            temperature=config.rollout.temperature,
            top_p=config.rollout.top_p,
            max_tokens=config.rollout.max_tokens,
            seed=derive_seed(config.seed, "preflight rollouts"),
        )
    figures = group_figures(groups, close=config.thinking.close)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    rollout_rate = sum(rollout.length for rollout in rollouts) / (watch.seconds["collect"] - watch.seconds["verify"])
    update_rate = measure_update_rate(trainer, rollouts)
    report = {
        "problems": len(groups),
        "rollouts": len(rollouts),
        **figures,
        "longest_prompt": longest,
        "tokens_per_second_rollout": rollout_rate,
        "tokens_per_second_update": update_rate,
        **step_costs(
            config,
            figures,
            rollout_rate,
            update_rate,
            num_validation=len(problems["validation"]),
            num_test=len(problems["test"]),
        ),
        "memory_bytes": estimate_memory(
            trainer.loaded.model,
            config,
            longest,
            num_validation=len(problems["validation"]),
            num_test=len(problems["test"]),
        ),
        "peak_memory_bytes": peak_memory(),
        "warnings": [*find_warnings(config, figures), *overlaps(problems)],
    }
    _tell(trainer, report)
    return report


def longest_prompt(trainer: Trainer, problems: Sequence[Problem]) -> int:
    """Tokens of the longest prompt; ModelError where prompt and response would exceed the context.

    A text has at most as many tokens as bytes, so only prompts that could be too long are tokenised, and the longest ones.
    """
    max_tokens, context = trainer.config.rollout.max_tokens, trainer.loaded.context_length
    tokenizer = trainer.loaded.tokenizer
    size_P = np.array([sum(len(turn.content.encode()) for turn in problem.turns) for problem in problems])
    template = len(render_prompt(tokenizer, problems[0])) + 64
    suspects = {*np.flatnonzero(size_P + template > context - max_tokens), *np.argsort(-size_P)[:NUM_PROBLEMS]}
    length_of = {int(index): len(render_prompt(tokenizer, problems[index])) for index in sorted(suspects)}
    index = max(length_of, key=length_of.__getitem__)
    if length_of[index] + max_tokens > context:
        raise ModelError(
            f'the prompt of problem "{problems[index].id}" has {length_of[index]} tokens and rollout.max_tokens is '
            f"{max_tokens}, together more than the model's context of {context}; set rollout.max_tokens to at most "
            f"{context - length_of[index]}, or shorten the prompt"
        )
    return length_of[index]


def group_figures(groups: Sequence[RolloutGroup], *, close: str) -> dict[str, float]:
    """Shares of rollouts (correct, truncated, unknown, with the closing tag) and of groups (mastered, never solved)."""
    closed = [close in rollout.text for group in groups for rollout in group.rollouts]
    return {
        "accuracy": float(np.mean([group.correct_N for group in groups])),
        "mastered_share": float(np.mean([is_mastered(group.correct_N, group.unknown_N) for group in groups])),
        "unsolved_share": float(np.mean([not group.correct_N.any() for group in groups])),
        "truncated_share": float(np.mean([group.truncated_N for group in groups])),
        "unknown_share": float(np.mean([group.unknown_N for group in groups])),
        "closed_thinking_share": float(np.mean(closed)),
        "mean_length": float(np.mean([group.lengths_N for group in groups])),
        "max_length": float(max(group.lengths_N.max() for group in groups)),
    }


def find_warnings(config: RunConfig, figures: Mapping[str, float]) -> Iterator[str]:
    """What will go wrong or be wasted with these figures, each with its remedy."""
    rho, compresses = config.mixture.rho, any(stage.type == "compression" for stage in config.curriculum.stages)
    if config.thinking.enabled and figures["closed_thinking_share"] == 0:
        yield (
            f"no response holds {config.thinking.close!r}, so every one counts as wrong; for a model that does not think in "
            "tags set thinking.enabled = false, for other tags set thinking.open and thinking.close, and if responses are "
            "cut before it raise rollout.max_tokens"
        )
    if figures["truncated_share"] > MANY_TRUNCATED:
        yield (
            f"{figures['truncated_share']:.0%} of rollouts are cut at rollout.max_tokens = {config.rollout.max_tokens} and "
            "count as wrong; raise it, or accuracy will measure length"
        )
    if compresses and figures["mastered_share"] < rho:
        yield (
            f"{figures['mastered_share']:.0%} of problems are mastered and mixture.rho asks for {rho:.0%}; compression will "
            "starve: put an accuracy stage first, or add easier problems"
        )
    if figures["unsolved_share"] > MANY_UNSOLVED:
        yield (
            f"{figures['unsolved_share']:.0%} of problems were never solved and teach nothing; add easier problems, or check "
            "that answers have the form the verifier expects"
        )
    if figures["mastered_share"] == 1:
        yield (
            "every problem is mastered, so an accuracy stage has nothing to learn from; leave it out, or add harder problems"
        )
    if figures["unknown_share"] > MANY_UNKNOWN:
        yield (
            f"{figures['unknown_share']:.1%} of verdicts are unknown, and each closes the gate of its group; raise "
            "verifier.timeout or verifier.workers"
        )
    if config.model.dtype == "bfloat16":
        yield (
            'model.dtype is "bfloat16": a weight keeps 8 bits, so steps much smaller than 1/256 of it are lost; '
            'model.dtype = "float32" with model.autocast = "bfloat16" trains as fast and loses none'
        )


def overlaps(problems: Problems) -> Iterator[str]:
    """Splits that share questions: what is measured there is partly memory."""
    turns = {split: {problem.turns for problem in some} for split, some in problems.items()}
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        shared = len(turns[one] & turns[other])
        if shared:
            yield f"{shared} questions stand in {one} and in {other}; remove them from one of the two"


def _tell(trainer: Trainer, report: Mapping[str, Any]) -> None:
    say = trainer.progress.message
    say(
        f"Preflight: {report['accuracy']:.0%} of rollouts correct, {report['mastered_share']:.0%} of problems mastered, "
        f"{report['unsolved_share']:.0%} never solved, {report['truncated_share']:.1%} of rollouts cut; "
        f"{report['mean_length']:.0f} tokens a response, {report['max_length']:.0f} at most."
    )
    say(
        f"Preflight: about {report['tokens_per_step']:,.0f} tokens and {report['seconds_per_step']:.1f} s a step, "
        f"{report['seconds_total'] / 60:.0f} min in all; memory about {report['memory_bytes']['total'] / 1e9:.2f} GB "
        f"({report['peak_memory_bytes'] / 1e9:.2f} GB of this process so far)."
    )
    for warning in report["warnings"]:
        say(f"warning: {warning}")
