"""What a step leaves in the run folder: a row of metrics, and some of its rollouts with their texts.

Shape legend: G groups of N rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparing.train.shaping import ShapedBatch
from sparing.train.update import UpdateResult
from sparing.types import BoolArray


def batch_metrics(shaped: ShapedBatch) -> dict[str, Any]:
    """Statistics of the groups a step trained on.

    Shares are in [0, 1] and of groups (mastered, unsolved, penalty fired, rho) or of rollouts (accuracy, truncated,
    unknown). Lengths are in tokens. `length_mastered` is None where no group is mastered. `penalty_mean` is over the
    rollouts of groups drawn for compression.
    """
    batch = shaped.batch
    correct_GN = np.stack([group.correct_N for group in batch.groups])
    length_GN = np.stack([group.lengths_N for group in batch.groups])
    compress_G = np.asarray(batch.compress_G, dtype=np.bool_)
    return {
        "accuracy": float(correct_GN.mean()),
        "mastered_share": float(shaped.mastered_G.mean()),
        "unsolved_share": float((~correct_GN.any(axis=1)).mean()),
        "length": float(length_GN.mean()),
        "length_mastered": float(length_GN[shaped.mastered_G].mean()) if shaped.mastered_G.any() else None,
        "length_max": int(length_GN.max()),
        "truncated_share": _share([group.truncated_N for group in batch.groups]),
        "unknown_share": _share([group.unknown_N for group in batch.groups]),
        "penalty_fired_share": float((shaped.penalty_GN != 0).any(axis=1).mean()),
        "penalty_mean": float(shaped.penalty_GN[compress_G].mean()) if compress_G.any() else 0.0,
        "rho": batch.achieved_rho,
        "shortage": batch.shortage,
        "groups_generated": batch.num_generated,
        "groups_used": len(batch.groups),
        "groups_active": int(shaped.active_G.sum()),
        "reward": float(shaped.reward_GN.mean()),
        "tokens": int(length_GN.sum()),
    }


def update_metrics(result: UpdateResult) -> dict[str, Any]:
    """Statistics of the optimizer's side; `entropy` is None where nothing went through the forward."""
    return {
        "loss": result.loss,
        "grad_norm": result.grad_norm,
        "entropy": result.entropy,
        "clip_share": result.clip_share,
        "kl": result.kl,
        "logprob_gap": result.logprob_gap,
        "learning_rate": result.learning_rate,
        "optimizer_steps": result.optimizer_steps,
    }


def rollout_rows(shaped: ShapedBatch, *, step: int, stage: str, num_groups: int) -> Iterator[dict[str, Any]]:
    """Rows of some groups' rollouts with texts; at least half of the groups are compressed ones where there are any."""
    compressed = np.flatnonzero(shaped.batch.compress_G)
    rest = np.flatnonzero(~np.asarray(shaped.batch.compress_G, dtype=np.bool_))
    few_rest = max(num_groups - len(compressed), num_groups // 2)
    chosen = [*compressed[: num_groups - min(few_rest, len(rest))], *rest[:few_rest]]
    for index in chosen[:num_groups]:
        group = shaped.batch.groups[index]
        for n, rollout in enumerate(group.rollouts):
            yield {
                "step": step,
                "stage": stage,
                "problem_id": group.problem.id,
                "question": group.problem.question,
                "answer": group.problem.answer,
                "text": rollout.text,
                "length": rollout.length,
                "finish_reason": rollout.completion.finish_reason,
                "outcome": rollout.verdict.outcome,
                "verdict_reason": rollout.verdict.reason,
                "reward": float(shaped.reward_GN[index, n]),
                "penalty": float(shaped.penalty_GN[index, n]),
                "advantage": float(shaped.advantage_GN[index, n]),
                "mastered": bool(shaped.mastered_G[index]),
                "compress": bool(shaped.batch.compress_G[index]),
            }


def _share(flags: list[BoolArray]) -> float:
    return float(np.stack(flags).mean())
