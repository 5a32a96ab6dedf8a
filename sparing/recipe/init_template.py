"""`sparing init`: a commented recipe for a model and problems of one's own."""

from __future__ import annotations

import json
from pathlib import Path

from sparing.errors import RecipeError

_TEMPLATE = """\
# Recipe of sparing. Start it with:  sparing train {recipe}
# Try a value without editing:       sparing train {recipe} --set mixture.rho=0.2
# Keys left out keep their default. A misspelt key is an error, never ignored.

seed = 0
# Run folder: checkpoints, metrics, report. It must be new; to go on with a run in it, use --resume.
output = {output}

[model]
path = {model}
dtype = "float32"                    # "bfloat16" halves the memory of the weights, and small updates get lost.
autocast = "none"                    # "bfloat16" speeds the update up on a GPU.
device = "auto"                      # "cpu", "cuda", or "auto": CUDA where there is one.

# The answer is what follows `close`. A response that never closes its thinking counts as wrong.
[thinking]
enabled = true                       # false for a model that answers without a thinking block.
open = "<think>"
close = "</think>"

# JSONL, one problem a line: {{"prompt": "...", "answer": "..."}}, or "messages" in place of "prompt".
[data]
train = {data}
# validation = "validation.jsonl"    # Chooses checkpoints. Left out: problems are set apart from train.
# test = ["test.jsonl"]              # Only reported, before and after. Other domains than train show transfer.
prompt_suffix = ""                   # Put after every question, such as "\\nPut the answer in \\\\boxed{{}}."

# Rollouts: each problem is answered num_rollouts times, and is mastered when all of them are right.
[rollout]
num_rollouts = 8
max_tokens = 2048                    # Longer responses are cut and wrong. Leave room: most should end by themselves.
temperature = 1.0
max_sequences = 32                   # Decoded at once; lower it when memory runs out.

# A compression batch holds this share of mastered problems. Only those feel the length penalty.
# More shortens faster and risks accuracy sooner: 0.1 is the careful value, 0.9 collapses.
[mixture]
batch_size = {batch_size}
rho = 0.25

# dr_grpo keeps the penalty in proportion; grpo, dapo and gspo divide by the spread of the group's rewards.
[objective]
algorithm = "dr_grpo"

[optimizer]
learning_rate = 2e-6                 # Small models bear more, such as 1e-5. Too much: accuracy falls within a few steps.
warmup_steps = 5
microbatch_tokens = 8192             # Tokens in one forward of the update; lower it when memory runs out.

# Accuracy is the mean over k responses of each problem. More problems see smaller declines.
[validation]
every = 10
# Set apart from train when data.validation is left out.
num_problems = {num_validation}
k = 4
temperature = 0.6

# A compression stage stops when accuracy is below its best, `patience` validations in a row, with this confidence,
# while length still falls. It goes back to the checkpoint before the decline.
[early_stopping]
patience = 2
confidence = 0.9

# First be right, then be brief, then repair what brevity cost.
[[curriculum.stages]]
type = "accuracy"
steps = 20

[[curriculum.stages]]
type = "compression"
steps = 60

[[curriculum.stages]]
type = "accuracy"
steps = 20

[checkpoint]
every = 10                           # Ctrl-C loses at most this many steps; go on with --resume.
keep = 2
"""


def write_recipe(folder: Path, *, model: str, data: Path, num_problems: int) -> Path:
    """Write `recipe.toml` into `folder` and return it; paths of existing files are made absolute.

    Args:
        folder: made where it does not exist.
        model: Hugging Face model folder or hub id.
        data: JSONL with training problems.
        num_problems: how many there are; a tenth of them, 2 to 64, becomes the validation set, and a batch is never
            larger than the rest.

    Raises:
        RecipeError: there is a recipe.toml already, the folder cannot be written, or there are fewer than four problems.
    """
    if num_problems < 4:
        raise RecipeError(
            f"{data} has {num_problems} problems; a run needs at least 4, two to train and two to validate"
        )
    path = folder / "recipe.toml"
    num_validation = max(2, min(64, num_problems // 10))
    text = _TEMPLATE.format(
        recipe=path,
        output=_quoted("runs/" + (folder.resolve().name or "run")),
        model=_quoted(str(Path(model).resolve()) if Path(model).exists() else model),
        data=_quoted(str(data.resolve())),
        num_validation=num_validation,
        batch_size=max(2, min(16, num_problems - num_validation)),
    )
    if folder.exists() and not folder.is_dir():
        raise RecipeError(f"{folder} is a file; name a folder for the recipe")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise RecipeError(f"{path} exists and is left as it is; name another folder, or remove it first") from error
    except OSError as error:
        raise RecipeError(f"{path} cannot be written: {error.strerror}; name another folder") from error
    return path


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's, except that TOML wants DEL escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
