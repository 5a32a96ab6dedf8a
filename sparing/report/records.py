"""What the report knows of a run: frozen records that `load` fills and every figure reads."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Interval = tuple[float, float]
NO_INTERVAL: Interval = (math.nan, math.nan)
HEDGES = ("wait", "but", "however")  # transition words of Fig. 8 and of models that re-check themselves
# The word comes first in its pattern, boundaries after it: the regex engine then searches four times as fast.
_HEDGE_PATTERNS = tuple(re.compile(rf"{word}(?<!\w{word})\b") for word in HEDGES)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageKey:
    """Which stage of which loop a row belongs to."""

    loop: int
    index: int
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One row of metrics.jsonl; `values` holds its numbers by name (NaN where the file has none)."""

    step: int
    stage: StageKey
    values: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """One row of validation.jsonl: accuracy in [0, 1] and mean response length in tokens, with intervals."""

    step: int
    stage: StageKey
    accuracy: float
    accuracy_interval: Interval
    length: float
    length_interval: Interval
    num_problems: int
    values: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Why a stage ended and which checkpoint it kept."""

    stage: StageKey
    started_at: int
    stopped_at: int
    chosen_step: int
    reason: str
    evidence: Mapping[str, Any]

    @property
    def rolled_back(self) -> bool:
        """Whether steps after the kept checkpoint were thrown away."""
        return self.chosen_step < self.stopped_at


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalProblem:
    """One test problem with its k responses; `offset` is where its row starts in the file, in bytes."""

    id: str
    domain: str
    tier: str
    question: str
    answer: str
    shortest_length: float
    outcomes: tuple[str, ...]
    lengths: tuple[int, ...]
    truncated: tuple[bool, ...]
    thinking_chars: int
    chars: int
    hedges: int
    offset: int

    @property
    def accuracy(self) -> float:
        """Share of the k responses that are correct."""
        return sum(outcome == "correct" for outcome in self.outcomes) / max(len(self.outcomes), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Base against final on one domain, or on one tier of it; lengths in tokens, intervals at 95 %."""

    name: str
    trained: bool
    base_accuracy: float
    final_accuracy: float
    delta_accuracy: float
    delta_interval: Interval
    base_length: float
    final_length: float
    relative_length: float
    relative_interval: Interval
    shortest_length: float
    excess_removed: float
    tiers: tuple[Comparison, ...] = ()

    @property
    def label(self) -> str:
        """The name, with the tier where the domain has only one."""
        return f"{self.name} ({self.tiers[0].name})" if len(self.tiers) == 1 else self.name

    @property
    def rows(self) -> tuple[Comparison, ...]:
        """The domain, then its tiers where there are several."""
        return (self, *self.tiers) if len(self.tiers) > 1 else (self,)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Everything the report shows."""

    path: Path
    config: Row
    steps: tuple[Step, ...]
    validations: tuple[Validation, ...]
    decisions: tuple[Decision, ...]
    base: tuple[EvalProblem, ...]
    final: tuple[EvalProblem, ...]
    domains: tuple[Comparison, ...]
    summary: Row | None
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether the run wrote its summary, the last thing it does."""
        return self.summary is not None

    @property
    def lost(self) -> frozenset[tuple[StageKey, int]]:
        """Stage and step of the validations whose weights a rollback threw away."""
        back = [decision for decision in self.decisions if decision.rolled_back]
        return frozenset(
            (point.stage, point.step)
            for decision in back
            for point in self.validations
            if point.stage == decision.stage and point.step > decision.chosen_step
        )

    @property
    def kept_validations(self) -> tuple[Validation, ...]:
        """The validations on the way to the current weights."""
        lost = self.lost
        return tuple(point for point in self.validations if (point.stage, point.step) not in lost)

    @property
    def pairs(self) -> tuple[tuple[EvalProblem, EvalProblem], ...]:
        """Base and final on the same test problem, for problems answered by both."""
        final = {(problem.domain, problem.tier, problem.id): problem for problem in self.final}
        both = ((base, final.get((base.domain, base.tier, base.id))) for base in self.base)
        return tuple((base, after) for base, after in both if after and base.lengths and after.lengths)

    def setting(self, name: str, default: Any = None) -> Any:
        """A value of the recipe by its dotted name."""
        return dotted(self.config, name, default)

    @property
    def thinking_tags(self) -> tuple[str, str]:
        """What opens and closes the thinking block; empty strings where the model has none."""
        return thinking_tags(self.config)


def dotted(config: Row, name: str, default: Any = None) -> Any:
    """A value of nested tables by its dotted name, else the default."""
    value: Any = config
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value


def thinking_tags(config: Row) -> tuple[str, str]:
    """What opens and closes the thinking block; empty strings where the model has none."""
    if not dotted(config, "thinking.enabled", True):
        return "", ""
    return str(dotted(config, "thinking.open", "<think>")), str(dotted(config, "thinking.close", "</think>"))


def split_thinking(text: str, tags: tuple[str, str]) -> tuple[str, str | None]:
    """(thinking, answer) of a response; the answer is None where thinking never closed.

    The opening tag may be part of the prompt, so the text need not begin with it.
    """
    opening, closing = tags
    if not closing:
        return "", text
    thinking, found, answer = text.partition(closing)
    return thinking.strip().removeprefix(opening).strip(), answer.strip() if found else None


def number(row: Mapping[str, Any], key: str) -> float:
    """The row's finite number under `key`, else NaN."""
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if math.isfinite(value) else math.nan


def count_hedges(text: str) -> int:
    """How many whole words of the text are hedges, whatever their case."""
    lower = text.lower()
    return sum(len(pattern.findall(lower)) for pattern in _HEDGE_PATTERNS)
