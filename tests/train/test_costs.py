"""The memory formula: which parts change with the model and with the number of problems."""

from pathlib import Path

import pytest
import tiny
from transformers import GraniteConfig, GraniteForCausalLM, LlamaConfig, LlamaForCausalLM

from sparing.train.costs import estimate_memory

SIZES = {
    "vocab_size": 1000,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
# 320 tokens a micro-batch, 2 layers, h = 16, f = 32 and a = 16 in floats of 4 bytes.
LAYERS = 320 * 2 * (14 * 16 + 6 * 32 + 8 * 16) * 4


def config(**changes):
    return tiny.tiny_config(Path("model"), Path("run"), **changes)


def test_plain_logits_stand_four_times_a_chunk():
    parts = estimate_memory(LlamaForCausalLM(LlamaConfig(**SIZES)).eval(), config(), 10)
    assert parts["activations"] == LAYERS + 4 * 4 * 320 * 1000


def test_chunks_bound_plain_logits_only(monkeypatch):
    monkeypatch.setattr("sparing.train.costs.LOGIT_ENTRIES", 5000)
    plain = LlamaForCausalLM(LlamaConfig(**SIZES)).eval()
    assert estimate_memory(plain, config(), 10)["activations"] == LAYERS + 4 * 4 * 5000
    scaled = GraniteForCausalLM(GraniteConfig(**SIZES, logits_scaling=8.0)).eval()
    assert estimate_memory(scaled, config(), 10)["activations"] == LAYERS + 5 * 4 * 320 * 1000


@pytest.mark.parametrize(
    ("problems", "rows"),
    [
        ({}, 24),  # 6 problems of 4 rollouts a step, 2 of validation.num_problems with 4 each.
        ({"num_validation": 10}, 40),
        ({"num_validation": 10, "num_test": 12}, 48),
        ({"num_validation": 1000}, 64),  # max_sequences
    ],
)
def test_the_cache_has_a_row_for_every_response_at_once_up_to_the_limit(problems, rows):
    changes = {
        "rollout": {"num_rollouts": 4, "max_tokens": 20, "max_sequences": 64},
        "validation": {"every": 2, "k": 4, "test_k": 4, "num_problems": 2},
    }
    model = LlamaForCausalLM(LlamaConfig(**SIZES)).eval()
    parts = estimate_memory(model, config(**changes), 10, **problems)
    # Keys and values of 8 floats in 2 layers for 30 tokens.
    assert parts["cache"] == rows * 30 * 2 * 2 * 8 * 4
