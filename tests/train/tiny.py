"""A tiny Qwen3 that answers after a pause of random length, and a second process that trains it.

The answer to everything is "yes". The model knows it for "easy 3" and says it half of the time for "hard 3". As a script:

    python tiny.py CONFIG_JSON (start | resume) [detect | "go back"] [FILE_OPERATION_TO_DIE_AT]
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from sparing.progress import Progress, SilentProgress
from sparing.settings import PlannedStage, RunConfig
from sparing.train import stage as stage_module
from sparing.train.early_stop import StageEnd, decide
from sparing.train.run import train_run
from sparing.train.trainer import Position
from sparing.types import Problem, Turn

DIGITS = [str(digit) for digit in range(10)]
WORDS = [
    "<pad>",
    "<end>",
    "<unk>",
    "user",
    "assistant",
    "<think>",
    "</think>",
    "easy",
    "hard",
    "well",
    "yes",
    "no",
    *DIGITS,
]
TEMPLATE = (
    "{% for m in messages %}user {{ m.content }} {% endfor %}{% if add_generation_prompt %}assistant <think>{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    core = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="<end>", unk_token="<unk>", padding_side="left"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_model(seed: int = 0, layers: int = 2) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(WORDS),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=layers,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            max_position_embeddings=128,
            eos_token_id=1,
            pad_token_id=0,
            tie_word_embeddings=True,
        )
    )


def taught_rows(
    tokenizer: PreTrainedTokenizerFast, rng: np.random.Generator, num: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels of teacher traces, padded to one width."""
    rows, labels = [], []
    for _ in range(num):
        tier, digit = ("easy", "hard")[rng.integers(2)], int(rng.integers(10))
        answer = "yes" if tier == "easy" or rng.random() < 0.5 else "no"
        prompt = tokenizer(f"user {tier} {digit} assistant <think>")["input_ids"]
        pause = " ".join(["well"] * int(rng.integers(1, 8)))
        response = tokenizer(f"{pause} </think> {answer} <end>")["input_ids"]
        pad = 16 - len(prompt) - len(response)
        rows.append(prompt + response + [0] * pad)
        labels.append([-100] * len(prompt) + response + [-100] * pad)
    return torch.tensor(rows), torch.tensor(labels)


def make_base(folder: Path, steps: int = 60) -> None:
    """Teach a model for some seconds and save it."""
    tokenizer, model = make_tokenizer(), make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        ids, labels = taught_rows(tokenizer, rng, 32)
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_problems(split: str) -> list[Problem]:
    """Twelve problems for training, half of them easy, four for validation and four for the test."""
    chosen = {"train": range(6), "validation": (6, 7), "test": (8, 9)}[split]
    return [
        Problem(
            id=f"{tier}-{digit}",
            turns=(Turn(role="user", content=f"{tier} {digit}"),),
            answer="yes",
            kind="exact",
            domain="tiny",
            tier=tier,
            shortest_length=3,
        )
        for tier in ("easy", "hard")
        for digit in chosen
    ]


def tiny_config(model: Path, output: Path, **changes: object) -> RunConfig:
    """A run of seven steps in three stages; `changes` replaces whole sections."""
    sections: dict[str, object] = {
        "seed": 3,
        "output": str(output),
        "model": {"path": str(model), "device": "cpu", "threads": 1},
        "rollout": {"num_rollouts": 4, "max_tokens": 20, "max_sequences": 32},
        "mixture": {"batch_size": 6, "rho": 0.4},
        "objective": {"algorithm": "dr_grpo"},
        "optimizer": {"learning_rate": 1e-3, "warmup_steps": 2, "microbatch_tokens": 320},
        "validation": {"every": 2, "k": 4, "test_k": 4},
        "curriculum": {
            "stages": [
                {"type": "accuracy", "steps": 2},
                {"type": "compression", "steps": 3},
                {"type": "accuracy", "steps": 2},
            ]
        },
        "checkpoint": {"every": 1, "keep": 2},
        "log": {"rollouts_every": 3, "rollout_groups": 2},
    }
    return RunConfig.model_validate({**sections, **changes})


def run_tiny(config: RunConfig, *, resume: bool = False, progress: Progress | None = None) -> Path:
    return train_run(
        config,
        make_problems("train"),
        make_problems("validation"),
        make_problems("test"),
        resume=resume,
        progress=progress or SilentProgress(),
    )


def go_back_from_second_validation(
    config: RunConfig, stage: PlannedStage, position: Position, *, last: bool
) -> StageEnd | None:
    """Stands in for the detector: ends a compression stage at its second validation and goes back to its first."""
    if stage.type == "compression" and len(position.history) == 3:
        return StageEnd(chosen_step=position.history[1]["step"], reason="on purpose", evidence={"bar": 1.0})
    return decide(config, stage, position, last=last)


def die_at(event: int, folder: str) -> None:
    """Kill this process at its `event`-th file operation (open, rename, truncate, ...) inside the run folder."""
    seen = 0

    def hook(name: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if name.split(".")[0] in ("open", "os", "shutil") and arguments and folder in str(arguments[0]):
            seen += 1
            if seen == event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


class Printed(SilentProgress):
    """Messages on standard output, for the parent process."""

    def message(self, text: str) -> None:
        print(text, flush=True)


def main(config_file: str, how: str, decision: str = "detect", event: str = "") -> None:
    if decision == "go back":
        stage_module.decide = go_back_from_second_validation
    config = RunConfig.model_validate(json.loads(Path(config_file).read_text()))
    if event:
        die_at(int(event), config.output)
    print("ready", flush=True)
    run_tiny(config, resume=how == "resume", progress=Printed())


if __name__ == "__main__":
    main(*sys.argv[1:])
