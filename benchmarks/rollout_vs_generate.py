"""Useful tokens per CPU-second of the local engine against `model.generate`, both timed in this process.

A tiny Qwen3 with random weights answers 128 prompts with up to 256 tokens; an end token is made likely enough for
responses of varied length. With `--lab` it is the lab's model on lab problems. Useful tokens are response tokens up to and
including the end token.

    OMP_NUM_THREADS=1 python benchmarks/rollout_vs_generate.py [--lab]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from sparing.data.chat import render_prompt
from sparing.lab import base_model_path, make_problems
from sparing.rollout.decode import LocalCompleter
from sparing.rollout.model import LoadedModel

VOCAB_SIZE = 250
END = 1


def tiny_model(end_bias: float) -> Qwen3ForCausalLM:
    """A Qwen3 of about a million parameters whose end token has roughly `end_bias` more logit than others."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB_SIZE,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        eos_token_id=END,
        pad_token_id=0,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config).eval()
    with torch.no_grad():
        # A constant direction of the final state, read by the end token alone, raises its logit.
        model.model.norm.weight.fill_(1.0)
        for layer in model.model.layers:
            layer.mlp.down_proj.weight[0].zero_()
            layer.self_attn.o_proj.weight[0].zero_()
        model.model.embed_tokens.weight[:, 0] = 0.05
        model.lm_head.weight[:, 0].zero_()
        model.lm_head.weight[END].zero_()
        model.lm_head.weight[END, 0] = end_bias
    return model


def random_prompts(num_prompts: int) -> list[list[int]]:
    """Prompts of 10 to 40 tokens, eight of each in a row as a group would have them."""
    rng = np.random.default_rng(0)
    distinct = [rng.integers(2, VOCAB_SIZE, size=int(rng.integers(10, 41))).tolist() for _ in range(num_prompts // 8)]
    return [prompt for prompt in distinct for _ in range(8)]


def lab_prompts(num_prompts: int) -> list[list[int]]:
    """Arithmetic problems of the lab, easy and hard in turn, eight rollouts of each in a row."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base_model_path())
    half = num_prompts // 16
    tiers = [
        make_problems(domain="arithmetic", tier=tier, split="train", num_problems=half) for tier in ("easy", "hard")
    ]
    problems = [problem for pair in zip(*tiers, strict=True) for problem in pair]
    return [ids for problem in problems for ids in [render_prompt(tokenizer, problem)] * 8]


def with_generate(model: Qwen3ForCausalLM, prompts: list[list[int]], max_tokens: int) -> list[int]:
    """Response lengths of transformers' own generate: left padding, temperature 1, no filters."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    torch.manual_seed(0)
    output = model.generate(
        ids, attention_mask=mask, do_sample=True, temperature=1.0, top_p=1.0, top_k=0, max_new_tokens=max_tokens
    )
    lengths = []
    for row in output[:, width:].tolist():
        lengths.append(row.index(END) + 1 if END in row else len(row))
    return lengths


def once(run: Callable[[], list[int]]) -> tuple[float, float, list[int]]:
    """Useful tokens per CPU-second and per wall second of one run, and its response lengths."""
    wall, cpu = time.perf_counter(), time.process_time()
    lengths = run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return sum(lengths) / cpu, sum(lengths) / wall, lengths


def compare(runs: dict[str, Callable[[], list[int]]], repeats: int) -> dict[str, list[float]]:
    """Useful tokens per CPU-second of every run; they take turns, so that a busy machine slows all alike."""
    results: dict[str, list[tuple[float, float, list[int]]]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            result = once(run)
            if repeat > 0:  # The first turn warms up.
                results[name].append(result)
    for name, measured in results.items():
        lengths = measured[0][2]
        print(
            f"{name:9}{max(r[0] for r in measured):7.0f} useful tokens / CPU-s (median {median(r[0] for r in measured):.0f})"
            f"{max(r[1] for r in measured):7.0f} / wall-s   lengths: mean {np.mean(lengths):.0f}, "
            f"10 % {np.quantile(lengths, 0.1):.0f}, 90 % {np.quantile(lengths, 0.9):.0f}, max {max(lengths)}"
        )
    return {name: [r[0] for r in measured] for name, measured in results.items()}


def main() -> None:
    """Time both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=128)
    parser.add_argument("--max-tokens", type=int, help="256, or with --lab the 512 of its preset")
    parser.add_argument("--max-sequences", type=int, default=256)
    parser.add_argument("--end-bias", type=float, default=1.3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--skip-generate", action="store_true")
    parser.add_argument("--lab", action="store_true", help="the lab's model and problems")
    args = parser.parse_args()
    args.max_tokens = args.max_tokens or (512 if args.lab else 256)
    torch.set_num_threads(args.threads)
    if args.lab:
        model = Qwen3ForCausalLM.from_pretrained(base_model_path(), dtype=torch.float32).eval()
        assert (model.config.eos_token_id, model.config.pad_token_id) == (END, 0)
        prompts = lab_prompts(args.sequences)
    else:
        model = tiny_model(args.end_bias)
        prompts = random_prompts(args.sequences)
    loaded = LoadedModel(
        model=model,
        tokenizer=PreTrainedTokenizerFast,
        device=torch.device("cpu"),
        eos_ids=(END,),
        context_length=model.config.max_position_embeddings,
        has_chat_template=False,
    )
    completer = LocalCompleter(loaded, max_sequences=args.max_sequences)

    def with_sparing() -> list[int]:
        completions = completer.generate(prompts, temperature=1.0, top_p=1.0, max_tokens=args.max_tokens, seed=0)
        return [completion.length for completion in completions]

    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters:,} parameters, {args.sequences} sequences, {torch.get_num_threads()} threads")
    runs = {"sparing": with_sparing}
    if not args.skip_generate:
        runs["generate"] = lambda: with_generate(model, prompts, args.max_tokens)
    rates = compare(runs, args.repeats)
    if "generate" in rates:
        ratios = [ours / theirs for ours, theirs in zip(rates["sparing"], rates["generate"], strict=True)]
        print(
            f"ratio: median {median(ratios):.2f}, of the best runs {max(rates['sparing']) / max(rates['generate']):.2f}"
        )
    print(f"peak resident memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
