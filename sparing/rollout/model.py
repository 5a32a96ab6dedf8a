"""Load a causal language model for training and generation, and save it as a plain Hugging Face folder."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers import __version__ as transformers_version

from sparing.errors import ModelError
from sparing.settings import ModelSettings

# For positions that need no table, such as ALiBi: no limit that a rollout could reach.
_UNBOUNDED = 2**31 - 1
# Generation settings that mean nothing without do_sample, and that transformers refuses to save without it.
_SAMPLING_ONLY = ("temperature", "top_p", "top_k", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedModel:
    """A model on its device, with its tokenizer and what the two say of the end of a response and the context."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    eos_ids: tuple[int, ...]
    context_length: int
    has_chat_template: bool


def load_model(settings: ModelSettings) -> LoadedModel:
    """Load the model and tokenizer that `settings.path` names, a folder or a hub id, in `settings.dtype`.

    Weights stored in another type are converted. Sets the number of torch's threads. Raises `ModelError` when
    something needed for training or generation is missing, before any weights are read where that can be seen.
    """
    device = _device(settings.device)
    _set_threads(settings.threads)
    path = _expanded(settings.path)
    _check_folder(path)
    config = _load_config(path)
    tokenizer = _load_tokenizer(path)
    model = _load_weights(path, config, getattr(torch, settings.dtype))
    torch.nn.Module.to(model, device)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        device=device,
        # Some published tokenizers have more entries than the model has rows, so unknown ids are refused where they occur.
        eos_ids=_end_tokens(path, model, tokenizer, num_embeddings(model)),
        context_length=_context_length(config),
        has_chat_template=bool(tokenizer.chat_template),
    )


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: str | os.PathLike[str]) -> None:
    """Write weights, configuration, generation settings and tokenizer so that `from_pretrained` loads `folder`.

    Tied weights are stored once, and a model that decodes greedily by default goes on doing so. The folder is filled
    file by file: write to a temporary one and rename it where a half-written folder would do harm.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    own = model.generation_config
    try:
        if own is not None:
            model.generation_config = _savable(own, target)
        model.save_pretrained(target)
    finally:
        model.generation_config = own
    tokenizer.save_pretrained(target)


def _savable(own: GenerationConfig, target: Path) -> GenerationConfig:
    """A copy that transformers writes to `target`, without sampling settings where greedy decoding ignores them anyway.

    What transformers refuses differs between its versions, so saving itself is the test.
    """
    generation = copy.deepcopy(own)
    try:
        generation.save_pretrained(target)
    except ValueError:
        if generation.do_sample is not True:
            for name in _SAMPLING_ONLY:
                setattr(generation, name, None)
    try:
        generation.save_pretrained(target)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ModelError(
            f"the model's generation settings cannot be saved ({reason}); correct its generation_config.json"
        ) from error
    return generation


def num_embeddings(model: PreTrainedModel) -> int:
    """Token ids that the model knows: the rows of its input embedding."""
    weight: Any = model.get_input_embeddings().weight
    return int(weight.shape[0])


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ModelError(f"model.device is {name!r}; it must be auto, cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"model.device is {name!r}, but torch finds no CUDA device; set model.device to auto or cpu")
    return device


def _set_threads(threads: int) -> None:
    if threads == 0 and "OMP_NUM_THREADS" in os.environ:
        return  # Whoever starts the process has chosen.
    affinity = getattr(os, "sched_getaffinity", None)
    torch.set_num_threads(threads or (len(affinity(0)) if affinity else os.cpu_count() or 1))


def _expanded(path: str) -> str:
    """`path` with a leading `~` replaced by the home folder; other paths and hub ids stay as they are written."""
    if not path.startswith("~"):
        return path
    try:
        return str(Path(path).expanduser())
    except RuntimeError:
        return path  # A user without a home: there is no such folder.


def _check_folder(path: str) -> None:
    folder = Path(path)
    if not folder.exists():
        if folder.is_absolute() or path.startswith((".", "~")) or path.count("/") > 1:
            raise ModelError(f"{path}: there is no such folder; set model.path to a Hugging Face model folder")
        return  # It may be a hub id.
    if not folder.is_dir():
        raise ModelError(f"{path} is a file; set model.path to the Hugging Face model folder that holds it")
    if not (folder / "config.json").is_file():
        raise ModelError(f"{path} has no config.json; a Hugging Face model folder needs one, as save_pretrained writes")


def _load_config(path: str) -> PreTrainedConfig:
    try:
        # Without an answer transformers would ask on the terminal whether to run the code.
        config = AutoConfig.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        _refuse_remote_code(path, error)
        raise ModelError(
            f"{path}: its configuration cannot be read ({_first_line(error)}); set model.path to a Hugging Face model "
            "folder, or to the id of a model that the hub gives you"
        ) from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or getattr(config, "is_encoder_decoder", False):
        raise ModelError(_not_causal(path, config))
    classes = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    names = {cls.__name__ for cls in (classes if isinstance(classes, tuple) else (classes,)) if cls}
    stored = set(config.architectures or names)
    # Encoders such as BERT have a decoder variant of the same configuration, which only is one when it says so.
    if not stored & names or (names == stored == {"BertLMHeadModel"} and not getattr(config, "is_decoder", False)):
        raise ModelError(_not_causal(path, config))
    quantization = getattr(config, "quantization_config", None)
    if quantization is not None:
        method = quantization.get("quant_method", "unknown") if isinstance(quantization, dict) else quantization
        raise ModelError(
            f"{path} holds quantised weights (quantization_config in config.json, method {method}); training needs "
            "full weights: dequantise first, or set model.path to the unquantised model"
        )
    return config


def _refuse_remote_code(path: str, error: Exception) -> None:
    if "trust_remote_code" in str(error):
        raise ModelError(_needs_code(path)) from error


def _needs_code(path: str) -> str:
    return (
        f"{path} needs program code of its own (auto_map in its configuration), which is never run here; set model.path "
        f"to a model that transformers {transformers_version} knows by itself, or install a version that knows this one"
    )


def _not_causal(path: str, config: PreTrainedConfig) -> str:
    if "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {}):
        return _needs_code(path)
    stored = ", ".join(config.architectures or ()) or "no architecture"
    return (
        f"{path} holds {stored} (model type {config.model_type!r}), which is no causal language model; "
        "set model.path to one whose config.json names a ...ForCausalLM architecture"
    )


def _load_tokenizer(path: str) -> PreTrainedTokenizerBase:
    remedy = "put tokenizer.json and tokenizer_config.json of the model into the folder"
    names = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")
    if Path(path).is_dir() and not any((Path(path) / name).is_file() for name in names):
        raise ModelError(f"{path} has no tokenizer; prompts cannot be encoded without one: {remedy}")
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        _refuse_remote_code(path, error)
        raise ModelError(f"{path}: its tokenizer cannot be read ({_first_line(error)}); {remedy}") from error
    return tokenizer


def _load_weights(path: str, config: PreTrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    remedy = "put all weight files that save_pretrained wrote into the folder"
    try:
        # transformers takes sdpa where the model supports it, else eager.
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path, config=config, dtype=dtype, output_loading_info=True, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if "mismatched_sizes" in str(error):  # transformers points to a table in its log, which is not shown.
            raise ModelError(
                f"{path}: weights have other shapes than its config.json says; put the config.json and the weights of one model "
                "into the folder"
            ) from error
        raise ModelError(f"{path}: its weights cannot be read ({_first_line(error)}); {remedy}") from error
    model: PreTrainedModel = loaded[0]
    missing = sorted(loaded[1]["missing_keys"])
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ModelError(f"{path} lacks the weights {', '.join(missing[:3])}{more}; {remedy}")
    return model


def _end_tokens(
    path: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, vocab_size: int
) -> tuple[int, ...]:
    stated = getattr(model.generation_config, "eos_token_id", None)
    ids = {stated} if isinstance(stated, int) else set(stated or ())
    if tokenizer.eos_token_id is not None:
        ids.add(tokenizer.eos_token_id)
    known = tuple(sorted(int(index) for index in ids if 0 <= index < vocab_size))
    if not known:
        raise ModelError(
            f"{path} names no end token; a response could never stop: set eos_token_id in generation_config.json "
            "or eos_token in tokenizer_config.json"
        )
    return known


def _context_length(config: PreTrainedConfig) -> int:
    length = getattr(config.get_text_config(), "max_position_embeddings", None)
    return int(length) if length else _UNBOUNDED


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
