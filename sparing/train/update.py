"""The optimizer's side of a step: one shaped batch becomes one or several AdamW updates.

Shape legend: B responses of all groups, T response tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sparing.errors import RecipeError, RunError
from sparing.method.objective import Objective, loss_denominator, policy_loss
from sparing.settings import OptimizerSettings
from sparing.train.policy import Policy, plan_microbatches
from sparing.train.shaping import ShapedBatch
from sparing.types import FloatArray, IntArray, Rollout


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateResult:
    """What an update did. `entropy` is None where no token went through the forward.

    `loss`, `grad_norm` and `learning_rate` are means over the optimizer steps; the norm is the one before clipping.
    `tokens` counts response tokens that carried a gradient. `logprob_gap` is the mean absolute difference, a token, between
    the log-probabilities of the update and those the rollout engine recorded: what bfloat16 or other kernels cost.
    """

    loss: float
    grad_norm: float
    entropy: float | None
    clip_share: float
    kl: float
    learning_rate: float
    optimizer_steps: int
    tokens: int
    logprob_gap: float


class PolicyUpdater:
    """AdamW with linear warm-up, then constant (Sec. 4.1), on the clipped surrogate of a batch."""

    def __init__(
        self,
        policy: Policy,
        objective: Objective,
        settings: OptimizerSettings,
        *,
        updates_per_batch: int,
        max_tokens: int,
    ) -> None:
        self.policy = policy
        self.objective = objective
        self.settings = settings
        self.updates_per_batch = updates_per_batch
        self.max_tokens = max_tokens
        # In bfloat16 or under autocast the update scores tokens a little differently than the rollouts did, and the ratio of
        # an on-policy batch would not be 1, by more than GSPO's clips allow. Then the old policy is
        # the update's own first look, which is exact where a batch is one optimizer step.
        self._exact = policy.autocast == "none" and policy.model.dtype == torch.float32
        if not self._exact and updates_per_batch > 1:
            raise RecipeError(
                f"objective.updates_per_batch is {updates_per_batch} with model.dtype {policy.model.dtype} and model.autocast "
                f"{policy.autocast}; several updates need old log-probabilities in the update's own precision: set it to 1, or "
                'set model.dtype = "float32" and model.autocast = "none"'
            )
        self.reset()

    def reset(self) -> None:
        """Fresh optimizer state, warm-up included."""
        self.num_updates = 0
        self.optimizer = torch.optim.AdamW(
            [parameter for parameter in self.policy.model.parameters() if parameter.requires_grad],
            lr=self.settings.learning_rate,
            betas=(self.settings.beta1, self.settings.beta2),
            eps=self.settings.eps,
            weight_decay=self.settings.weight_decay,
        )

    @property
    def learning_rate(self) -> float:
        """Rate of the next optimizer step: a share (n + 1) / warmup_steps of the full rate, then all of it."""
        warmup = self.settings.warmup_steps
        return self.settings.learning_rate * min(1.0, (self.num_updates + 1) / warmup if warmup else 1.0)

    def state_dict(self) -> dict[str, Any]:
        """Optimizer moments and the number of updates made."""
        return {"optimizer": self.optimizer.state_dict(), "num_updates": self.num_updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a recorded state."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.num_updates = int(state["num_updates"])

    def update(self, shaped: ShapedBatch, *, step: int, rng: np.random.Generator) -> UpdateResult:
        """Update the policy on a batch; groups whose advantages are all zero are counted but not computed.

        Raises RunError on a loss or gradient that is not finite, with the weights still those of the last good update.
        """
        num_groups = len(shaped.batch.groups)
        order_G = np.arange(num_groups) if self.updates_per_batch == 1 else rng.permutation(num_groups)
        totals = _Totals()
        for groups in np.array_split(order_G, min(self.updates_per_batch, num_groups)):
            self._optimizer_step(shaped, groups, totals, step)
        return totals.result(self.learning_rate)

    def _optimizer_step(self, shaped: ShapedBatch, groups: IntArray, totals: _Totals, step: int) -> None:
        """One AdamW step on the given groups; none where nobody has an advantage."""
        lengths_B = np.concatenate([shaped.batch.groups[group].lengths_N for group in groups])
        # Over every response, also of the groups skipped below: a skipped group has a zero term, not no term.
        denominator = loss_denominator(self.objective, lengths_B, self.max_tokens)
        active = [int(group) for group in groups if shaped.active_G[group]]
        rollouts = [rollout for group in active for rollout in shaped.batch.groups[group].rollouts]
        if not rollouts:
            return
        advantages_B = np.concatenate([shaped.advantage_GN[group] for group in active])
        loss = self._backward(rollouts, advantages_B, denominator, totals)
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        grad_norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.settings.max_grad_norm))
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            self.optimizer.zero_grad(set_to_none=True)
            raise RunError(
                f"step {step}: loss is {loss} and gradient norm is {grad_norm}; both must be finite. The update was not "
                "made and the run can be resumed from its last checkpoint; try a lower optimizer.learning_rate, or "
                'model.dtype = "float32" and model.autocast = "none".'
            )
        learning_rate = self.learning_rate
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        # Freed, not zeroed: the memory serves the next rollouts' cache.
        self.optimizer.zero_grad(set_to_none=True)
        self.num_updates += 1
        totals.add_step(loss + 0.0, grad_norm, learning_rate)  # -0.0 becomes 0.0

    def _backward(
        self, rollouts: Sequence[Rollout], advantages_B: FloatArray, denominator: float, totals: _Totals
    ) -> float:
        """Accumulate gradients over micro-batches; returns the loss, which just adds up over them."""
        device = self.policy.model.device
        lengths_B = [len(rollout.prompt_ids) + rollout.length for rollout in rollouts]
        loss_sum = 0.0
        for rows in plan_microbatches(lengths_B, self.settings.microbatch_tokens):
            chosen = [rollouts[row] for row in rows]
            scores = self.policy.score(chosen)
            rollout_BT = _old_logprobs(chosen, scores.logprobs_BT.shape[1], device)
            old_BT = rollout_BT if self._exact else scores.logprobs_BT.detach()
            loss, sums = policy_loss(
                scores.logprobs_BT,
                old_BT,
                torch.tensor(advantages_B[rows], dtype=torch.float32, device=device),
                scores.mask_BT,
                objective=self.objective,
                denominator=denominator,
            )
            loss.backward()
            loss_sum += float(loss.detach())
            gap = ((scores.logprobs_BT.detach() - rollout_BT).abs() * scores.mask_BT).sum()
            totals.add_tokens(sums, float((scores.entropy_BT * scores.mask_BT).sum()), float(gap))
        return loss_sum


def _old_logprobs(rollouts: Sequence[Rollout], width: int, device: torch.device) -> torch.Tensor:
    """Log-probabilities of the behaviour policy, as the rollouts recorded them, padded to (B, T)."""
    old_BT = np.zeros((len(rollouts), width), dtype=np.float32)
    for row, rollout in enumerate(rollouts):
        old_BT[row, : rollout.length] = rollout.completion.logprobs_T
    return torch.tensor(old_BT, device=device)


class _Totals:
    """Running sums of one batch's updates."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float, float]] = []
        self.tokens = self.clipped = self.kl = self.entropy = self.gap = 0.0

    def add_step(self, loss: float, grad_norm: float, learning_rate: float) -> None:
        self.steps.append((loss, grad_norm, learning_rate))

    def add_tokens(self, sums: dict[str, torch.Tensor], entropy: float, gap: float) -> None:
        self.tokens += float(sums["tokens"])
        self.clipped += float(sums["clipped"])
        self.kl += float(sums["approx_kl"])
        self.entropy += entropy
        self.gap += gap

    def result(self, next_learning_rate: float) -> UpdateResult:
        """Means; a batch without an optimizer step has loss and norm 0 and the rate that waits."""
        loss, grad_norm, learning_rate = (
            np.mean(self.steps, axis=0).tolist() if self.steps else (0.0, 0.0, next_learning_rate)
        )
        tokens = max(self.tokens, 1.0)
        return UpdateResult(
            loss=loss,
            grad_norm=grad_norm,
            entropy=self.entropy / tokens if self.tokens else None,
            clip_share=self.clipped / tokens,
            kl=self.kl / tokens,
            learning_rate=learning_rate,
            optimizer_steps=len(self.steps),
            tokens=int(self.tokens),
            logprob_gap=self.gap / tokens,
        )
