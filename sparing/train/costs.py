"""What a run will take: seconds from measured rates, bytes from a formula."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sparing.settings import RunConfig
from sparing.train.policy import LOGIT_ENTRIES, head_is_plain, plan_microbatches
from sparing.train.trainer import Trainer
from sparing.types import Rollout


def measure_update_rate(trainer: Trainer, rollouts: Sequence[Rollout]) -> float:
    """Prompt and response tokens a second that go forward and backward in the update, from one micro-batch.

    The gradients are thrown away, so weights and optimizer stay as they are.
    """
    updater = trainer.updater
    lengths = [len(rollout.prompt_ids) + rollout.length for rollout in rollouts]
    rows = plan_microbatches(lengths, updater.settings.microbatch_tokens)[0]
    started = time.perf_counter()
    scores = updater.policy.score([rollouts[row] for row in rows])
    scores.logprobs_BT.sum().backward()  # type: ignore[no-untyped-call]
    seconds = time.perf_counter() - started
    updater.optimizer.zero_grad(set_to_none=True)
    return sum(lengths[row] for row in rows) / seconds


def step_costs(
    config: RunConfig,
    figures: Mapping[str, float],
    rollout_rate: float,
    update_rate: float,
    *,
    num_validation: int,
    num_test: int,
) -> dict[str, float]:
    """Tokens and seconds of a step, and seconds of the whole run, at the measured rates and the present mean length.

    Groups all right or all wrong have no advantage and are not computed in the update, but for the compressed share.
    """
    tokens = config.mixture.batch_size * config.rollout.num_rollouts * figures["mean_length"]
    active = min(1.0, 1 - figures["mastered_share"] - figures["unsolved_share"] + config.mixture.rho)
    seconds = tokens / rollout_rate + active * tokens / update_rate
    stages = config.curriculum.plan()
    validations = 1 + sum(-(-stage.steps // config.validation.every) for stage in stages)
    responses = validations * num_validation * config.validation.k + 2 * num_test * config.validation.test_k
    return {
        "tokens_per_step": tokens,
        "seconds_per_step": seconds,
        "seconds_total": sum(stage.steps for stage in stages) * seconds
        + responses * figures["mean_length"] / rollout_rate,
    }


def estimate_memory(
    model: Any, config: RunConfig, longest_prompt: int, *, num_validation: int | None = None, num_test: int = 0
) -> dict[str, int]:
    """Bytes of a run's large parts, by formula; the interpreter and its libraries (about 0.5 GB) come on top.

    With P parameters of w bytes, L layers, hidden size h, feed-forward size f and n tokens in a micro-batch:

    * weights P w, gradients P w, optimizer 2 P w (AdamW keeps two moments);
    * cache: 2 L w a token for every key-value head's width, for `max_sequences` rows of the longest prompt and response;
    * activations and their gradients: n L (14 h + 6 f + 8 a) w for an attention width of a, measured on Qwen3, and four
      float copies of the logits of one chunk; five of those of all n tokens where logits are more than the head's product
      (Gemma 2, Granite, Cohere), because `Policy` then takes the model's own forward.

    `num_validation` and `num_test` are the problems there really are; `validation.num_problems` says nothing of validation
    that comes from files.
    """
    text = model.config.get_text_config()
    width = model.dtype.itemsize
    weights = sum(parameter.numel() for parameter in model.parameters()) * width
    heads = text.num_attention_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    key_heads = getattr(text, "num_key_value_heads", None) or heads
    layers = text.num_hidden_layers
    longest = longest_prompt + config.rollout.max_tokens
    validation = config.validation
    num_validation = validation.num_problems if num_validation is None else num_validation
    rows = min(
        config.rollout.max_sequences,
        max(
            config.mixture.batch_size * config.rollout.num_rollouts,
            num_validation * validation.k,
            num_test * validation.test_k,
        ),
    )
    feed_forward = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
    tokens = max(config.optimizer.microbatch_tokens, longest)
    active = 2 if config.model.autocast == "bfloat16" else width
    all_logits = tokens * text.vocab_size
    logits = 4 * min(LOGIT_ENTRIES, all_logits) if head_is_plain(model) else 5 * all_logits
    parts = {
        "weights": weights,
        "gradients": weights,
        "optimizer": 2 * weights,
        "cache": rows * longest * 2 * layers * key_heads * head_dim * width,
        "activations": tokens * layers * (14 * text.hidden_size + 6 * feed_forward + 8 * heads * head_dim) * active
        + 4 * logits,
    }
    return {**parts, "total": sum(parts.values())}
