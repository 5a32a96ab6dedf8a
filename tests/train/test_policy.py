from __future__ import annotations

import math

import numpy as np
import pytest
import tiny
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from sparing.train import policy as policy_module
from sparing.train.policy import Policy, plan_microbatches, round_up
from sparing.types import Completion, Rollout, Verdict


def make_rollout(prompt: list[int], response: list[int]) -> Rollout:
    completion = Completion(
        response_ids_T=np.array(response),
        logprobs_T=np.full(len(response), -1.0, dtype=np.float32),
        finish_reason="stop",
    )
    return Rollout(prompt_ids=tuple(prompt), completion=completion, text="", verdict=Verdict(outcome="correct"))


ROLLOUTS = [
    make_rollout([3, 7, 12], [9, 9, 6, 10, 1]),
    make_rollout([3, 8], [6, 11, 1]),
    make_rollout([3, 8, 14, 4, 5], [9] * 40),
]


def expected_scores(model: torch.nn.Module, rollout: Rollout, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """One row without padding through the model's own forward."""
    ids = torch.tensor([*rollout.prompt_ids, *rollout.completion.response_ids_T.tolist()])
    logits = model(input_ids=ids[None]).logits[0, len(rollout.prompt_ids) - 1 : -1].float() / temperature
    log_probs = torch.log_softmax(logits, dim=-1)
    targets = torch.tensor(rollout.completion.response_ids_T)
    return log_probs.gather(-1, targets[:, None])[:, 0], -(log_probs.exp() * log_probs).sum(-1)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_scores_equal_those_of_unpadded_rows(temperature: float) -> None:
    model = tiny.make_model().eval()
    scores = Policy(model, temperature=temperature).score(ROLLOUTS)
    assert scores.mask_BT.sum(1).tolist() == [5, 3, 40]
    for row, rollout in enumerate(ROLLOUTS):
        logprobs, entropy = expected_scores(model, rollout, temperature)
        torch.testing.assert_close(scores.logprobs_BT[row, : rollout.length], logprobs, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(scores.entropy_BT[row, : rollout.length], entropy, atol=1e-5, rtol=1e-5)
        assert not scores.logprobs_BT[row, rollout.length :].any()


def test_entropy_of_an_even_choice_is_log_of_the_vocabulary() -> None:
    model = tiny.make_model().eval()
    with torch.no_grad():
        model.get_output_embeddings().weight.zero_()
    scores = Policy(model, temperature=1.0).score(ROLLOUTS[:1])
    expected = math.log(len(tiny.WORDS))
    assert scores.entropy_BT[0, :5].tolist() == pytest.approx([expected] * 5, abs=1e-6)
    assert scores.logprobs_BT[0, :5].tolist() == pytest.approx([-expected] * 5, abs=1e-6)


def test_soft_capped_logits_go_through_the_models_own_forward() -> None:
    torch.manual_seed(0)
    model = Gemma2ForCausalLM(
        Gemma2Config(
            vocab_size=22,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            final_logit_softcapping=0.5,
        )
    ).eval()
    scores = Policy(model, temperature=1.0).score(ROLLOUTS)
    for row, rollout in enumerate(ROLLOUTS):
        logprobs, _ = expected_scores(model, rollout, 1.0)
        torch.testing.assert_close(scores.logprobs_BT[row, : rollout.length], logprobs, atol=1e-5, rtol=1e-5)


def test_chunks_of_logits_change_neither_scores_nor_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def gradients() -> tuple[torch.Tensor, torch.Tensor]:
        model = tiny.make_model().eval()
        scores = Policy(model, temperature=1.0).score(ROLLOUTS)
        (scores.logprobs_BT.sum(1) * torch.tensor([1.0, -2.0, 0.5])).sum().backward()
        return scores.logprobs_BT.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])

    whole = gradients()
    monkeypatch.setattr(policy_module, "LOGIT_ENTRIES", 10 * len(tiny.WORDS))
    for one, other in zip(whole, gradients(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_microbatches_are_sorted_bounded_and_complete() -> None:
    lengths = [5, 70, 33, 64, 200, 1]
    batches = plan_microbatches(lengths, 130)
    assert [batch.tolist() for batch in batches] == [[4], [1], [3, 2], [0, 5]]
    for batch in batches:
        assert len(batch) == 1 or len(batch) * round_up(lengths[batch[0]]) <= 130


def test_lengths_are_rounded_up_to_buckets() -> None:
    assert [round_up(length) for length in (0, 1, 32, 33, 64)] == [32, 32, 32, 64, 64]
