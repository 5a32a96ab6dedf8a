"""Losses and gradients equal TRL 1.16's own `GRPOTrainer._compute_loss` on the same tensors.

Needs the `trl` extra. The trainer and its model are TRL's; ours runs on a separate, unpatched copy of the weights, so
that log-probabilities are computed twice, independently.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from sparing.method import group_advantages
from sparing.method.objective import loss_denominator, objective, policy_loss

trl = pytest.importorskip("trl", reason="TRL is not installed; install the extra `trl` to compare with it")
datasets = pytest.importorskip("datasets", reason="TRL needs datasets")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.trl

NUM_ROLLOUTS, NUM_GROUPS, PROMPT, MAX_TOKENS, VOCABULARY = 4, 2, 5, 12, 40
TRL_SETTINGS = {
    "grpo": {"loss_type": "grpo", "epsilon": 0.2, "epsilon_high": 0.2},
    "dapo": {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.27},
    "dr_grpo": {"loss_type": "dr_grpo", "epsilon": 0.2, "epsilon_high": 0.2, "scale_rewards": "none"},
    "gspo": {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon": 3e-4,
        "epsilon_high": 4e-4,
    },
}


def tiny_model() -> torch.nn.Module:
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        # Wide initial weights: with the usual ones every distribution is nearly uniform and ratios stay near 1.
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )
    return transformers.Qwen3ForCausalLM(config)


def tiny_tokenizer() -> object:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"<pad>": 0, "<end>": 1} | {f"w{index}": index for index in range(2, VOCABULARY)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="w2"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<end>")


def trl_trainer(name: str, model: torch.nn.Module, accumulation: int, folder: str) -> object:
    settings = trl.GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=NUM_GROUPS * NUM_ROLLOUTS // accumulation,
        gradient_accumulation_steps=accumulation,
        num_generations=NUM_ROLLOUTS,
        max_completion_length=MAX_TOKENS,
        beta=0.0,
        temperature=1.0,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        **TRL_SETTINGS[name],
    )
    return trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=settings,
        train_dataset=datasets.Dataset.from_list([{"prompt": "w3 w4"}] * NUM_GROUPS),
        processing_class=tiny_tokenizer(),
    )


def prepared_inputs(normalise: str) -> dict[str, Tensor]:
    """Two groups of four responses: left-padded prompts, right-padded responses, some tool tokens inside."""
    generator = torch.Generator().manual_seed(1)
    num_sequences = NUM_GROUPS * NUM_ROLLOUTS
    lengths = torch.tensor([12, 3, 7, 5, 1, 9, 12, 6])
    completion_mask = (torch.arange(MAX_TOKENS) < lengths[:, None]).long()
    tool_mask = torch.ones_like(completion_mask)
    tool_mask[0, 4:7] = 0
    tool_mask[5, 2] = 0
    prompt_mask = torch.ones(num_sequences, PROMPT, dtype=torch.long)
    prompt_mask[:NUM_ROLLOUTS, :2] = 0
    rewards = np.array([[1.0, 1.0, 0.0, 0.6], [1.0, 0.0, 0.25, 0.0]])
    advantages = np.concatenate([group_advantages(row, normalise=normalise) for row in rewards])
    return {
        "prompt_ids": torch.randint(2, VOCABULARY, (num_sequences, PROMPT), generator=generator) * prompt_mask,
        "prompt_mask": prompt_mask,
        "completion_ids": torch.randint(2, VOCABULARY, completion_mask.shape, generator=generator) * completion_mask,
        "completion_mask": completion_mask,
        "tool_mask": tool_mask,
        "advantages": torch.tensor(advantages, dtype=torch.float32),
        "num_items_in_batch": (completion_mask * tool_mask).sum(),
    }


def response_logprobs(model: torch.nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, PROMPT - 1 : -1]
    return logits.log_softmax(-1).gather(-1, inputs["completion_ids"][..., None]).squeeze(-1)


def rows(inputs: dict[str, Tensor], part: slice) -> dict[str, Tensor]:
    return {name: value if value.ndim == 0 else value[part] for name, value in inputs.items()}


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("name", sorted(TRL_SETTINGS))
def test_loss_and_every_gradient_equal_trl(name: str, accumulation: int, tmp_path: object) -> None:
    ours = tiny_model().train()
    theirs = copy.deepcopy(ours)
    chosen = objective(name)
    inputs = prepared_inputs(chosen.normalise)
    older = copy.deepcopy(ours)
    with torch.no_grad():
        torch.manual_seed(2)
        for parameter in older.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
        inputs["old_per_token_logps"] = response_logprobs(older, inputs)

    trainer = trl_trainer(name, theirs, accumulation, str(tmp_path))
    # What Trainer sets at the start of an accumulation window.
    trainer.current_gradient_accumulation_steps = accumulation
    trainer.model.train()
    size = NUM_GROUPS * NUM_ROLLOUTS // accumulation
    trl_loss = 0.0
    for start in range(0, NUM_GROUPS * NUM_ROLLOUTS, size):
        loss = trainer._compute_loss(trainer.model, rows(inputs, slice(start, start + size)))
        loss.backward()
        trl_loss += loss.item()

    mask = inputs["completion_mask"] * inputs["tool_mask"]
    logprobs = response_logprobs(ours, inputs)
    our_loss, sums = policy_loss(
        logprobs,
        inputs["old_per_token_logps"],
        inputs["advantages"],
        mask,
        objective=chosen,
        denominator=loss_denominator(chosen, mask.sum(-1).numpy(), MAX_TOKENS),
    )
    our_loss.backward()

    assert 0 < sums["clipped"] < sums["tokens"], "the comparison must have clipped and unclipped tokens"
    torch.testing.assert_close(our_loss.item(), trl_loss, rtol=1e-5, atol=1e-7)
    their_parameters = dict(theirs.named_parameters())
    for parameter_name, parameter in ours.named_parameters():
        expected = their_parameters[parameter_name].grad
        assert expected is not None and expected.abs().max() > 0, f"{parameter_name} has no gradient in TRL"
        torch.testing.assert_close(
            parameter.grad, expected, rtol=1e-4, atol=1e-6, msg=lambda m, n=parameter_name: f"{n}: {m}"
        )
