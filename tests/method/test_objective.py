from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from sparing.errors import MethodError
from sparing.method.objective import loss_denominator, objective, policy_loss

NAMES = ["grpo", "dapo", "dr_grpo", "gspo"]


def random_batch(num=6, num_tokens=9, equal_lengths=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logprobs = -torch.rand(num, num_tokens, generator=generator, dtype=torch.float64) * 3
    old = logprobs + 0.3 * torch.randn(num, num_tokens, generator=generator, dtype=torch.float64)
    advantages = torch.randn(num, generator=generator, dtype=torch.float64)
    lengths = torch.randint(1, num_tokens + 1, (num,), generator=generator)
    if equal_lengths:
        lengths = torch.full((num,), num_tokens)
    mask = torch.arange(num_tokens) < lengths[:, None]
    return logprobs.requires_grad_(), old, advantages, mask


def whole_loss(name_or_objective, batch, max_tokens=9):
    chosen = objective(name_or_objective) if isinstance(name_or_objective, str) else name_or_objective
    logprobs, old, advantages, mask = batch
    denominator = loss_denominator(chosen, mask.sum(-1).numpy(), max_tokens)
    return policy_loss(logprobs, old, advantages, mask, objective=chosen, denominator=denominator)


def test_clip_by_hand() -> None:
    # Ratios 1.5, 0.5, 1.1 with A = +1: min(1.5, 1.2), min(0.5, 0.8), 1.1. With A = -1: -1.5, -0.8, -1.1.
    ratios = torch.tensor([[1.5, 0.5, 1.1]] * 2, dtype=torch.float64)
    logprobs = ratios.log().requires_grad_()
    chosen = objective("grpo")
    loss, sums = policy_loss(
        logprobs, torch.zeros(2, 3), torch.tensor([1.0, -1.0]), torch.ones(2, 3), objective=chosen, denominator=2.0
    )
    expected = -((1.2 + 0.5 + 1.1) / 3 + (-1.5 - 0.8 - 1.1) / 3) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-7)
    loss.backward()
    # d(ratio * A)/d(log p) = ratio * A; none where the clip holds: 1.5 going up, 0.5 going down.
    torch.testing.assert_close(
        logprobs.grad, -torch.tensor([[0, 0.5, 1.1], [-1.5, 0, -1.1]], dtype=torch.float64) / 6, rtol=1e-6, atol=0
    )
    assert sums["clipped"].item() == 2
    assert sums["tokens"].item() == 6
    assert sums["ratio"].item() == pytest.approx(2 * 3.1)
    assert sums["approx_kl"].item() == pytest.approx(2 * sum(r - 1 - math.log(r) for r in (1.5, 0.5, 1.1)))


def test_dapo_clips_higher() -> None:
    def loss(name):
        return policy_loss(
            torch.full((1, 1), math.log(1.5)),
            torch.zeros(1, 1),
            torch.ones(1),
            torch.ones(1, 1),
            objective=objective(name),
            denominator=1.0,
        )[0].item()

    assert loss("grpo") == pytest.approx(-1.2)
    assert loss("dapo") == pytest.approx(-1.27)
    assert (objective("dapo").clip_low, objective("dapo").clip_high) == (0.2, 0.27)


def test_aggregations_by_hand() -> None:
    # On policy every ratio is 1, so a response contributes A per token: lengths 1 and 3, A = 1 and 2, limit 4.
    lengths, mask = [1, 3], torch.tensor([[1, 0, 0], [1, 1, 1]])
    zeros, advantages = torch.zeros(2, 3), torch.tensor([1.0, 2.0])
    expected = {"grpo": -(1 + 2) / 2, "gspo": -(1 + 2) / 2, "dapo": -(1 + 6) / 4, "dr_grpo": -(1 + 6) / (2 * 4)}
    for name, value in expected.items():
        chosen = objective(name)
        denominator = loss_denominator(chosen, lengths, 4)
        loss, _ = policy_loss(zeros, zeros, advantages, mask, objective=chosen, denominator=denominator)
        assert loss.item() == pytest.approx(value), name


