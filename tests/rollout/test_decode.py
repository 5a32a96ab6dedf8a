import copy
import hashlib
import subprocess
import sys

import numpy as np
import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from sparing.errors import ModelError, RecipeError
from sparing.rollout import decode, forward
from sparing.rollout.completer import Completer
from sparing.rollout.decode import LocalCompleter
from sparing.rollout.direct_step import supports
from sparing.rollout.model import LoadedModel
from sparing.rollout.sampling import choose_tokens, sequence_keys, uniforms

ENDS = (1, 2, 3)
# Large weights, so that every token looks far back and a wrong mask cannot hide below the tolerance.
SMALL = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.25,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": list(ENDS),
}
WINDOW = 6


def build(kind):
    torch.manual_seed(0)
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**SMALL, num_hidden_layers=2))
    if kind == "llama_bias":
        model = LlamaForCausalLM(LlamaConfig(**SMALL, num_hidden_layers=2, attention_bias=True, mlp_bias=True))
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.2)
        return model
    if kind == "mistral":
        return MistralForCausalLM(MistralConfig(**SMALL, num_hidden_layers=2, sliding_window=WINDOW))
    if kind == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**SMALL, num_hidden_layers=2))
    if kind == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**SMALL, num_hidden_layers=2))
    if kind == "qwen3_sliding":
        types = ["full_attention", "sliding_attention", "sliding_attention"]
        config = Qwen3Config(**SMALL, num_hidden_layers=3, layer_types=types, use_sliding_window=True, sliding_window=6)
        return Qwen3ForCausalLM(config)
    if kind == "gemma3":
        types = ["sliding_attention", "full_attention", "sliding_attention"]
        config = Gemma3TextConfig(**SMALL, num_hidden_layers=3, layer_types=types, sliding_window=WINDOW)
        return Gemma3ForCausalLM(config)
    config = Qwen3MoeConfig(
        **SMALL, num_hidden_layers=2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24
    )
    return Qwen3MoeForCausalLM(config)


def completer_of(model, max_sequences=256, eos_ids=ENDS, context_length=128):
    loaded = LoadedModel(
        model=model,
        tokenizer=None,
        device=torch.device("cpu"),
        eos_ids=eos_ids,
        context_length=context_length,
        has_chat_template=False,
    )
    return LocalCompleter(loaded, max_sequences=max_sequences)


def unequal_prompts(num=14):
    rng = np.random.default_rng(0)
    prompts = [rng.integers(4, 40, size=length).tolist() for length in rng.integers(1, 25, size=num)]
    prompts[1] = prompts[5] = prompts[2]
    prompts[3] = prompts[3][:1]
    return prompts


def fresh_logits(model, prompt, response):
    """Plain forward without cache or padding: logits that each response token was drawn from."""
    ids = torch.tensor([[*prompt, *response]])
    with torch.no_grad():
        logits = model.eval()(input_ids=ids, use_cache=False).logits[0].float()
    return logits[len(prompt) - 1 : -1]


def generate(completer, prompts, **changes):
    return completer.generate(prompts, **{"temperature": 1.0, "top_p": 1.0, "max_tokens": 60, "seed": 7, **changes})


