"""What every inference engine offers: completions with log-probabilities for prompts of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sparing.types import Completion

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@runtime_checkable
class Completer(Protocol):
    """An engine that completes prompts; `sparing.rollout.decode.LocalCompleter` is the one of this package."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the model that is completed with."""
        ...

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Token ids that end a response."""
        ...

    @property
    def context_length(self) -> int:
        """Most tokens of a prompt and its response together."""
        ...

    def generate(
        self, prompts: Sequence[Sequence[int]], *, temperature: float, top_p: float, max_tokens: int, seed: int
    ) -> list[Completion]:
        """One completion for every entry of `prompts`, in order; repeat a prompt N times for N rollouts.

        The random stream of entry i depends on `(seed, i)` alone. `max_tokens` bounds the response, end token
        included. Log-probabilities are those at `temperature`, before the `top_p` filter.
        """
        ...
