"""Supervised fine-tuning of any Hugging Face causal LM on prompts and responses: the optional first stage.

Shape legend: B sequences of a batch, S positions (prompt and response, padded).
"""

from __future__ import annotations

import math
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparing.data.chat import render_prompt
from sparing.data.rows import RowError, parse_line, problem_of
from sparing.errors import DataError, ModelError
from sparing.rollout.model import LoadedModel, load_model, num_embeddings, save_model
from sparing.seeding import derive_rng
from sparing.settings import ModelSettings, SftSettings
from sparing.train.policy import round_up

_IGNORED = -100
_LENGTH_STEP = 16
_POOL_BATCHES = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A prompt and the response to be learnt, as token ids; the response ends with the end token."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]

    @property
    def length(self) -> int:
        """Prompt and response tokens."""
        return len(self.prompt_ids) + len(self.response_ids)


def read_examples(
    path: Path, tokenizer: Any, *, end_id: int, vocab_size: int, context_length: int, max_length: int
) -> list[Example]:
    """Read JSONL rows of {"prompt" or "messages", "response"}; mistakes raise `DataError` with file and line.

    A response gets `end_id` at its end. A row must fit `max_length` and the model's `context_length`, in tokens, and hold
    only token ids below `vocab_size`.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a JSONL of prompts and responses")
    examples = []
    for number, line in enumerate(path.read_bytes().removeprefix(BOM_UTF8).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            example = _example(parse_line(line), tokenizer, end_id)
        except RowError as error:
            raise DataError(f"{path}:{number}: {error}") from error
        problem = _problem(example, vocab_size, context_length, max_length)
        if problem:
            raise DataError(f"{path}:{number}: {problem}")
        examples.append(example)
    if not examples:
        raise DataError(f"{path}: no rows; nothing to train on")
    return examples


def _problem(example: Example, vocab_size: int, context_length: int, max_length: int) -> str:
    """Why the model cannot learn this row; empty where it can."""
    if example.length > context_length:
        return f"{example.length} tokens, the model's context is {context_length}; shorten the row or leave it out"
    if example.length > max_length:
        return f"{example.length} tokens, the limit is {max_length}; raise max_length"
    highest = max([*example.prompt_ids, *example.response_ids])
    if highest >= vocab_size:
        return (
            f"holds token id {highest}; the model knows ids 0 to {vocab_size - 1}: take that special token out of the row, "
            "or use the tokenizer of the model's own folder"
        )
    return ""


def _example(row: dict[str, Any], tokenizer: Any, end_id: int) -> Example:
    if "response" not in row:
        raise RowError('no "response"; add the text that the model shall learn to write')
    # A response is what an answer is elsewhere: a text that must not be empty.
    problem = problem_of({**row, "answer": row["response"]}, name="", kind="exact", domain="", suffix="")
    response_ids = [*tokenizer(problem.answer, add_special_tokens=False).input_ids, end_id]
    return Example(prompt_ids=render_prompt(tokenizer, problem), response_ids=response_ids)


def epochs(examples: Sequence[Example], *, seed: int) -> Iterator[Example]:
    """The examples again and again, in a new order each time."""
    epoch = 0
    while True:
        for index in derive_rng(seed, "sft", epoch).permutation(len(examples)):
            yield examples[index]
        epoch += 1


def batches(stream: Iterator[Example], *, batch_tokens: int, seed: int) -> Iterator[list[Example]]:
    """Batches of similar length with at most `batch_tokens` padded tokens, in random order."""
    rng = derive_rng(seed, "sft-batches")
    while True:
        pool: list[Example] = []
        while sum(example.length for example in pool) < _POOL_BATCHES * batch_tokens:
            pool.extend(example for _, example in zip(range(64), stream, strict=False))
        pool.sort(key=lambda example: example.length)
        packed: list[list[Example]] = [[]]
        for example in pool:
            if packed[-1] and (len(packed[-1]) + 1) * round_up(example.length, _LENGTH_STEP) > batch_tokens:
                packed.append([])
            packed[-1].append(example)
        for index in rng.permutation(len(packed)):
            yield packed[index]


def collate(batch: Sequence[Example], *, pad_id: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Right-padded `input_ids`, `attention_mask` and `labels`, each (B, S); prompt and padding are not learnt."""
    width = round_up(max(example.length for example in batch), _LENGTH_STEP)
    input_ids = np.full((len(batch), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(batch), width), dtype=np.int64)
    labels = np.full((len(batch), width), _IGNORED, dtype=np.int64)
    for row, example in enumerate(batch):
        start, end = len(example.prompt_ids), example.length
        input_ids[row, :start], input_ids[row, start:end] = example.prompt_ids, example.response_ids
        mask[row, :end] = 1
        labels[row, start:end] = example.response_ids
    arrays = {"input_ids": input_ids, "attention_mask": mask, "labels": labels}
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


