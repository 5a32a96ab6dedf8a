from __future__ import annotations

import copy

import numpy as np
import pytest
import tiny
import torch

from sparing.errors import RecipeError, RunError
from sparing.method.objective import objective
from sparing.settings import OptimizerSettings, PenaltySettings
from sparing.train.policy import Policy
from sparing.train.shaping import ShapedBatch, shape_batch
from sparing.train.update import PolicyUpdater, UpdateResult
from sparing.types import Completion, Problem, Rollout, RolloutGroup, TrainBatch, Turn, Verdict

PROBLEM = Problem(id="p", turns=(Turn(role="user", content="easy 1"),), answer="yes")


def make_group(model: torch.nn.Module, outcomes: str, lengths: list[int]) -> RolloutGroup:
    """Rollouts of made-up tokens with the model's own log-probabilities; c, i, u in `outcomes` are verdicts."""
    names = {"c": "correct", "i": "incorrect", "u": "unknown"}
    rng = np.random.default_rng(sum(lengths))
    rollouts = []
    for outcome, length in zip(outcomes, lengths, strict=True):
        completion = Completion(
            response_ids_T=rng.integers(6, len(tiny.WORDS), size=length),
            logprobs_T=np.zeros(length, dtype=np.float32),
            finish_reason="stop",
        )
        rollout = Rollout(
            prompt_ids=(3, 7, 13), completion=completion, text="", verdict=Verdict(outcome=names[outcome])
        )
        with torch.no_grad():
            old = Policy(model, temperature=1.0).score([rollout]).logprobs_BT[0, :length].numpy()
        completion = Completion(
            response_ids_T=completion.response_ids_T, logprobs_T=old.astype(np.float32), finish_reason="stop"
        )
        rollouts.append(
            Rollout(prompt_ids=(3, 7, 13), completion=completion, text="", verdict=Verdict(outcome=names[outcome]))
        )
    return RolloutGroup(problem=PROBLEM, rollouts=tuple(rollouts))


def make_batch(model: torch.nn.Module, compress: list[bool], *groups: tuple[str, list[int]]) -> TrainBatch:
    return TrainBatch(
        groups=tuple(make_group(model, *group) for group in groups),
        compress_G=np.array(compress),
        num_generated=len(groups),
    )


MIXED = (("cici", [5, 9, 40, 7]), ("cccc", [10, 12, 14, 20]), ("iiii", [3, 4, 5, 6]), ("ccci", [50, 8, 8, 8]))


def updater_of(model: torch.nn.Module, name: str = "dr_grpo", *, updates: int = 1, **settings: float) -> PolicyUpdater:
    return PolicyUpdater(
        Policy(model, temperature=1.0),
        objective(name),
        OptimizerSettings(**{"learning_rate": 1e-3, "warmup_steps": 0, **settings}),
        updates_per_batch=updates,
        max_tokens=64,
    )


def update(model: torch.nn.Module, shaped: ShapedBatch, name: str = "dr_grpo", **settings: float) -> UpdateResult:
    return updater_of(model, name, **settings).update(shaped, step=1, rng=np.random.default_rng(0))


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).clone()


def test_only_groups_drawn_for_compression_are_penalised() -> None:
    model = tiny.make_model().eval()
    batch = make_batch(model, [True, False, True], *[MIXED[1]] * 2, MIXED[3])
    shaped = shape_batch(batch, PenaltySettings(), objective("dr_grpo"))
    # Lengths 10, 12, 14, 20: median 13, maximum 20.
    assert shaped.reward_GN[0] == pytest.approx([1, 1, 1 - 1 / 7, 0])
    assert shaped.advantage_GN[0] == pytest.approx(np.array([1, 1, 6 / 7, 0]) - 20 / 28)
    assert shaped.reward_GN[1].tolist() == [1, 1, 1, 1]
    assert shaped.reward_GN[2].tolist() == [1, 1, 1, 0]
    assert shaped.mastered_G.tolist() == [True, True, False]
    assert shaped.active_G.tolist() == [True, False, True]