def test_sequence_ratio_is_the_geometric_mean_of_token_ratios() -> None:
    chosen = replace(objective("gspo"), clip_low=0.9, clip_high=9.0)
    logprobs = torch.tensor([[math.log(2.0), math.log(8.0), 77.0]], dtype=torch.float64, requires_grad=True)
    loss, sums = policy_loss(
        logprobs,
        torch.zeros(1, 3),
        torch.tensor([3.0]),
        torch.tensor([[1, 1, 0]]),
        objective=chosen,
        denominator=1.0,
    )
    assert loss.item() == pytest.approx(-3 * 4)  # sqrt(2 * 8) = 4
    assert sums["ratio"].item() == pytest.approx(2 * 4)
    loss.backward()
    torch.testing.assert_close(logprobs.grad, torch.tensor([[-6.0, -6.0, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1), (4, 2), (1, 5)])
def test_micro_batches_add_up_to_the_whole(name, sizes) -> None:
    batch = random_batch()
    loss, sums = whole_loss(name, batch)
    (gradient,) = torch.autograd.grad(loss, batch[0])
    chosen = objective(name)
    denominator = loss_denominator(chosen, batch[3].sum(-1).numpy(), 9)
    total, total_sums, total_gradient = 0.0, dict.fromkeys(sums, 0.0), torch.zeros_like(gradient)
    for part in torch.split(torch.randperm(6, generator=torch.Generator().manual_seed(1)), list(sizes)):
        rows = [tensor[part] for tensor in batch]
        width = int(rows[3].sum(-1).max())  # each micro-batch is padded to its own longest response only
        cut = [rows[0][:, :width], rows[1][:, :width], rows[2], rows[3][:, :width]]
        part_loss, part_sums = policy_loss(*cut, objective=chosen, denominator=denominator)
        total_gradient += torch.autograd.grad(part_loss, batch[0])[0]
        total += part_loss.item()
        total_sums = {key: total_sums[key] + value.item() for key, value in part_sums.items()}
    assert total == pytest.approx(loss.item(), rel=1e-12)
    torch.testing.assert_close(total_gradient, gradient, rtol=1e-12, atol=1e-15)
    assert total_sums == pytest.approx({key: value.item() for key, value in sums.items()})


@pytest.mark.parametrize("name", NAMES)
def test_rows_without_advantage_can_be_left_out(name) -> None:
    logprobs, old, advantages, mask = random_batch()
    advantages[[1, 4]] = 0.0
    kept = torch.tensor([0, 2, 3, 5])
    loss, _ = whole_loss(name, (logprobs, old, advantages, mask))
    chosen = objective(name)
    denominator = loss_denominator(chosen, mask.sum(-1).numpy(), 9)
    skipped, _ = policy_loss(
        logprobs[kept], old[kept], advantages[kept], mask[kept], objective=chosen, denominator=denominator
    )
    torch.testing.assert_close(torch.autograd.grad(loss, logprobs), torch.autograd.grad(skipped, logprobs))


def test_grpo_equals_dapo_with_equal_clips_exactly_where_lengths_are_equal() -> None:
    same_clips = objective("dapo", clip_high=0.2)
    equal, unequal = random_batch(equal_lengths=True), random_batch()
    assert whole_loss("grpo", equal)[0].item() == pytest.approx(whole_loss(same_clips, equal)[0].item(), rel=1e-12)
    # With unequal lengths DAPO weighs long responses more, so the two must differ.
    assert abs(whole_loss("grpo", unequal)[0].item() - whole_loss(same_clips, unequal)[0].item()) > 1e-3
    # Dr. GRPO divides by the limit instead of the length, the same thing when every response reaches the limit.
    assert whole_loss("dr_grpo", equal)[0].item() == pytest.approx(whole_loss("grpo", equal)[0].item(), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_garbage_under_the_mask_changes_nothing(name) -> None:
    logprobs, old, advantages, mask = random_batch()
    loss, sums = whole_loss(name, (logprobs, old, advantages, mask))
    dirty = logprobs.detach().masked_fill(~mask, float("inf")).requires_grad_()
    dirty_loss, dirty_sums = whole_loss(name, (dirty, old.masked_fill(~mask, float("nan")), advantages, mask))
    assert dirty_loss.item() == loss.item()
    assert {key: value.item() for key, value in dirty_sums.items()} == {k: v.item() for k, v in sums.items()}
    (gradient,) = torch.autograd.grad(dirty_loss, dirty)
    assert torch.isfinite(gradient).all()
    assert (gradient[~mask] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_first_update_is_the_plain_policy_gradient(name) -> None:
    logprobs, _, advantages, mask = random_batch()
    loss, sums = whole_loss(name, (logprobs, logprobs.detach(), advantages, mask))
    assert sums["clipped"].item() == 0
    assert sums["approx_kl"].item() == 0
    (gradient,) = torch.autograd.grad(loss, logprobs)
    lengths = mask.sum(-1, keepdim=True)
    weight = {"grpo": 1 / (6 * lengths), "gspo": 1 / (6 * lengths), "dapo": 1 / lengths.sum(), "dr_grpo": 1 / 54}[name]
    torch.testing.assert_close(gradient, -advantages[:, None] * mask * weight)


def test_half_precision_ratios_are_computed_in_single() -> None:
    logprobs = torch.full((1, 1), -1.0, dtype=torch.bfloat16)
    loss, _ = policy_loss(
        logprobs,
        torch.full((1, 1), -1.001),
        torch.ones(1),
        torch.ones(1, 1),
        objective=objective("grpo"),
        denominator=1.0,
    )
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(-math.exp(0.001), rel=1e-6)


def test_empty_response_costs_nothing() -> None:
    logprobs, old, advantages, mask = random_batch()
    mask[2] = False
    for name in NAMES:
        loss, _ = whole_loss(name, (logprobs, old, advantages, mask))
        (gradient,) = torch.autograd.grad(loss, logprobs)
        assert torch.isfinite(gradient).all()
        assert (gradient[2] == 0).all()


def test_denominators_by_hand() -> None:
    assert [loss_denominator(objective(name), [3, 5], 10) for name in NAMES] == [2, 8, 20, 2]


def test_bad_input_names_the_value() -> None:
    with pytest.raises(MethodError, match="'ppo'"):
        objective("ppo")
    with pytest.raises(MethodError, match=r"-0\.2"):
        objective("grpo", clip_low=-0.2)
    with pytest.raises(MethodError, match=r"advantages_B \(2, 1\)"):
        policy_loss(
            torch.zeros(2, 3),
            torch.zeros(2, 3),
            torch.zeros(2, 1),
            torch.ones(2, 3),
            objective=objective("grpo"),
            denominator=1.0,
        )
    with pytest.raises(MethodError, match="denominator is 0"):
        whole = random_batch()
        policy_loss(*whole, objective=objective("grpo"), denominator=0.0)