@pytest.mark.parametrize("max_sequences", [5, 256])
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen3", "qwen3_sliding", "gemma3", "qwen3_moe"])
def test_logits_and_logprobs_equal_a_fresh_forward(kind, max_sequences, monkeypatch):
    model, prompts, seen = build(kind), unequal_prompts(), {}

    def recording(logits_BV, uniforms_B, **settings):
        # A uniform number identifies the sequence and the position that it was drawn for.
        seen.update(zip(uniforms_B.tolist(), logits_BV.clone(), strict=True))
        return choose_tokens(logits_BV, uniforms_B, **settings)

    monkeypatch.setattr(decode, "choose_tokens", recording)
    monkeypatch.setattr(decode, "_FIRST_TOKENS", 4)  # The cache has to grow.
    monkeypatch.setattr(decode, "_PREFILL_TOKENS", 60)  # Prompts take several forwards.
    completions = generate(completer_of(model, max_sequences), prompts, temperature=0.8)
    lengths = [completion.length for completion in completions]
    assert min(lengths) < 10 < 45 < max(lengths) + max(map(len, prompts)), "rows must end at different times"
    keys = sequence_keys(7, len(prompts))
    for i, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        expected = fresh_logits(model, prompt, completion.response_ids_T)
        numbers = uniforms(np.repeat(keys[i : i + 1], completion.length), np.arange(completion.length))
        torch.testing.assert_close(torch.stack([seen[u] for u in numbers]), expected, atol=1e-4, rtol=0)
        logprobs = torch.log_softmax(expected / 0.8, -1).gather(1, torch.tensor(completion.response_ids_T)[:, None])
        np.testing.assert_allclose(completion.logprobs_T, logprobs[:, 0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["llama", "llama_bias", "mistral", "qwen2", "qwen3", "qwen3_sliding"])
def test_direct_steps_equal_those_of_the_module(kind, monkeypatch):
    model, prompts = build(kind), unequal_prompts()
    assert supports(model)
    direct = generate(completer_of(model, 6), prompts)
    monkeypatch.setattr(forward, "supports", lambda model: False)
    for a, b in zip(direct, generate(completer_of(model, 6), prompts), strict=True):
        np.testing.assert_array_equal(a.response_ids_T, b.response_ids_T)
        np.testing.assert_allclose(a.logprobs_T, b.logprobs_T, atol=1e-5)


def test_direct_steps_use_the_weights_of_the_moment():
    model = build("qwen3")
    completer = completer_of(model)
    generate(completer, [[5, 6]])
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight.mul_(0.5)
    (completion,) = generate(completer, [[5, 6]])
    logprobs = torch.log_softmax(fresh_logits(model, [5, 6], completion.response_ids_T), -1)
    expected = logprobs.gather(1, torch.tensor(completion.response_ids_T)[:, None])[:, 0]
    np.testing.assert_allclose(completion.logprobs_T, expected, atol=1e-5)


def test_altered_models_take_the_general_path():
    assert not supports(build("gemma3"))
    assert not supports(build("qwen3").bfloat16())
    hooked = build("qwen3")
    hooked.model.layers[1].register_forward_hook(lambda module, inputs, output: output)
    assert not supports(hooked)
    adapted = build("qwen3")
    adapted.model.layers[0].self_attn.q_proj = torch.nn.Sequential(adapted.model.layers[0].self_attn.q_proj)
    assert not supports(adapted)


@pytest.mark.parametrize("kind", ["qwen3_sliding", "gemma3"])
def test_the_window_matters_to_these_models(kind):
    """Guards the test above: without the window the same model gives other logits."""
    model, prompt = build(kind), unequal_prompts()[0]
    assert len(prompt) > WINDOW
    wider = copy.deepcopy(model)
    wider.config.sliding_window = 100
    response = [5] * 10
    difference = fresh_logits(model, prompt, response) - fresh_logits(wider, prompt, response)
    assert difference.abs().max() > 0.1


def test_responses_end_at_the_first_end_token_or_the_limit():
    completions = generate(completer_of(build("qwen3")), unequal_prompts(), max_tokens=12)
    assert {completion.finish_reason for completion in completions} == {"stop", "length"}
    for completion in completions:
        ends = np.isin(completion.response_ids_T, ENDS)
        assert not ends[:-1].any()
        assert ends[-1] == (completion.finish_reason == "stop")
        assert completion.length == 12 or completion.finish_reason == "stop"
        assert completion.response_ids_T.dtype == np.int64
        assert completion.logprobs_T.dtype == np.float32


def test_a_completion_depends_on_its_seed_and_index_not_on_the_batch():
    model, prompts = build("llama"), unequal_prompts()
    together = generate(completer_of(model), prompts)
    for max_sequences in (1, 3, 8):
        apart = generate(completer_of(model, max_sequences), prompts)
        for a, b in zip(together, apart, strict=True):
            np.testing.assert_array_equal(a.response_ids_T, b.response_ids_T)
    first = generate(completer_of(model), prompts[:3])
    for a, b in zip(together, first, strict=False):
        np.testing.assert_array_equal(a.response_ids_T, b.response_ids_T)
    other = generate(completer_of(model), prompts, seed=8)
    assert any(a.length != b.length for a, b in zip(together, other, strict=True))
    # Equal prompts do not give equal completions: each index has its own stream.
    assert together[1].response_ids_T.tolist() != together[2].response_ids_T.tolist()


@pytest.mark.parametrize("top_p", [1.0, 0.7])
def test_generated_tokens_follow_the_model(top_p):
    model, num = build("qwen3"), 4000
    completions = generate(completer_of(model, 4000), [[9, 8, 7]] * num, max_tokens=1, temperature=3.0, top_p=top_p)
    p = torch.softmax(fresh_logits(model, [9, 8, 7], [0])[0].double() / 3.0, -1).numpy()
    order = np.argsort(-p)
    kept = order[np.cumsum(p[order]) - p[order] < top_p]
    expected = np.zeros(40)
    expected[kept] = num * p[kept] / p[kept].sum()
    counts = np.bincount([completion.response_ids_T[0] for completion in completions], minlength=40)
    assert counts[expected == 0].sum() == 0
    some = expected > 5
    chi_square = ((counts - expected)[some] ** 2 / expected[some]).sum()
    freedom = some.sum() - 1
    assert freedom > 5
    # Mean and variance of chi-square are `freedom` and twice that; four standard deviations up.
    assert chi_square < freedom + 4 * np.sqrt(2 * freedom)


def digest(completions):
    data = b"".join(c.response_ids_T.tobytes() + c.logprobs_T.tobytes() for c in completions)
    return hashlib.sha256(data).hexdigest()


def test_earlier_calls_do_not_change_a_bit():
    completer, prompts = completer_of(build("qwen3"), 6), unequal_prompts()
    fresh = digest(generate(completer, prompts))
    generate(completer, [[5] * 60] * 20, max_tokens=68)  # Leaves larger buffers behind.
    assert digest(generate(completer, prompts)) == fresh


@pytest.mark.slow
def test_the_same_call_is_bit_identical_in_another_process():
    completer, prompts = completer_of(build("qwen3"), 6), unequal_prompts()
    # Earlier calls of other shapes leave larger buffers behind; they must not matter.
    generate(completer, [[5] * 60] * 20, max_tokens=68)
    ours = digest(generate(completer, prompts))
    code = (
        "import importlib.util as u, sys, torch; torch.set_num_threads(int(sys.argv[2]))\n"
        "s = u.spec_from_file_location('t', sys.argv[1]); t = u.module_from_spec(s); s.loader.exec_module(t)\n"
        "print(t.digest(t.generate(t.completer_of(t.build('qwen3'), 6), t.unequal_prompts())))"
    )
    command = [sys.executable, "-c", code, __file__, str(torch.get_num_threads())]
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "OMP_NUM_THREADS": "1", "PATH": ""}
    theirs = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert theirs.stdout.strip() == ours, theirs.stderr


