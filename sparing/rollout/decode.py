"""The local engine: a decode loop on any causal language model of transformers, on CPU or one CUDA device.

Each step runs one forward over the live rows. Rows that end are dropped at once, waiting prompts take their place,
and the states of equal prompts are computed once.

Shape legend: B live rows, V vocabulary, T response tokens, L cache columns in use.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from sparing.errors import ModelError, RecipeError
from sparing.rollout.cache import BufferPool, RolloutCache, round_up
from sparing.rollout.forward import ModelForward
from sparing.rollout.model import LoadedModel
from sparing.rollout.sampling import choose_tokens, sequence_keys, uniforms
from sparing.types import BoolArray, Completion, FinishReason, IntArray

# Padded prompt tokens in one forward; bounds the activations of a prefill.
_PREFILL_TOKENS = 4096
# Response tokens that the cache has place for at first; it grows by half whenever a row needs more.
_FIRST_TOKENS = 256
# Waiting prompts start when this part of the rows is free.
_REFILL_PARTS = 8


class LocalCompleter:
    """Completions from a model in this process: the `Completer` of one CPU or one CUDA device.

    At most `max_sequences` rows are decoded at once; that bounds the memory of the key-value cache, which is kept
    between calls.
    """

    def __init__(self, loaded: LoadedModel, max_sequences: int = 256) -> None:
        if max_sequences < 1:
            raise RecipeError(f"max_sequences is {max_sequences}; it must be at least 1, set rollout.max_sequences")
        self._loaded = loaded
        self._max_sequences = max_sequences
        self._pool = BufferPool()
        self._forward = ModelForward(loaded)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the model."""
        return self._loaded.tokenizer

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Token ids that end a response."""
        return self._loaded.eos_ids

    @property
    def context_length(self) -> int:
        """Most tokens of a prompt and its response together."""
        return self._loaded.context_length

    def generate(
        self, prompts: Sequence[Sequence[int]], *, temperature: float, top_p: float, max_tokens: int, seed: int
    ) -> list[Completion]:
        """Complete every prompt; see `Completer.generate`.

        Equal calls give equal bits on the CPU with the same number of threads, in any process. A completion depends
        on the other prompts of the call only through the rounding of batched matrix products.

        Raises `RecipeError` for impossible sampling settings and `ModelError` for prompts that are empty, hold
        unknown tokens or do not fit the context, or when the model's log-probabilities are not finite.
        """
        self._check(prompts, temperature, top_p, max_tokens)
        if not prompts:
            return []
        with self._forward.bound():
            run = _Run(self._forward, self._pool, prompts, max_tokens, seed, self._max_sequences)
            while run.admit():
                run.step(temperature, top_p)
        completions = run.completions()
        for index, completion in enumerate(completions):
            if not np.isfinite(completion.logprobs_T).all():
                self._pool.clear()
                raise ModelError(
                    f"the model gives log-probabilities that are not finite for prompt {index}; its weights have "
                    "diverged or overflow: start again from an earlier checkpoint, or use model.dtype float32"
                )
        return completions

    def _check(self, prompts: Sequence[Sequence[int]], temperature: float, top_p: float, max_tokens: int) -> None:
        if not temperature > 0:
            raise RecipeError(f"temperature is {temperature}; it must be above 0")
        if not 0 < top_p <= 1:
            raise RecipeError(f"top_p is {top_p}; it must be above 0 and at most 1")
        if max_tokens < 1:
            raise RecipeError(f"max_tokens is {max_tokens}; a response needs at least 1 token")
        vocab_size = self._forward.vocab_size
        for index, prompt in enumerate(prompts):
            if not len(prompt):
                raise ModelError(f"prompt {index} is empty; a prompt needs at least 1 token")
            if len(prompt) + max_tokens > self.context_length:
                raise ModelError(
                    f"prompt {index} has {len(prompt)} tokens and may be answered by {max_tokens}, which is beyond "
                    f"the model's context of {self.context_length}; lower max_tokens or shorten the prompt"
                )
            if min(prompt) < 0 or max(prompt) >= vocab_size:
                raise ModelError(
                    f"prompt {index} holds token id {max(prompt) if min(prompt) >= 0 else min(prompt)}; the model "
                    f"knows ids 0 to {vocab_size - 1}: use the tokenizer of the model's own folder"
                )


class _Run:
    """State of one call: which sequence lives in which row, and what has been generated."""

    def __init__(
        self,
        forward: ModelForward,
        pool: BufferPool,
        prompts: Sequence[Sequence[int]],
        max_tokens: int,
        seed: int,
        max_sequences: int,
    ) -> None:
        self._forward = forward
        self._prompts = [tuple(prompt) for prompt in prompts]
        self._max_tokens = max_tokens
        self._num_rows = min(max_sequences, len(prompts))
        longest = max(len(prompt) for prompt in prompts)
        self._most_columns = round_up(longest + max_tokens)
        first_columns = round_up(longest + min(max_tokens, _FIRST_TOKENS))
        self._cache = RolloutCache(pool, self._num_rows, first_columns, keys_by_feature=forward.keys_by_feature)
        self._keys = sequence_keys(seed, len(prompts))
        self._next = 0
        # One entry a live row. The newest token of a row has no states in the cache yet: the next step feeds it.
        none: IntArray = np.zeros(0, dtype=np.int64)
        self._sequence, self._position, self._token, self._count = none, none, none, none
        self._record: list[tuple[IntArray, IntArray, NDArray[np.float32]]] = []

    def admit(self) -> bool:
        """Give free rows to waiting sequences; False when nothing is left to decode."""
        free, waiting = self._num_rows - len(self._sequence), len(self._prompts) - self._next
        # A prefill for every single row that falls free would cost more than the row wins.
        if waiting and free >= min(waiting, max(1, self._num_rows // _REFILL_PARTS)):
            stop = self._next + min(free, waiting)
            while self._next < stop:
                self._prefill(stop)
        return len(self._sequence) > 0

    def _prefill(self, stop: int) -> None:
        """Start sequences from the next one on, at most to `stop`, as far as one forward may go."""
        distinct: dict[tuple[int, ...], int] = {}
        source: list[int] = []
        width = 0
        for prompt in self._prompts[self._next : stop]:
            wider = max(width, len(prompt))
            if source and prompt not in distinct and wider * (len(distinct) + 1) > _PREFILL_TOKENS:
                break
            width = wider
            source.append(distinct.setdefault(prompt, len(distinct)))
        # The last prompt token is left to the first step, so that a prefill needs no logits.
        ids: IntArray = np.zeros((len(distinct), width - 1), dtype=np.int64)
        for prompt, row in distinct.items():
            ids[row, : len(prompt) - 1] = prompt[:-1]
        if width > 1:
            self._forward.prefill(ids, len(self._sequence), np.array(source, dtype=np.int64), self._cache)
        started = range(self._next, self._next + len(source))
        self._next += len(source)
        lengths = np.array([len(self._prompts[i]) for i in started], dtype=np.int64)
        last = np.array([self._prompts[i][-1] for i in started], dtype=np.int64)
        self._sequence = np.concatenate([self._sequence, np.array(started, dtype=np.int64)])
        self._position = np.concatenate([self._position, lengths - 1])
        self._token = np.concatenate([self._token, last])
        self._count = np.concatenate([self._count, np.zeros(len(source), dtype=np.int64)])

    def step(self, temperature: float, top_p: float) -> None:
        """Generate one token in every live row and drop the rows that end."""
        columns = round_up(int(self._position.max()) + 1)
        if columns > self._cache.num_columns:
            self._grow()
        logits_BV = self._forward.step(self._token, self._position, columns, self._cache)
        uniforms_B = self._forward.to_device(uniforms(self._keys[self._sequence], self._count))
        tokens, logprobs = choose_tokens(logits_BV, uniforms_B, temperature=temperature, top_p=top_p)
        self._token = tokens.cpu().numpy()
        self._position, self._count = self._position + 1, self._count + 1
        self._record.append((self._sequence, self._token, logprobs.cpu().numpy()))
        done = self._forward.is_end[self._token] | (self._count >= self._max_tokens)
        if done.any():
            self._drop(done)

    def _grow(self) -> None:
        columns = min(round_up(self._cache.num_columns * 3 // 2), self._most_columns)
        live = len(self._sequence)
        # With nothing waiting, freed rows are never used again.
        rows = self._num_rows if self._next < len(self._prompts) else live
        self._cache.grow(rows, columns, keep=live)

    def _drop(self, done: BoolArray) -> None:
        """Close the gaps of finished rows with live rows from the end."""
        num_live = int((~done).sum())
        order = np.arange(num_live)
        gaps = np.flatnonzero(done[:num_live])
        movers = num_live + np.flatnonzero(~done[num_live:])
        order[gaps] = movers
        if len(movers):
            columns = round_up(int(self._position[movers].max()))
            to_device = self._forward.to_device
            self._cache.move_rows(to_device(movers), to_device(gaps), columns)
        self._sequence, self._position = self._sequence[order], self._position[order]
        self._token, self._count = self._token[order], self._count[order]

    def completions(self) -> list[Completion]:
        """What was generated, in the order of the prompts."""
        sequence, token, logprob = (np.concatenate(parts) for parts in zip(*self._record, strict=True))
        by_sequence = np.argsort(sequence, kind="stable")
        ends = np.cumsum(np.bincount(sequence, minlength=len(self._prompts)))[:-1]
        tokens, logprobs = np.split(token[by_sequence], ends), np.split(logprob[by_sequence], ends)
        return [
            Completion(response_ids_T=ids, logprobs_T=values, finish_reason=self._finish_reason(ids))
            for ids, values in zip(tokens, logprobs, strict=True)
        ]

    def _finish_reason(self, ids: IntArray) -> FinishReason:
        return "stop" if self._forward.is_end[ids[-1]] else "length"
