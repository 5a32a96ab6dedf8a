"""Rules that bind several settings at once, and notes on settings that are allowed but rarely meant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sparing.recipe.explain import Mistake
from sparing.recipe.toml_file import KeyPath
from sparing.settings import RunConfig


def cross_check(config: RunConfig, wrong: Sequence[KeyPath]) -> list[Mistake]:
    """Mistakes between keys; a rule is skipped where a key it needs is itself in `wrong`."""

    def sound(*names: str) -> bool:
        paths = [tuple(name.split(".")) for name in names]
        return not any(path[: len(bad)] == bad or bad[: len(path)] == path for path in paths for bad in wrong)

    return [Mistake(path=tuple(names[0].split(".")), text=text) for names, text in _findings(config) if sound(*names)]


def _findings(config: RunConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    batch, rho, updates = config.mixture.batch_size, config.mixture.rho, config.objective.updates_per_batch
    stages, loops = config.curriculum.stages, config.curriculum.loops
    if not config.data.train:
        yield (
            ("data.train",),
            'data.train is empty: a run needs problems; add train = "problems.jsonl" under [data]',
        )
    if updates > batch:
        yield (
            ("objective.updates_per_batch", "mixture.batch_size"),
            f"objective.updates_per_batch = {updates}: a batch of {batch} problems cannot be split into more than "
            f"{batch} updates; lower it or raise mixture.batch_size",
        )
    if any(stage.type == "compression" for stage in stages):
        yield from _empty_shares(batch, rho)
    if loops > 1 and len(stages) == 1:
        yield (
            ("curriculum.loops", "curriculum.stages"),
            f"curriculum.loops = {loops}: a loop needs at least two stages, and there is one; add a stage, or set "
            f"loops = 1 and steps = {loops * stages[0].steps}",
        )


def _empty_shares(batch: int, rho: float) -> Iterator[tuple[tuple[str, ...], str]]:
    """A share that rounds (half up, as `quota` does) to no problem cannot hold its rho."""
    keys = ("mixture.rho", "mixture.batch_size", "curriculum.stages")
    if batch == 1:
        yield (
            ("mixture.batch_size", "curriculum.stages"),
            "mixture.batch_size = 1: a compression batch mixes mastered and other problems; set it to at least 2",
        )
    elif rho * batch < 0.5:
        yield (
            keys,
            f"mixture.rho = {rho:g}: {rho:g} of a batch of {batch} problems rounds to 0, so nothing would be "
            f"compressed; set rho to at least {_upwards(0.5 / batch):g} or mixture.batch_size to at least {math.ceil(0.5 / rho)}",
        )
    elif (1 - rho) * batch < 0.5:
        yield (
            keys,
            f"mixture.rho = {rho:g}: it leaves 0 of a batch of {batch} problems for correctness; set rho to at most "
            f"{1 - _upwards(0.5 / batch):g} or raise mixture.batch_size",
        )


def _upwards(share: float) -> float:
    """The share with three digits, never below itself."""
    return math.ceil(share * 1000) / 1000


def notes(config: RunConfig) -> list[str]:
    """What a run with these settings will do that its author may not expect."""
    found = []
    stopping, every = config.early_stopping, config.validation.every
    for index, stage in enumerate(config.curriculum.stages):
        if stage.type == "compression" and stopping.enabled and stage.steps < stopping.patience * every:
            found.append(
                f"curriculum.stages.{index} is {stage.steps} steps with a validation every {every}: too few for early "
                f"stopping, which needs {stopping.patience} in a row; lower validation.every to use it"
            )
    if config.objective.algorithm in ("grpo", "dapo", "gspo") and config.penalty.coef not in (0.0, 1.0):
        found.append(
            f"penalty.coef = {config.penalty.coef:g} has no effect in mastered groups under "
            f"{config.objective.algorithm}: dividing by the standard deviation cancels it; use dr_grpo to weaken the penalty"
        )
    if config.optimizer.warmup_steps >= sum(stage.steps for stage in config.curriculum.plan()):
        found.append("optimizer.warmup_steps is as long as the run: the learning rate never gets to its value")
    return found
