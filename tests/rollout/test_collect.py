"""Collection against a simulated policy: real groups drawn from per-problem chances of success."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from sparing.data.mastery_table import MasteryTable
from sparing.data.sampler import MixtureSampler
from sparing.errors import DataError
from sparing.method.mixing import quota
from sparing.rollout.collect import collect_batch
from sparing.seeding import derive_rng
from sparing.settings import MixtureSettings
from sparing.types import Completion, Outcome, Problem, Rollout, RolloutGroup, TrainBatch, Turn, Verdict

NUM_ROLLOUTS = 8


def rollout(outcome: Outcome, length: int) -> Rollout:
    completion = Completion(
        response_ids_T=np.zeros(length, dtype=np.int64),
        logprobs_T=np.zeros(length, dtype=np.float32),
        finish_reason="stop",
    )
    return Rollout(prompt_ids=(1,), completion=completion, text="", verdict=Verdict(outcome=outcome))


@dataclass
class SimulatedPolicy:
    """Rollouts of problem i are correct with chance `success[i]`, whose logit rises by `drift` a step."""

    success: np.ndarray
    seed: int = 0
    drift: float = 0.0
    unknown: float = 0.0
    step: int = 0
    generated: list[int] = field(default_factory=list)

    def __call__(self, indices: Sequence[int], attempt: int) -> list[RolloutGroup]:
        rng = derive_rng(self.seed, "policy", self.step, attempt)
        self.generated.extend(indices)
        return [self._group(index, rng) for index in indices]

    def _group(self, index: int, rng: np.random.Generator) -> RolloutGroup:
        odds = self.success[index] / (1 - self.success[index]) * np.exp(self.drift * self.step)
        outcomes = np.where(rng.random(NUM_ROLLOUTS) < odds / (1 + odds), "correct", "incorrect")
        outcomes = np.where(rng.random(NUM_ROLLOUTS) < self.unknown, "unknown", outcomes)
        lengths = rng.integers(1, 9, NUM_ROLLOUTS)
        problem = Problem(id=str(index), turns=(Turn(role="user", content=str(index)),), answer="")
        return RolloutGroup(
            problem=problem,
            rollouts=tuple(
                rollout(outcome, int(length)) for outcome, length in zip(outcomes.tolist(), lengths, strict=True)
            ),
        )


def chances(num: int, alpha: float, beta: float, seed: int = 1) -> np.ndarray:
    return np.clip(np.random.default_rng(seed).beta(alpha, beta, num), 1e-6, 1 - 1e-6)


class Run:
    """A policy, its sampler and steps of collection."""

    def __init__(self, policy: SimulatedPolicy, *, seed: int = 0, **mixture) -> None:
        self.policy, self.seed = policy, seed
        self.mixture = MixtureSettings(**mixture)
        num = policy.success.shape[0]
        self.sampler = MixtureSampler(num, MasteryTable(num), seed)

    def step(self, number: int, stage_type="compression") -> TrainBatch:
        self.policy.step = number
        return collect_batch(
            self.policy, self.sampler, self.mixture, step=number, stage_type=stage_type, seed=self.seed
        )

    def steps(self, first: int, last: int, stage_type="compression") -> list[TrainBatch]:
        return [self.step(number, stage_type) for number in range(first, last + 1)]


def is_mastered(group: RolloutGroup) -> bool:
    return bool(group.correct_N.all())


def check_batch(batch: TrainBatch, mixture: MixtureSettings) -> None:
    """What holds for every batch, short or not."""
    num_mastered, num_rest = quota(mixture.batch_size, mixture.rho)
    assert len(batch.groups) == mixture.batch_size == batch.compress_G.shape[0]
    assert len({group.problem.id for group in batch.groups}) == mixture.batch_size
    compressed = [group for group, on in zip(batch.groups, batch.compress_G, strict=True) if on]
    others = [group for group, on in zip(batch.groups, batch.compress_G, strict=True) if not on]
    assert all(is_mastered(group) for group in compressed)
    assert len(compressed) <= num_mastered
    if not batch.shortage:
        assert len(compressed) == num_mastered
        if mixture.rest != "all":
            assert sum(not is_mastered(group) for group in others) == num_rest
        if mixture.rest == "partial":
            assert sum(0 < group.correct_N.mean() < 1 for group in others) == num_rest


@pytest.mark.parametrize("rest", ["all", "unmastered", "partial"])
@pytest.mark.parametrize("rho", [0.1, 0.2, 0.4])
@pytest.mark.parametrize(("num", "batch_size", "steps"), [(600, 16, 50), (3000, 64, 15)])
def test_few_groups_are_generated_in_vain(rest: str, rho: float, num: int, batch_size: int, steps: int) -> None:
    """At most 1.2 generated for each used after warm-up, exact size, rho reached, while the policy improves."""
    policy = SimulatedPolicy(chances(num, 0.6, 0.5), drift=0.005)
    run = Run(policy, batch_size=batch_size, rho=rho, rest=rest)
    for batch in run.steps(1, 10, "accuracy") + run.steps(11, 15):
        assert len(batch.groups) == batch_size
    batches = run.steps(16, 15 + steps)
    for batch in batches:
        check_batch(batch, run.mixture)
    ratio = sum(batch.num_generated for batch in batches) / (batch_size * steps)
    assert ratio <= (1.01 if rest == "all" else 1.2)
    achieved = np.mean([batch.achieved_rho for batch in batches])
    assert achieved == pytest.approx(quota(batch_size, rho)[0] / batch_size, abs=0.006)
    assert np.mean([bool(batch.shortage) for batch in batches]) <= 0.08


@pytest.mark.parametrize("rest", ["all", "unmastered", "partial"])
def test_shares_are_met_from_the_first_step_with_refills(rest: str) -> None:
    """Nothing is known at step 1 and nobody ran an accuracy stage."""
    run = Run(SimulatedPolicy(chances(2000, 0.6, 0.5)), batch_size=32, rho=0.1, rest=rest, max_refills=4)
    for batch in run.steps(1, 5):
        check_batch(batch, run.mixture)
        assert batch.shortage == ""


def test_high_rho_is_reached() -> None:
    run = Run(SimulatedPolicy(chances(1500, 1.5, 0.4)), batch_size=32, rho=0.9)
    run.steps(1, 20, "accuracy")
    batches = run.steps(21, 50)
    assert np.mean([batch.achieved_rho for batch in batches]) == pytest.approx(29 / 32, abs=0.01)
    assert sum(batch.num_generated for batch in batches) / (32 * 30) <= 1.35


def test_capability_share_keeps_mastered_and_unsolved_problems() -> None:
    """Sec. 4.1: pass rates 0 and 1 are not filtered out."""
    run = Run(SimulatedPolicy(chances(800, 0.4, 0.4)), batch_size=32, rho=0.1)
    rates = [
        group.correct_N.mean()
        for batch in run.steps(1, 40)
        for group, on in zip(batch.groups, batch.compress_G, strict=True)
        if not on
    ]
    everyone = [(1 - run.policy.success) ** NUM_ROLLOUTS, run.policy.success**NUM_ROLLOUTS]
    assert np.mean(np.array(rates) == 0) == pytest.approx(everyone[0].mean(), abs=0.05)
    assert np.mean(np.array(rates) == 1) == pytest.approx(everyone[1].mean(), abs=0.05)


def test_all_problems_are_visited_while_compressing() -> None:
    run = Run(SimulatedPolicy(chances(300, 0.6, 0.5)), batch_size=32, rho=0.2)
    run.steps(1, 14)
    assert set(run.policy.generated) == set(range(300))


def test_accuracy_stage_draws_a_shuffled_pass_and_compresses_nobody() -> None:
    run = Run(SimulatedPolicy(chances(64, 0.6, 0.5)), batch_size=16, rho=0.4)
    batches = run.steps(1, 4, "accuracy")
    assert sorted(run.policy.generated) == list(range(64))
    for batch in batches:
        assert not batch.compress_G.any() and batch.num_generated == 16 and batch.shortage == ""
    assert run.sampler.metrics()["seen_share"] == 1.0


def test_nobody_mastered_is_reported_and_bounded() -> None:
    run = Run(SimulatedPolicy(np.full(500, 1e-6)), batch_size=16, rho=0.4)
    first = run.step(1)
    assert first.num_generated <= 3 * 16
    batches = run.steps(2, 12)
    for batch in [first, *batches]:
        check_batch(batch, run.mixture)
        assert batch.achieved_rho == 0.0
    assert batches[-1].shortage == "6 of 6 mastered groups short after 0 refills; filled from the rest"
    # Once it is known that nobody is mastered, no refill is tried.
    assert all(batch.num_generated <= 17 for batch in batches[3:])


def test_everybody_mastered_is_reported_and_bounded() -> None:
    run = Run(SimulatedPolicy(np.full(500, 1 - 1e-6)), batch_size=16, rho=0.4, rest="unmastered")
    batches = run.steps(1, 12)
    for batch in batches:
        check_batch(batch, run.mixture)
        assert batch.achieved_rho == pytest.approx(6 / 16)
    assert batches[-1].shortage == "10 of 10 unmastered groups short after 0 refills; filled from mastered groups"
    assert all(batch.num_generated <= 20 for batch in batches[4:])


def test_shortage_counts_groups_and_refills() -> None:
    # 0.86 ** 8 is 0.3: of 64 candidates 19 are mastered, so 38 take most of what one refill may bring.
    run = Run(SimulatedPolicy(np.full(2000, 0.86)), batch_size=64, rho=0.6, max_refills=1)
    batches = run.steps(1, 8)
    short = [batch for batch in batches if batch.shortage]
    assert short
    for batch in short:
        missing = 38 - int(batch.compress_G.sum())
        assert batch.shortage == f"{missing} of 38 mastered groups short after 1 refill; filled from the rest"
        assert batch.num_generated <= 80 + 64


def test_no_refill_when_none_is_allowed() -> None:
    run = Run(SimulatedPolicy(np.full(200, 1e-6)), batch_size=16, rho=0.4, max_refills=0)
    run.sampler.observe(np.arange(200), np.ones(200), step=1)
    batch = run.step(2)
    assert batch.num_generated == 16
    assert "short after 0 refills" in batch.shortage


@pytest.mark.parametrize("rest", ["all", "unmastered", "partial"])
def test_data_as_large_as_the_batch(rest: str) -> None:
    run = Run(SimulatedPolicy(chances(16, 0.6, 0.5)), batch_size=16, rho=0.2, rest=rest)
    for batch in run.steps(1, 8):
        check_batch(batch, run.mixture)
        assert batch.num_generated == 16


def test_data_smaller_than_the_batch_is_refused_before_generation() -> None:
    run = Run(SimulatedPolicy(chances(15, 0.6, 0.5)), batch_size=16, rho=0.2)
    for stage_type in ("accuracy", "compression"):
        with pytest.raises(DataError, match="16 different problems and the training data has 15"):
            run.step(1, stage_type)
    assert run.policy.generated == []


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_tiny_batches(batch_size: int) -> None:
    run = Run(SimulatedPolicy(chances(50, 0.6, 0.5)), batch_size=batch_size, rho=0.4)
    for batch in run.steps(1, 10):
        check_batch(batch, run.mixture)


def test_unknown_verdicts_close_the_gate() -> None:
    run = Run(SimulatedPolicy(np.full(300, 1 - 1e-6), unknown=0.1), batch_size=16, rho=0.2)
    for batch in run.steps(1, 10):
        for group, compressed in zip(batch.groups, batch.compress_G, strict=True):
            assert not (compressed and group.unknown_N.any())


@pytest.mark.parametrize("rest", ["all", "unmastered", "partial"])
def test_resume_is_identical(rest: str) -> None:
    def ids(batch: TrainBatch) -> list[tuple[str, bool]]:
        return [(group.problem.id, bool(on)) for group, on in zip(batch.groups, batch.compress_G, strict=True)]

    def new() -> Run:
        return Run(SimulatedPolicy(chances(200, 0.6, 0.5)), batch_size=16, rho=0.2, rest=rest)

    whole, first, resumed = new(), new(), new()
    expected = [ids(batch) for batch in whole.steps(1, 16)]
    first.steps(1, 8)
    resumed.sampler.load_state_dict(first.sampler.state_dict())
    assert [ids(batch) for batch in resumed.steps(9, 16)] == expected[8:]


def test_generate_that_loses_groups_is_named() -> None:
    run = Run(SimulatedPolicy(chances(50, 0.6, 0.5)), batch_size=16, rho=0.2)
    with pytest.raises(ValueError, match="15 groups for 16 problems"):
        collect_batch(
            lambda indices, attempt: run.policy(indices, attempt)[:-1],
            run.sampler,
            run.mixture,
            step=1,
            stage_type="accuracy",
            seed=0,
        )
