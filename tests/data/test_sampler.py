from __future__ import annotations

import io
import resource
import time

import numpy as np
import pytest
import torch

from sparing.data.mastery_table import MasteryTable
from sparing.data.sampler import MixtureSampler, check_enough_problems
from sparing.errors import DataError


def sampler_of(num: int, seed: int = 0) -> MixtureSampler:
    return MixtureSampler(num, MasteryTable(num), seed)


def test_any_passes_over_the_data_once_an_epoch() -> None:
    sampler = sampler_of(30)
    drawn = [sampler.draw(10, "any", step=step) for step in range(1, 7)]
    assert sorted(np.concatenate(drawn[:3]).tolist()) == list(range(30))
    assert sorted(np.concatenate(drawn[3:]).tolist()) == list(range(30))
    assert np.concatenate(drawn[:3]).tolist() != np.concatenate(drawn[3:]).tolist()
    assert sampler.metrics()["epoch"] == 2.0


def test_a_draw_over_the_end_of_an_epoch_is_distinct() -> None:
    sampler = sampler_of(10)
    for step in range(1, 40):
        assert len(set(sampler.draw(7, "any", step=step).tolist())) == 7


def test_exclude_is_respected_and_all_problems_can_be_reached() -> None:
    sampler = sampler_of(12)
    exclude = np.arange(5)
    assert sorted(sampler.draw(12, "any", step=1, exclude=exclude).tolist()) == list(range(5, 12))
    sampler.observe(np.arange(12), np.ones(12), step=1)
    assert sorted(sampler.draw(12, "mastered", step=2, exclude=exclude).tolist()) == list(range(5, 12))
    assert sorted(sampler.draw(12, "unmastered", step=3, exclude=exclude).tolist()) == list(range(5, 12))


@pytest.mark.parametrize(
    ("want", "lowest", "highest"), [("mastered", 1.0, 1.0), ("unmastered", 0.0, 0.99), ("partial", 0.01, 0.99)]
)
def test_wants_are_served_from_the_last_pass_rates(want, lowest: float, highest: float) -> None:
    sampler = sampler_of(300)
    rates = np.tile([0.0, 0.5, 1.0], 100)
    sampler.observe(np.arange(300), rates, step=1)
    fits = [
        np.mean((rates[drawn] >= lowest) & (rates[drawn] <= highest))
        for drawn in (sampler.draw(40, want, step=step) for step in range(2, 12))
    ]
    # Not all: problems with hardly a chance are looked at again now and then.
    assert np.mean(fits) > 0.93


def test_unseen_problems_serve_where_nothing_better_is_known() -> None:
    sampler = sampler_of(50)
    sampler.observe(np.arange(10), np.zeros(10), step=1)
    drawn = sampler.draw(20, "mastered", step=2)
    assert len(set(drawn.tolist())) == 20
    assert np.all(drawn >= 10)


def test_never_seen_problems_come_before_repeats_of_the_pass() -> None:
    sampler = sampler_of(40)
    seen: set[int] = set()
    for step in range(1, 5):
        drawn = sampler.draw(10, "any", step=step)
        assert not seen & set(drawn.tolist())
        seen |= set(drawn.tolist())
        sampler.observe(drawn, np.full(10, 0.5), step=step)


def test_draws_are_functions_of_seed_step_attempt_and_state() -> None:
    def second(seed: int, step: int, attempt: int) -> list[int]:
        sampler = sampler_of(500, seed)
        sampler.observe(np.arange(500), np.tile([1.0, 0.5], 250), step=1)
        return sampler.draw_candidates(5, 20, "unmastered", batch_size=25, step=step, attempt=attempt).tolist()

    assert second(0, 2, 0) == second(0, 2, 0)
    assert len({tuple(second(*place)) for place in [(0, 2, 0), (1, 2, 0), (0, 3, 0), (0, 2, 1)]}) == 4


