"""The clipped policy-gradient objective of GRPO, DAPO, Dr. GRPO and GSPO (Sec. 3). The only file here that needs torch.

B responses, T response tokens (right-padded).

    ratio        = exp(log p_new - log p_old)                      a token, or the geometric mean over a response (GSPO)
    surrogate    = min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A)
    policy_loss  = -(sum of the surrogate, aggregated) / denominator
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sparing.errors import MethodError
from sparing.method import _checks

Ratio = Literal["token", "sequence"]
Aggregation = Literal["sequence_mean", "token_mean", "constant"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """What distinguishes the members of the GRPO family.

    `ratio`: importance ratio a token, or one a response: the geometric mean of its tokens' ratios (GSPO).
    `aggregation`: `sequence_mean` is the mean over responses of each one's mean over tokens (GRPO, GSPO), `token_mean`
    the mean over all tokens of the batch (DAPO), `constant` the sum over tokens divided by B * max_tokens (Dr. GRPO).
    `normalise`: whether `group_advantages` divides by the standard deviation.
    """

    name: str
    clip_low: float
    clip_high: float
    ratio: Ratio
    aggregation: Aggregation
    normalise: Literal["std", "none"]

    def __post_init__(self) -> None:
        _checks.within("clip_low", self.clip_low, 0.0, 1.0, open_low=True)
        _checks.within("clip_high", self.clip_high, 0.0, float("inf"), open_low=True, open_high=True)
        _checks.one_of("ratio", self.ratio, ("token", "sequence"))
        _checks.one_of("aggregation", self.aggregation, ("sequence_mean", "token_mean", "constant"))
        _checks.one_of("normalise", self.normalise, ("std", "none"))


GRPO = Objective(name="grpo", clip_low=0.2, clip_high=0.2, ratio="token", aggregation="sequence_mean", normalise="std")
DAPO = Objective(name="dapo", clip_low=0.2, clip_high=0.27, ratio="token", aggregation="token_mean", normalise="std")
DR_GRPO = Objective(
    name="dr_grpo", clip_low=0.2, clip_high=0.2, ratio="token", aggregation="constant", normalise="none"
)
GSPO = Objective(
    name="gspo", clip_low=3e-4, clip_high=4e-4, ratio="sequence", aggregation="sequence_mean", normalise="std"
)


def objective(name: str, clip_low: float | None = None, clip_high: float | None = None) -> Objective:
    """The member of the family called `grpo`, `dapo`, `dr_grpo` or `gspo`, with its own clips where none are given.

    DAPO's clips are the paper's (Sec. 4.1); GSPO's are those of its own paper, small since a length-normalised ratio
    stays near 1. Raises `MethodError` for an unknown name or a clip out of range.
    """
    members = {member.name: member for member in (GRPO, DAPO, DR_GRPO, GSPO)}
    _checks.one_of("name", name, tuple(members))
    member = members[name]
    return replace(
        member,
        clip_low=member.clip_low if clip_low is None else clip_low,
        clip_high=member.clip_high if clip_high is None else clip_high,
    )


def loss_denominator(obj: Objective, lengths_B: ArrayLike, max_tokens: int) -> float:
    """What the loss of a whole batch is divided by: B, the number of its tokens, or B * max_tokens.

    `lengths_B` holds the response tokens of *every* response of the optimizer step, shape (B,), including those whose
    advantage is 0 and that need no forward pass. With one denominator for the step, losses and gradients of
    micro-batches of any size and order add up to those of the whole batch.
    """
    lengths = _checks.lengths("lengths_B", lengths_B)
    if obj.aggregation == "sequence_mean":
        return float(lengths.size)
    if obj.aggregation == "token_mean":
        return max(float(lengths.sum()), 1.0)
    if max_tokens < 1:
        raise MethodError(f"max_tokens is {max_tokens}; it is the longest response allowed, 1 or more")
    return float(lengths.size * max_tokens)


def policy_loss(
    logprobs_BT: Tensor,
    old_logprobs_BT: Tensor,
    advantages_B: Tensor,
    mask_BT: Tensor,
    *,
    objective: Objective,
    denominator: float,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The clipped surrogate of a micro-batch, as a loss to minimise, and sums for the log.

    `logprobs_BT` come from the policy being trained and carry the gradient; `old_logprobs_BT` from the policy that
    generated, at the same temperature. `mask_BT` is 1 on model-generated tokens and 0 on padding and tool tokens, where
    log-probabilities may hold anything. `denominator` is `loss_denominator` of the whole batch.

    The sums, detached scalars over the tokens of the mask: `tokens`, `ratio`, `clipped` (tokens whose gradient the clip
    removed) and `approx_kl` (ratio - 1 - log ratio a token, Schulman's k3 estimate of KL(old, new)).
    """
    _check_tensors(logprobs_BT, old_logprobs_BT, advantages_B, mask_BT, denominator)
    mask_BT = mask_BT.bool()
    # Masked before the exponential, so that garbage on padding can neither overflow nor reach a gradient.
    log_ratio_BT = torch.where(mask_BT, _wide(logprobs_BT) - _wide(old_logprobs_BT.detach()), 0.0)
    weight_BT = mask_BT.to(log_ratio_BT.dtype)
    tokens_B1 = weight_BT.sum(-1, keepdim=True)
    log_weight_BT = log_ratio_BT
    if objective.ratio == "sequence":
        log_weight_BT = (log_ratio_BT.sum(-1, keepdim=True) / tokens_B1.clamp(min=1.0)).expand_as(log_ratio_BT)
    ratio_BT = log_weight_BT.exp()
    advantages_B1 = advantages_B.detach().to(ratio_BT.dtype).unsqueeze(-1)
    clipped_BT = ratio_BT.clamp(1.0 - objective.clip_low, 1.0 + objective.clip_high)
    surrogate_BT = torch.minimum(ratio_BT * advantages_B1, clipped_BT * advantages_B1) * weight_BT
    if objective.aggregation == "sequence_mean":
        surrogate_BT = surrogate_BT / tokens_B1.clamp(min=1.0)
    loss = -surrogate_BT.sum() / denominator
    with torch.no_grad():
        too_low_BT = (ratio_BT < 1.0 - objective.clip_low) & (advantages_B1 < 0)
        too_high_BT = (ratio_BT > 1.0 + objective.clip_high) & (advantages_B1 > 0)
        sums = {
            "tokens": weight_BT.sum(),
            "ratio": (ratio_BT * weight_BT).sum(),
            "clipped": ((too_low_BT | too_high_BT) & mask_BT).to(ratio_BT.dtype).sum(),
            "approx_kl": (torch.expm1(log_ratio_BT) - log_ratio_BT).sum(),
        }
    return loss, sums


def _wide(logprobs: Tensor) -> Tensor:
    """Half precision has too few bits for a ratio near 1."""
    return logprobs.float() if logprobs.dtype in (torch.float16, torch.bfloat16) else logprobs


def _check_tensors(logprobs: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, denominator: float) -> None:
    shape = tuple(logprobs.shape)
    if (
        logprobs.ndim != 2
        or tuple(old.shape) != shape
        or tuple(mask.shape) != shape
        or tuple(advantages.shape) != shape[:1]
    ):
        raise MethodError(
            f"logprobs_BT {shape}, old_logprobs_BT {tuple(old.shape)}, mask_BT {tuple(mask.shape)} and advantages_B "
            f"{tuple(advantages.shape)} do not fit; pass three of shape (B, T) and one of shape (B,)"
        )
    if not denominator > 0:
        raise MethodError(f"denominator is {denominator}; it must be positive, take it from loss_denominator")
