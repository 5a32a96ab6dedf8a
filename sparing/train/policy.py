"""Log-probabilities of responses under the policy being trained: the forward of the update.

Shape legend: B responses, W padded input width, T padded response width, M response tokens of all rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from sparing.types import IntArray, Rollout

# Widths are rounded up: a new shape every step makes allocators keep a block for each, up to gigabytes.
LENGTH_BUCKET = 32
# Logits are made for at most this many (token, vocabulary) entries at once; 2**25 floats are 128 MiB.
LOGIT_ENTRIES = 2**25


def round_up(length: int, multiple: int = LENGTH_BUCKET) -> int:
    """The smallest multiple of `multiple` that is at least `length`, and at least one."""
    return max(1, -(-length // multiple)) * multiple


def plan_microbatches(lengths_B: Sequence[int], max_tokens: int) -> list[IntArray]:
    """Split rows into length-sorted micro-batches of at most `max_tokens` padded tokens, longest first.

    Sorting keeps padding small; longest first shows a lack of memory at once. A row longer than `max_tokens` stands alone.
    """
    order_B = np.argsort(-np.asarray(lengths_B, dtype=np.int64), kind="stable")
    batches: list[IntArray] = []
    start = 0
    while start < len(order_B):
        width = round_up(int(lengths_B[order_B[start]]))
        stop = start + max(1, max_tokens // width)
        batches.append(order_B[start:stop].astype(np.int64))
        start = stop
    return batches


@dataclass(frozen=True, kw_only=True, slots=True)
class PaddedRows:
    """Right-padded inputs of a micro-batch and where its M response tokens are predicted.

    `row_M`, `source_M`: input position whose hidden state predicts the token; `column_M`: its place in the response;
    `target_M`: the token itself.
    """

    input_ids_BW: torch.Tensor
    row_M: torch.Tensor
    source_M: torch.Tensor
    column_M: torch.Tensor
    target_M: torch.Tensor
    response_width: int


def pad_rows(rollouts: Sequence[Rollout], device: torch.device) -> PaddedRows:
    """Lay prompts and responses out from the left, padded on the right.

    With causal attention no real token sees padding on its right, so no attention mask is needed.
    """
    ids = [np.concatenate([np.asarray(r.prompt_ids, dtype=np.int64), r.completion.response_ids_T]) for r in rollouts]
    lengths_B = np.array([rollout.length for rollout in rollouts], dtype=np.int64)
    # The last response token predicts nothing that is trained, so it is not fed.
    input_ids_BW = np.zeros((len(ids), round_up(max(map(len, ids)) - 1)), dtype=np.int64)
    for row, tokens in enumerate(ids):
        input_ids_BW[row, : len(tokens) - 1] = tokens[:-1]
    row_M = np.repeat(np.arange(len(ids)), lengths_B)
    column_M = np.concatenate([np.arange(length) for length in lengths_B])
    prompt_M = np.repeat([len(rollout.prompt_ids) for rollout in rollouts], lengths_B)
    target_M = np.concatenate([rollout.completion.response_ids_T for rollout in rollouts])

    def tensor(array: IntArray) -> torch.Tensor:
        return torch.tensor(array, dtype=torch.long, device=device)

    return PaddedRows(
        input_ids_BW=tensor(input_ids_BW),
        row_M=tensor(row_M),
        source_M=tensor(prompt_M + column_M - 1),
        column_M=tensor(column_M),
        target_M=tensor(target_M),
        response_width=round_up(int(lengths_B.max())),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseScores:
    """Log-probability and entropy of every response token; zero where `mask_BT` is zero."""

    logprobs_BT: torch.Tensor
    entropy_BT: torch.Tensor
    mask_BT: torch.Tensor


def _token_scores(logits_MV: torch.Tensor, target_M: torch.Tensor, temperature: float) -> tuple[torch.Tensor, ...]:
    """Log-probabilities of the targets, and entropies without gradient, at the sampling temperature."""
    logits_MV = logits_MV.float() / temperature
    normaliser_M = torch.logsumexp(logits_MV, dim=-1)
    logprob_M = logits_MV.gather(-1, target_M[:, None])[:, 0] - normaliser_M
    with torch.no_grad():
        probs_MV = torch.softmax(logits_MV, dim=-1)
        entropy_M = normaliser_M - (probs_MV * logits_MV).sum(-1)
    return logprob_M, entropy_M


class Policy:
    """Scores responses with gradients, at the temperature they were sampled at.

    Only response positions reach the language-model head, in chunks that are recomputed in the backward pass. A model whose
    logits are more than `head(hidden)` (soft caps, scaled logits) is found out once and goes through its own forward.
    """

    def __init__(self, model: Any, *, temperature: float, autocast: str = "none") -> None:
        self.model = model
        self.temperature = temperature
        self.autocast = autocast
        self._plain_head = head_is_plain(model)

    def _precision(self) -> AbstractContextManager[Any]:
        if self.autocast == "bfloat16":
            return torch.autocast(self.model.device.type, dtype=torch.bfloat16)
        return nullcontext()

    def score(self, rollouts: Sequence[Rollout]) -> ResponseScores:
        """Log-probabilities (B, T) of the responses, with gradients, and their entropies, without."""
        rows = pad_rows(rollouts, self.model.device)
        with self._precision():
            logprob_M, entropy_M = self._scores_M(rows)
        shape = (len(rollouts), rows.response_width)
        where = (rows.row_M, rows.column_M)
        zeros_BT = torch.zeros(shape, dtype=torch.float32, device=logprob_M.device)
        return ResponseScores(
            logprobs_BT=zeros_BT.index_put(where, logprob_M),
            entropy_BT=zeros_BT.index_put(where, entropy_M),
            mask_BT=zeros_BT.index_put(where, torch.ones_like(entropy_M)),
        )

    def _scores_M(self, rows: PaddedRows) -> tuple[torch.Tensor, torch.Tensor]:
        if not self._plain_head:
            logits_BWV = self.model(input_ids=rows.input_ids_BW, use_cache=False).logits
            logprob_M, entropy_M = _token_scores(logits_BWV[rows.row_M, rows.source_M], rows.target_M, self.temperature)
            return logprob_M, entropy_M
        hidden_BWD = self.model.base_model(input_ids=rows.input_ids_BW, use_cache=False).last_hidden_state
        num_tokens = rows.target_M.shape[0]
        # Padded with copies of position 0 to few distinct sizes; their scores are cut off again, so they get no gradient.
        spare = round_up(num_tokens, 4 * LENGTH_BUCKET) - num_tokens
        row_M, source_M, target_M = (
            torch.nn.functional.pad(index, (0, spare)) for index in (rows.row_M, rows.source_M, rows.target_M)
        )
        hidden_MD = hidden_BWD[row_M, source_M]
        head = self.model.get_output_embeddings()

        def scores(hidden_CD: torch.Tensor, target_C: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return _token_scores(head(hidden_CD), target_C, self.temperature)

        chunk = max(1, LOGIT_ENTRIES // head.weight.shape[0])
        if len(target_M) <= chunk:
            logprob_M, entropy_M = scores(hidden_MD, target_M)
        else:
            parts = [
                checkpoint(scores, hidden_CD, target_C, use_reentrant=False)
                for hidden_CD, target_C in zip(hidden_MD.split(chunk), target_M.split(chunk), strict=True)
            ]
            logprob_M, entropy_M = (torch.cat(part) for part in zip(*parts, strict=True))
        return logprob_M[:num_tokens], entropy_M[:num_tokens]


@torch.no_grad()
def head_is_plain(model: Any) -> bool:
    """Whether the model's logits are exactly its output embedding applied to its last hidden state."""
    head = model.get_output_embeddings()
    if head is None:
        return False
    ids = torch.arange(min(8, head.weight.shape[0]), device=model.device)[None]
    logits = model(input_ids=ids, use_cache=False).logits
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    return bool(torch.equal(logits, head(hidden)))