@pytest.mark.parametrize("rest", ["all", "unmastered", "partial"])
def test_restored_sampler_continues_identically(rest) -> None:
    def go(sampler: MixtureSampler, steps: range) -> list[list[int]]:
        drawn = []
        for step in steps:
            index = sampler.draw_candidates(4, 12, rest, batch_size=16, step=step)
            sampler.observe(index, np.random.default_rng(step).integers(0, 9, index.shape[0]) / 8, step)
            drawn.append(index.tolist())
        return drawn

    whole, first, resumed = sampler_of(200), sampler_of(200), sampler_of(200)
    expected = go(whole, range(1, 31))
    assert go(first, range(1, 16)) == expected[:15]
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    resumed.load_state_dict(torch.load(buffer, weights_only=False))
    assert go(resumed, range(16, 31)) == expected[15:]
    for name, value in whole.state_dict().items():
        assert np.array_equal(value, resumed.state_dict()[name]), name


def test_first_attempt_fills_the_batch_and_a_refill_only_what_is_missing() -> None:
    sampler = sampler_of(400)
    sampler.observe(np.arange(400), np.tile([1.0, 0.0], 200), step=1)
    first = sampler.draw_candidates(6, 58, "all", batch_size=64, step=2)
    assert first.shape == (64,) and len(set(first.tolist())) == 64
    refill = sampler.draw_candidates(2, 0, "all", batch_size=64, step=2, attempt=1, exclude=first)
    assert 2 <= refill.shape[0] <= 5 and np.all(refill % 2 == 0)
    assert not set(refill.tolist()) & set(first.tolist())


def test_refill_brings_nobody_without_a_fair_chance() -> None:
    sampler = sampler_of(100)
    for step in range(1, 20):
        sampler.observe(np.arange(100), np.zeros(100), step=step)
    assert sampler.draw_candidates(5, 0, "all", batch_size=20, step=20, attempt=1).shape == (0,)


def test_capability_share_of_all_is_an_unbiased_pass() -> None:
    sampler = sampler_of(1000)
    rates = np.r_[np.ones(300), np.full(300, 0.5), np.zeros(400)]
    sampler.observe(np.arange(1000), rates, step=0)
    counts = np.zeros(1000)
    for step in range(1, 101):
        drawn = sampler.draw_candidates(5, 45, "all", batch_size=50, step=step)
        sampler.observe(drawn, rates[drawn], step)
        counts[drawn] += 1
    # 45 of 50 places go round the data: 4.5 passes, plus 5 x 100 draws among the 300 mastered.
    assert counts[600:].mean() == pytest.approx(4.5, abs=0.3)
    assert counts[300:600].mean() == pytest.approx(4.5, abs=0.3)
    assert counts[:300].mean() == pytest.approx(4.5 + 5 / 3, abs=0.3)
    assert counts[300:].min() >= 3


def test_too_few_problems_are_refused_up_front() -> None:
    check_enough_problems(256, 256)
    with pytest.raises(DataError, match=r"needs 256 different problems and the training data has 255; set mixture"):
        check_enough_problems(255, 256)


def test_table_of_other_data_is_refused() -> None:
    with pytest.raises(DataError, match="they must agree"):
        MixtureSampler(10, MasteryTable(11), seed=0)


def step_seconds(num: int, rest: str, steps: int, seen: int) -> list[float]:
    sampler = sampler_of(num)
    rng = np.random.default_rng(0)
    for start in range(0, seen, 50_000):
        index = np.arange(start, start + 50_000)
        sampler.observe(index, rng.integers(0, 9, index.shape[0]) / 8, step=0)
    seconds = []
    for step in range(1, steps + 1):
        begun = time.process_time()
        index = sampler.draw_candidates(26, 230, rest, batch_size=256, step=step)  # type: ignore[arg-type]
        sampler.observe(index, rng.integers(0, 9, index.shape[0]) / 8, step)
        sampler.draw_candidates(3, 3, rest, batch_size=256, step=step, attempt=1, exclude=index)  # type: ignore[arg-type]
        seconds.append(time.process_time() - begun)
    return seconds


@pytest.mark.slow
@pytest.mark.parametrize("rest", ["all", "unmastered", "partial"])
def test_a_step_at_ten_million_problems_takes_milliseconds(rest: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    large = np.median(step_seconds(10_000_000, rest, steps=30, seen=1_000_000))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    small = np.median(step_seconds(100_000, rest, steps=30, seen=50_000))
    print(f"{rest}: {large * 1e3:.1f} ms a step at 10 M, {small * 1e3:.1f} ms at 100 k, {grown:.0f} MiB more")
    assert large < 0.05
    assert large < 5 * small
    assert grown < 400
