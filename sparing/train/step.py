"""One training step, top to bottom, as data flows. Read this file first.

    sampler draws problems -> completer writes N rollouts each -> grader gives verdicts -> mastery decides the mixture
    -> Eq. 1 and Eq. 2 shape rewards -> advantages -> clipped surrogate -> AdamW

Stages differ in two arguments only: an accuracy stage draws problems uniformly and penalises nobody; a compression
stage mixes mastered problems with the rest and penalises length on the mastered ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sparing.rollout.collect import collect_batch
from sparing.rollout.groups import rollout_groups
from sparing.seeding import derive_rng, derive_seed
from sparing.settings import PlannedStage
from sparing.train.metrics import batch_metrics, rollout_rows, update_metrics
from sparing.train.shaping import shape_batch
from sparing.train.timing import Stopwatch, TimedGrader, resident_memory
from sparing.train.trainer import Trainer
from sparing.types import RolloutGroup


def train_step(trainer: Trainer, stage: PlannedStage, step: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make step number `step` (from 1) of the run; returns its rows of metrics and of timings.

    Everything random comes from the run's seed and `step`, so a resumed run repeats the step bit for bit.
    """
    config, watch = trainer.config, Stopwatch()
    grader = TimedGrader(trainer.grader, watch)
    started = time.perf_counter()

    def generate(indices: Sequence[int], attempt: int) -> list[RolloutGroup]:
        """N rollouts of each of the given training problems, from the policy as it is now."""
        return rollout_groups(
            trainer.completer,
            grader,
            [trainer.train[index] for index in indices],
            num_rollouts=config.rollout.num_rollouts,
            temperature=config.rollout.temperature,
            top_p=config.rollout.top_p,
            max_tokens=config.rollout.max_tokens,
            seed=derive_seed(config.seed, "rollout", step, attempt),
        )

    # On-policy rollouts of exactly batch_size problems; their own pass rates say who is mastered, and mastery is recorded.
    with watch.measure("collect"):
        batch = collect_batch(
            generate,
            trainer.sampler,
            config.mixture,
            step=step,
            stage_type=stage.type,
            seed=derive_seed(config.seed, "collect", step),
        )

    # Correctness plus the gated length penalty (Eq. 2), centred within each group.
    shaped = shape_batch(batch, config.penalty, trainer.objective)

    # The policy-gradient update; the rollouts' own log-probabilities are the old policy.
    with watch.measure("update"):
        result = trainer.updater.update(shaped, step=step, rng=derive_rng(config.seed, "update", step))

    place = {"step": step, "loop": stage.loop, "stage_index": stage.stage_index, "stage": stage.type}
    if step % config.log.rollouts_every == 0:
        rows = rollout_rows(shaped, step=step, stage=stage.type, num_groups=config.log.rollout_groups)
        trainer.folder.write_rows(f"rollouts/step-{step:06d}.jsonl", rows)
    timings = {
        "step": step,
        "seconds_rollout": watch.seconds["collect"] - watch.seconds.get("verify", 0.0),
        "seconds_verify": watch.seconds.get("verify", 0.0),
        "seconds_update": watch.seconds["update"],
        "seconds": time.perf_counter() - started,
        "rss_bytes": resident_memory(),
    }
    return {**place, **batch_metrics(shaped), **update_metrics(result)}, timings