def schedule(step: int, settings: SftSettings) -> float:
    """Factor of the peak learning rate: linear warm-up, then a cosine down to a hundredth."""
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    progress = (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress))


def fine_tune(
    model: Any,
    stream: Iterator[Example],
    settings: SftSettings,
    *,
    pad_id: int,
    report: Callable[[dict[str, float]], None] = lambda row: None,
) -> None:
    """Minimise the mean cross-entropy of response tokens for `settings.steps` steps, in place."""
    device = next(model.parameters()).device
    optimizers = _optimizers(model, settings)
    model.train()
    tokens, started = 0, time.perf_counter()
    for step, batch in zip(
        range(settings.steps), batches(stream, batch_tokens=settings.batch_tokens, seed=settings.seed), strict=False
    ):
        inputs = collate(batch, pad_id=pad_id, device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=settings.autocast == "bfloat16"):
            logits = model(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False
            ).logits
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), inputs["labels"][:, 1:].flatten(), ignore_index=_IGNORED
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        factor = schedule(step, settings)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        tokens += int(inputs["attention_mask"].sum())
        if (step + 1) % settings.report_every == 0 or step + 1 == settings.steps:
            seconds = time.perf_counter() - started
            report(
                {
                    "step": step + 1,
                    "loss": float(loss.detach()),
                    "tokens": tokens,
                    "tokens_per_second": tokens / seconds,
                }
            )
    model.eval()


def end_token(loaded: LoadedModel) -> int:
    """The token that closes a response: the tokenizer's own where the model stops at it, else the first it stops at."""
    own = loaded.tokenizer.eos_token_id
    return own if own in loaded.eos_ids else loaded.eos_ids[0]


def run_sft(
    model_path: str,
    data_path: Path,
    output: Path,
    settings: SftSettings,
    *,
    report: Callable[[dict[str, float]], None] = lambda row: None,
) -> Path:
    """Fine-tune the model folder on the JSONL and write a plain Hugging Face folder to `output`."""
    if output.exists() and not output.is_dir():
        raise ModelError(f"{output} is a file; choose another output folder")
    if output.exists() and any(output.iterdir()):
        raise ModelError(f"{output} is not empty; choose another output folder")
    loaded = load_model(ModelSettings(path=model_path))
    end_id, vocab_size = end_token(loaded), num_embeddings(loaded.model)
    examples = read_examples(
        data_path,
        loaded.tokenizer,
        end_id=end_id,
        vocab_size=vocab_size,
        context_length=loaded.context_length,
        max_length=settings.max_length,
    )
    torch.manual_seed(settings.seed)
    pad_id = loaded.tokenizer.pad_token_id
    # Padding is neither seen nor learnt, so any token that the model knows will do.
    pad_id = end_id if pad_id is None or pad_id >= vocab_size else pad_id
    fine_tune(loaded.model, epochs(examples, seed=settings.seed), settings, pad_id=pad_id, report=report)
    save_model(loaded.model, loaded.tokenizer, output)
    return output


def _optimizers(model: Any, settings: SftSettings) -> list[torch.optim.Optimizer]:
    hidden = [
        p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name and "lm_head" not in name
    ]
    if settings.optimizer == "adamw":
        hidden = []
    taken = {id(p) for p in hidden}
    rest = [p for p in model.parameters() if id(p) not in taken]
    groups = [
        {"params": [p for p in rest if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizers: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.95))]
    if hidden:
        muon = torch.optim.Muon(hidden, lr=settings.muon_learning_rate, weight_decay=settings.weight_decay)
        optimizers.append(muon)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers
