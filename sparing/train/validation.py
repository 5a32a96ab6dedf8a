"""Evaluations of a run: validation, which chooses checkpoints, and the test before and after, which is only reported.

Shape legend: P problems, K responses of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparing.method.statistics import accuracy_interval, avg_at_k, instant_share, mean_length
from sparing.progress import Progress
from sparing.rollout.completer import Completer
from sparing.rollout.evaluate import evaluate
from sparing.rollout.groups import Grades
from sparing.seeding import derive_rng, derive_seed
from sparing.settings import PlannedStage, RunConfig
from sparing.train.trainer import Trainer
from sparing.types import Problem, ProblemResult
from sparing.verify.thinking import split_response

# A response that thinks for at most this many tokens has not reasoned before it answered.
INSTANT_TOKENS = 8
# More unknown verdicts than this make figures doubtful.
MANY_UNKNOWN = 0.02
# Thinking text of more characters than this is not tokenised to find that out.
_LONG_TEXT = 32 * INSTANT_TOKENS


def evaluate_split(
    config: RunConfig,
    completer: Completer,
    grader: Grades,
    problems: Sequence[Problem],
    *,
    split: str,
    progress: Progress,
    name: str,
) -> list[ProblemResult]:
    """K responses to every problem of `validation` or `test`, at the validation temperature.

    The seed depends on the split alone: equal weights give equal figures whenever they are evaluated, and unequal ones are
    compared under the same random numbers.
    """
    settings = config.validation
    return evaluate(
        completer,
        grader,
        problems,
        k=settings.k if split == "validation" else settings.test_k,
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=config.rollout.max_tokens,
        seed=derive_seed(config.seed, split),
        on_progress=lambda done, total: progress.evaluating(name, done, total),
    )


def validate(trainer: Trainer, stage: PlannedStage) -> None:
    """Validate the current weights: one more row of validation.jsonl, and one more point for the stage's decision."""
    config, position = trainer.config, trainer.position
    results = evaluate_split(
        config,
        trainer.completer,
        trainer.grader,
        trainer.validation,
        split="validation",
        progress=trainer.progress,
        name=f"validation at step {position.step}",
    )
    row = {
        "step": position.step,
        "weights_step": position.step,
        "loop": stage.loop,
        "stage_index": stage.stage_index,
        "stage": stage.type,
        **validation_figures(results, config, trainer.loaded.tokenizer),
    }
    trainer.folder.append("validation", row)
    before_P = position.history[-1]["accuracy_P"] if position.history else [0.0] * len(results)
    accuracy_P = [_known_accuracy(one, before) for one, before in zip(results, before_P, strict=True)]
    position.observe_validation(position.step, accuracy_P, row["length"])
    if row["unknown_share"] > MANY_UNKNOWN:
        trainer.progress.message(
            f"warning: {row['unknown_share']:.1%} of validation verdicts are unknown (the verifier timed out or crashed) and "
            "count as wrong in the accuracy shown; raise verifier.timeout, or lighten the machine's load"
        )
    trainer.progress.validation(row)


def _known_accuracy(result: ProblemResult, before: float) -> float:
    """Share of correct answers among those with a verdict: a verifier that fails must not look like a decline.

    `before` stands in where no answer has a verdict: no news of the problem.
    """
    known = [outcome == "correct" for outcome in result.outcomes if outcome != "unknown"]
    return float(np.mean(known)) if known else before


def validation_figures(results: Sequence[ProblemResult], config: RunConfig, tokenizer: Any) -> dict[str, Any]:
    """What a row of validation.jsonl says of the answers, whatever the step.

    Accuracy is avg@k in [0, 1] with its 95 % bootstrap interval, lengths are in tokens, shares are of responses.
    `instant_share` counts wrong answers given with hardly any thinking (Sec. 5); None without a thinking block.
    """
    correct_PK = np.array([one.correct for one in results])
    lengths_PK = np.array([one.lengths for one in results])
    interval = accuracy_interval(correct_PK, rng=derive_rng(config.seed, "validation interval"))
    return {
        "accuracy": avg_at_k(correct_PK),
        "accuracy_low": interval.low,
        "accuracy_high": interval.high,
        "length": mean_length(lengths_PK),
        "length_min": int(lengths_PK.min()),
        "length_max": int(lengths_PK.max()),
        "truncated_share": float(np.mean([[reason == "length" for reason in one.finish_reasons] for one in results])),
        "unknown_share": float(np.mean([[outcome == "unknown" for outcome in one.outcomes] for one in results])),
        "instant_share": _instant_share(results, config, tokenizer),
        "k": int(correct_PK.shape[1]),
        "problems": [
            {
                "id": one.problem.id,
                "domain": one.problem.domain,
                "tier": one.problem.tier,
                "outcomes": list(one.outcomes),
                "lengths": list(one.lengths),
            }
            for one in results
        ],
    }


def _instant_share(results: Sequence[ProblemResult], config: RunConfig, tokenizer: Any) -> float | None:
    if not config.thinking.enabled:
        return None
    lengths_R, correct_R = [], []
    for one in results:
        for text, reason, correct in zip(one.texts, one.finish_reasons, one.correct, strict=True):
            thinking, _, _ = split_response(text, reason, config.thinking)
            short = len(thinking) <= _LONG_TEXT
            lengths_R.append(
                len(tokenizer(thinking, add_special_tokens=False)["input_ids"]) if short else len(thinking)
            )
            correct_R.append(correct)
    return instant_share(lengths_R, INSTANT_TOKENS, correct_R)


def result_rows(results: Sequence[ProblemResult]) -> Iterator[dict[str, Any]]:
    """Rows of evals/base.jsonl and evals/final.jsonl."""
    for one in results:
        yield {
            "id": one.problem.id,
            "domain": one.problem.domain,
            "tier": one.problem.tier,
            "question": one.problem.question,
            "answer": one.problem.answer,
            "shortest_length": one.problem.shortest_length,
            "outcomes": list(one.outcomes),
            "lengths": list(one.lengths),
            "finish_reasons": list(one.finish_reasons),
            "texts": list(one.texts),
        }