def test_an_unknown_verdict_is_no_evidence_either_way() -> None:
    model = tiny.make_model().eval()
    groups = [("ccui", [5, 6, 7, 8]), ("cccu", [5, 6, 7, 8]), ("uuuu", [5, 6, 7, 8])]
    shaped = shape_batch(make_batch(model, [True] * 3, *groups), PenaltySettings(), objective("dr_grpo"))
    assert shaped.advantage_GN[0] == pytest.approx([1 / 3, 1 / 3, 0, -2 / 3])
    assert shaped.active_G.tolist() == [True, False, False]  # Unknown closes the gate, so nothing is penalised.


@pytest.mark.parametrize("name", ["grpo", "dapo", "dr_grpo", "gspo"])
def test_first_update_follows_the_policy_gradient(name: str) -> None:
    """At ratio 1 the gradient is that of -sum(A * logprob * weight); computed here from whole rows, nothing skipped."""
    model = tiny.make_model().eval()
    shaped = shape_batch(make_batch(model, [False, True, False, False], *MIXED), PenaltySettings(), objective(name))
    rollouts = [rollout for group in shaped.batch.groups for rollout in group.rollouts]
    lengths = np.array([rollout.length for rollout in rollouts])
    weight_B = {
        "grpo": 1 / lengths / len(lengths),
        "gspo": 1 / lengths / len(lengths),
        "dapo": np.full(len(lengths), 1 / lengths.sum()),
        "dr_grpo": np.full(len(lengths), 1 / (len(lengths) * 64)),
    }[name]
    reference = copy.deepcopy(model)
    logprobs_B = Policy(reference, temperature=1.0).score(rollouts).logprobs_BT.sum(1)
    (-(logprobs_B * torch.tensor(shaped.advantage_GN.reshape(-1) * weight_B, dtype=torch.float32)).sum()).backward()
    expected = torch.cat([parameter.grad.flatten() for parameter in reference.parameters()])

    # With plain-SGD-like AdamW settings gradients cannot be read off the step, so the norm and the direction are compared.
    result = update(model, shaped, name, microbatch_tokens=100, max_grad_norm=1e9)
    assert result.grad_norm == pytest.approx(float(expected.norm()), rel=1e-4)
    assert result.tokens == sum(lengths) - sum(MIXED[2][1])
    # AdamW's first step is -lr * sign(gradient) where the gradient is well above eps.
    moved = weights(model) - weights(reference)
    clear = expected.abs() > 1e-5
    assert clear.any()
    assert torch.equal(torch.sign(moved[clear]), -torch.sign(expected[clear]))
    assert result.kl == pytest.approx(0, abs=1e-6)
    assert result.clip_share == 0


def test_microbatch_size_changes_nothing_but_rounding() -> None:
    results, moved = [], []
    for tokens in (64, 100_000):
        model = tiny.make_model().eval()
        shaped = shape_batch(make_batch(model, [True] * 4, *MIXED), PenaltySettings(), objective("dapo"))
        results.append(update(model, shaped, "dapo", microbatch_tokens=tokens))
        moved.append(weights(model))
    assert results[0].grad_norm == pytest.approx(results[1].grad_norm, rel=1e-4)
    assert results[0].entropy == pytest.approx(results[1].entropy, rel=1e-5)
    assert (moved[0] - moved[1]).abs().max() < 1e-4


def test_a_batch_without_advantages_makes_no_optimizer_step() -> None:
    model = tiny.make_model().eval()
    before = weights(model)
    shaped = shape_batch(
        make_batch(model, [False, False], ("iiii", [3, 4, 5, 6]), ("cccc", [3, 4, 5, 9])),
        PenaltySettings(),
        objective("dapo"),
    )
    updater = updater_of(model, weight_decay=0.1)
    result = updater.update(shaped, step=1, rng=np.random.default_rng(0))
    assert (result.loss, result.grad_norm, result.optimizer_steps, result.entropy) == (0, 0, 0, None)
    assert torch.equal(weights(model), before)
    assert updater.num_updates == 0


