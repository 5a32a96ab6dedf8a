"""Records that travel between the layers: problems, rollouts, verdicts and batches.

Shape legend: N rollouts of one problem, T response tokens, G groups in a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Outcome = Literal["correct", "incorrect", "unknown"]
FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One message of a conversation, in the chat-template sense."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A question with a verifiable answer.

    `kind` names the verifier (`math`, `exact`), `domain` and `tier` group results in reports, and
    `shortest_length` is the length in tokens of the shortest known good response, where one is known.
    """

    id: str
    turns: tuple[Turn, ...]
    answer: str
    kind: str = "math"
    domain: str = "default"
    tier: str = ""
    shortest_length: int | None = None

    @property
    def question(self) -> str:
        """The last user message."""
        return next((turn.content for turn in reversed(self.turns) if turn.role == "user"), "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What a verifier says of one response; `unknown` means it timed out or crashed, never "wrong"."""

    outcome: Outcome
    extracted: str | None = None
    reason: str = ""

    @property
    def correct(self) -> bool:
        """Whether the outcome is `correct`; unknown is not."""
        return self.outcome == "correct"


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """Tokens sampled for one prompt: what an inference engine returns.

    `response_ids_T` holds model-generated tokens only, the end token included when it was sampled.
    `logprobs_T` are log-probabilities under the sampling temperature, before any top-p filter.
    """

    response_ids_T: IntArray
    logprobs_T: NDArray[np.float32]
    finish_reason: FinishReason

    @property
    def length(self) -> int:
        """Response length l(y): thinking, answer and end token (Sec. 3)."""
        return int(self.response_ids_T.shape[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollout:
    """A completion with its text and its verdict."""

    prompt_ids: tuple[int, ...]
    completion: Completion
    text: str
    verdict: Verdict

    @property
    def length(self) -> int:
        """Response length l(y) in model-generated tokens."""
        return self.completion.length


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutGroup:
    """The N rollouts of one problem under one policy."""

    problem: Problem
    rollouts: tuple[Rollout, ...]

    @property
    def lengths_N(self) -> IntArray:
        """Response lengths in tokens, shape (N,)."""
        return np.array([rollout.length for rollout in self.rollouts], dtype=np.int64)

    @property
    def correct_N(self) -> BoolArray:
        """Binary correctness r_cor, shape (N,); unknown counts as not correct."""
        return np.array([rollout.verdict.correct for rollout in self.rollouts], dtype=np.bool_)

    @property
    def unknown_N(self) -> BoolArray:
        """Which verdicts are unknown, shape (N,). One of them closes the gate."""
        return np.array([rollout.verdict.outcome == "unknown" for rollout in self.rollouts], dtype=np.bool_)

    @property
    def truncated_N(self) -> BoolArray:
        """Which rollouts ran into the token limit, shape (N,)."""
        return np.array([rollout.completion.finish_reason == "length" for rollout in self.rollouts], dtype=np.bool_)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainBatch:
    """Exactly `batch_size` groups; `compress_G[g]` says whether group g was drawn from the mastered share."""

    groups: tuple[RolloutGroup, ...]
    compress_G: BoolArray
    num_generated: int
    shortage: str = ""

    @property
    def achieved_rho(self) -> float:
        """Share of groups drawn for compression."""
        return float(self.compress_G.mean()) if len(self.groups) else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemResult:
    """Correctness and lengths of k sampled responses to one problem, as kept in run folders."""

    problem: Problem
    outcomes: tuple[Outcome, ...]
    lengths: tuple[int, ...]
    finish_reasons: tuple[FinishReason, ...]
    texts: tuple[str, ...] = ()

    @property
    def correct(self) -> tuple[bool, ...]:
        """Binary correctness of the k responses."""
        return tuple(outcome == "correct" for outcome in self.outcomes)