def test_training_mode_and_gradients_are_left_as_they_were():
    model = build("qwen3")
    for training in (True, False):
        model.train(training)
        generate(completer_of(model), [[5, 6]], max_tokens=3)
        assert all(module.training is training for module in model.modules())
    model(input_ids=torch.tensor([[5, 6, 7]])).logits.sum().backward()
    assert model.lm_head.weight.grad is not None


def test_no_prompts_no_completions():
    assert generate(completer_of(build("llama")), []) == []


def test_it_is_a_completer():
    completer = completer_of(build("llama"))
    assert isinstance(completer, Completer)
    assert completer.eos_ids == ENDS
    assert completer.context_length == 128


@pytest.mark.parametrize(
    ("prompts", "changes", "error", "words"),
    [
        ([[5] * 100], {"max_tokens": 29}, ModelError, ["100 tokens", "29", "128"]),
        ([[5], []], {}, ModelError, ["prompt 1 is empty"]),
        ([[5], [6, 40]], {}, ModelError, ["prompt 1", "40", "0 to 39"]),
        ([[5]], {"temperature": 0.0}, RecipeError, ["temperature is 0.0"]),
        ([[5]], {"top_p": 1.5}, RecipeError, ["top_p is 1.5"]),
        ([[5]], {"max_tokens": 0}, RecipeError, ["max_tokens is 0"]),
    ],
)
def test_bad_input_is_named(prompts, changes, error, words):
    with pytest.raises(error) as caught:
        generate(completer_of(build("llama")), prompts, **changes)
    for word in words:
        assert word in str(caught.value)


def test_the_whole_context_can_be_used():
    completer = completer_of(build("llama"), eos_ids=(0,))
    (completion,) = generate(completer, [[5] * 100], max_tokens=28, seed=1)
    assert completion.length == 28


def test_a_diverged_model_is_an_error_and_leaves_no_trace():
    model = build("qwen3")
    completer, prompts = completer_of(model), unequal_prompts()
    before = digest(generate(completer, prompts))
    weight = model.model.layers[0].self_attn.k_proj.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[0, 0] = torch.nan
    with pytest.raises(ModelError, match="not finite"):
        generate(completer, prompts)
    with torch.no_grad():
        weight.copy_(kept)
    assert digest(generate(completer, prompts)) == before


def test_layers_that_keep_other_states_are_refused():
    model = build("qwen3")
    model.config.layer_types = ["linear_attention", "full_attention"]
    with pytest.raises(ModelError, match="linear_attention"):
        completer_of(model)