def test_gradients_are_clipped_to_the_largest_norm() -> None:
    model = tiny.make_model().eval()
    shaped = shape_batch(make_batch(model, [False] * 4, *MIXED), PenaltySettings(), objective("dapo"))
    updater = updater_of(model, "dapo", max_grad_norm=1e-3)
    result = updater.update(shaped, step=1, rng=np.random.default_rng(0))
    assert result.grad_norm > 1e-2
    first_moment = torch.cat([state["exp_avg"].flatten() for state in updater.optimizer.state.values()])
    assert float(first_moment.norm()) == pytest.approx(0.1 * 1e-3, rel=1e-3)


def test_warm_up_is_linear_and_then_constant() -> None:
    model = tiny.make_model().eval()
    shaped = shape_batch(make_batch(model, [False] * 4, *MIXED), PenaltySettings(), objective("dapo"))
    updater = updater_of(model, "dapo", warmup_steps=4, learning_rate=4e-5)
    rates = [updater.update(shaped, step=step, rng=np.random.default_rng(0)).learning_rate for step in range(6)]
    assert rates == pytest.approx([1e-5, 2e-5, 3e-5, 4e-5, 4e-5, 4e-5])
    updater.reset()
    assert updater.learning_rate == pytest.approx(1e-5)


def test_a_batch_can_be_split_into_several_updates() -> None:
    model = tiny.make_model().eval()
    groups = [("cici", [5, 9, 40, 7])] * 4
    shaped = shape_batch(make_batch(model, [False] * 4, *groups), PenaltySettings(), objective("dapo"))
    result = update(model, shaped, "dapo", updates=2)
    assert result.optimizer_steps == 2
    assert result.kl > 0  # The second update is no longer on the policy that generated.


def test_a_gradient_that_is_not_finite_stops_the_run_with_the_weights_unchanged() -> None:
    model = tiny.make_model().eval()
    shaped = shape_batch(make_batch(model, [False] * 4, *MIXED), PenaltySettings(), objective("dapo"))
    for rollout in shaped.batch.groups[0].rollouts:
        rollout.completion.logprobs_T[:] = np.nan
    before = weights(model)
    with pytest.raises(RunError, match=r"step 7: loss is nan.*learning_rate"):
        updater_of(model, "dapo").update(shaped, step=7, rng=np.random.default_rng(0))
    assert torch.equal(weights(model), before)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_gap_to_the_rollouts_log_probabilities_is_reported() -> None:
    model = tiny.make_model().eval()
    batch = make_batch(model, [False], MIXED[0])
    shaped = shape_batch(batch, PenaltySettings(), objective("dr_grpo"))
    assert update(model, shaped).logprob_gap < 1e-5
    with torch.no_grad():
        model.model.norm.weight.mul_(1.5)
    assert update(model, shaped).logprob_gap > 1e-3


def test_under_autocast_an_on_policy_ratio_is_one_all_the_same() -> None:
    """Otherwise bfloat16 rounding alone would leave GSPO's clips of 3e-4."""
    model = tiny.make_model().eval()
    shaped = shape_batch(make_batch(model, [False], MIXED[0]), PenaltySettings(), objective("gspo"))
    policy = Policy(model, temperature=1.0, autocast="bfloat16")
    updater = PolicyUpdater(policy, objective("gspo"), OptimizerSettings(), updates_per_batch=1, max_tokens=64)
    result = updater.update(shaped, step=1, rng=np.random.default_rng(0))
    assert result.kl == 0
    assert result.clip_share == 0
    assert result.logprob_gap > 1e-4


def test_several_updates_need_exact_old_log_probabilities() -> None:
    policy = Policy(tiny.make_model().eval(), temperature=1.0, autocast="bfloat16")
    with pytest.raises(RecipeError, match=r"updates_per_batch is 2 .* set it to 1"):
        PolicyUpdater(policy, objective("dapo"), OptimizerSettings(), updates_per_batch=2, max_tokens=64)
