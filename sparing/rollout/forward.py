"""One forward of a transformers model over a `RolloutCache`: prompts at once, then a token a row.

Shape legend: B rows, P distinct prompts, T prompt tokens, L cache columns in use, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedConfig

from sparing.errors import ModelError
from sparing.rollout.cache import RolloutCache
from sparing.rollout.direct_step import DirectStep, supports
from sparing.rollout.model import LoadedModel, num_embeddings
from sparing.types import BoolArray, IntArray

_MASK_KINDS = ("full_attention", "sliding_attention", "chunked_attention")


class StepMasks:
    """Attention masks of a one-token step for every kind of attention layer that a model has."""

    def __init__(self, config: PreTrainedConfig, dtype: torch.dtype) -> None:
        text = config.get_text_config()
        self._dtype = dtype
        self._window: int | None = getattr(text, "sliding_window", None)
        self._chunk: int | None = getattr(text, "attention_chunk_size", None)
        layer_types: Sequence[str] | None = getattr(text, "layer_types", None)
        # Models with layer types take one mask a type, all others the one they need (as transformers' own generate).
        self._by_type = layer_types is not None
        if layer_types is not None:
            self._kinds = tuple(sorted(set(layer_types)))
        elif self._window is not None:
            self._kinds = ("sliding_attention",)
        else:
            self._kinds = ("full_attention",) if self._chunk is None else ("chunked_attention",)
        unknown = [kind for kind in self._kinds if kind not in _MASK_KINDS]
        if unknown:
            raise ModelError(
                f"model type {text.model_type!r} has layers of type {', '.join(unknown)}; the local engine decodes "
                f"{', '.join(_MASK_KINDS)}: use a model with attention layers only"
            )

    def build(self, positions_B: torch.Tensor, columns_L: torch.Tensor) -> torch.Tensor | dict[str, torch.Tensor]:
        """Additive masks (B, 1, 1, L): 0 where the token at `positions_B` may look, the lowest number elsewhere."""
        last_B1 = positions_B[:, None]
        causal_BL = columns_L <= last_B1
        masks = {}
        for kind in self._kinds:
            allowed_BL = causal_BL
            if kind == "sliding_attention" and self._window is not None:
                allowed_BL = causal_BL & (columns_L > last_B1 - self._window)
            elif kind == "chunked_attention" and self._chunk is not None:
                allowed_BL = causal_BL & (columns_L >= last_B1 - last_B1 % self._chunk)
            mask_BL = torch.zeros(allowed_BL.shape, dtype=self._dtype, device=allowed_BL.device)
            mask_BL.masked_fill_(~allowed_BL, torch.finfo(self._dtype).min)
            masks[kind] = mask_BL[:, None, None, :]
        return masks if self._by_type else next(iter(masks.values()))


class ModelForward:
    """The model's forward, called the way this version of transformers names its arguments."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.device = loaded.device
        self._model = loaded.model
        parameters = inspect.signature(loaded.model.forward).parameters
        if "position_ids" not in parameters:
            raise ModelError(
                f"{type(loaded.model).__name__} takes no position_ids; the local engine needs a causal language "
                "model whose positions can be given, such as Qwen, Llama, Gemma or Mistral"
            )
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._keep = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        self._masks = StepMasks(loaded.model.config, loaded.model.dtype)
        self.vocab_size = num_embeddings(loaded.model)
        self.is_end: BoolArray = np.zeros(self.vocab_size, dtype=np.bool_)
        self.is_end[list(loaded.eos_ids)] = True
        self._counter = torch.arange(0)
        self._direct: DirectStep | None = None

    @contextmanager
    def bound(self) -> Iterator[None]:
        """For one call: evaluation mode, no gradients, and the weights as they are at its start."""
        training = self._model.training
        self._model.eval()
        try:
            with torch.inference_mode():
                self._direct = DirectStep(self._model) if supports(self._model) else None
                yield
        finally:
            self._direct = None
            self._model.train(training)

    @property
    def keys_by_feature(self) -> bool:
        """Whether the cache of this call should hold keys by feature; see `RolloutCache`."""
        return self._direct is not None and self._direct.keys_by_feature

    def to_device(self, array: NDArray[Any]) -> torch.Tensor:
        """A tensor on the model's device with the contents of a numpy array."""
        return torch.from_numpy(array).to(self.device)

    def prefill(self, ids_PT: IntArray, start: int, source_B: IntArray, cache: RolloutCache) -> None:
        """Write the states of right-padded prompts to rows `start`, ...; row `start + j` is prompt `source_B[j]`.

        A token never looks to its right and the padding is overwritten later, so it needs no mask.
        """
        cache.prefill(start, self.to_device(source_B))
        positions = torch.arange(ids_PT.shape[1], device=self.device)[None, :]
        self._call(self.to_device(ids_PT), positions, None, cache)

    def step(self, tokens_B: IntArray, positions_B: IntArray, columns: int, cache: RolloutCache) -> torch.Tensor:
        """Logits (B, V) after one more token in each of the first B rows."""
        if self._counter.shape[0] < max(columns, len(tokens_B)):
            self._counter = torch.arange(2 * max(columns, len(tokens_B)), device=self.device)
        tokens, positions = self.to_device(tokens_B), self.to_device(positions_B)
        cache.step(self._counter[: len(tokens_B)], positions, columns)
        masks = self._masks.build(positions, self._counter[:columns])
        if self._direct is not None:
            return self._direct(tokens, positions, masks, cache)
        return self._call(tokens[:, None], positions[:, None], masks, cache)[:, -1]

    def _call(self, ids: torch.Tensor, positions: torch.Tensor, masks: Any, cache: RolloutCache) -> torch.Tensor:
        arguments = {self._cache_name: cache, **self._keep}
        output = self._model(
            input_ids=ids, position_ids=positions, attention_mask=masks, use_cache=True, return_dict=True, **arguments
        )
        logits: torch.Tensor = output.logits
        return logits
