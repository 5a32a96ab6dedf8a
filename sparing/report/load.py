"""Read a run folder into frozen records: the only place where the report touches files.

Files of a live run may end in a torn line; such lines are left out and named in `Run.notes`, which the page shows.
Texts of evaluated responses can be large, so they stay on disk until `response_texts` asks for one problem's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparing.errors import RunError

Row = dict[str, Any]
Interval = tuple[float, float]
NO_INTERVAL: Interval = (math.nan, math.nan)
STAGE_NAMES = ("accuracy", "compression")


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

    def setting(self, name: str, default: Any = None) -> Any:
        """A value of the recipe by its dotted name."""
        return _dotted(self.config, name, default)

    @property
    def thinking_tags(self) -> tuple[str, str]:
        """What opens and closes the thinking block; empty strings where the model has none."""
        return _thinking_tags(self.config)


def load_run(folder: Path) -> Run:
    """Read the run folder, finished or not.

    Raises RunError if the folder is missing or holds no readable config.json.
    """
    if not folder.is_dir():
        raise RunError(f"{folder} is not a folder; a report needs the run folder that `sparing train` wrote")
    if not (folder / "config.json").is_file():
        raise RunError(f"{folder} has no config.json, so it is no run folder; give the folder set as `output`")
    notes: list[str] = []
    config = _read_object(folder / "config.json")
    summary_path = folder / "summary.json"
    summary = _read_object(summary_path) if summary_path.is_file() else None
    steps = {(s.stage, s.step): s for s in map(_step, _rows(folder / "metrics.jsonl", notes, "step"))}
    points = {(v.stage, v.step): v for v in map(_validation, _rows(folder / "validation.jsonl", notes, "step"))}
    return Run(
        path=folder,
        config=config,
        steps=tuple(steps.values()),
        validations=tuple(points.values()),
        decisions=tuple(map(_decision, _rows(folder / "decisions.jsonl", notes, "stopped_at"))),
        base=_evaluation(folder / "evals" / "base.jsonl", config, notes),
        final=_evaluation(folder / "evals" / "final.jsonl", config, notes),
        domains=tuple(_comparison(name, row) for name, row in ((summary or {}).get("domains") or {}).items()),
        summary=summary,
        notes=tuple(notes),
    )


def response_texts(run: Run, which: str, problem: EvalProblem) -> tuple[str, ...]:
    """The texts of the k responses to a problem; `which` is "base" or "final"."""
    with (run.path / "evals" / f"{which}.jsonl").open("rb") as file:
        file.seek(problem.offset)
        return tuple(str(text) for text in json.loads(file.readline()).get("texts") or ())


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


def _dotted(config: Row, name: str, default: Any) -> Any:
    value: Any = config
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value


def _thinking_tags(config: Row) -> tuple[str, str]:
    if not _dotted(config, "thinking.enabled", True):
        return "", ""
    return str(_dotted(config, "thinking.open", "<think>")), str(_dotted(config, "thinking.close", "</think>"))


def _read_object(path: Path) -> Row:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise RunError(f"{path} cannot be read ({error}); restore it or start the run again") from error
    if not isinstance(value, dict):
        raise RunError(f"{path} holds a {type(value).__name__}; a run writes a JSON object there")
    return value


def _rows(path: Path, notes: list[str], required: str) -> Iterator[Row]:
    for _, row in _rows_with_offset(path, notes, required):
        yield row


def _rows_with_offset(path: Path, notes: list[str], required: str) -> Iterator[tuple[int, Row]]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        offset = 0
        for line_number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                if isinstance(row, dict) and row.get(required) is not None:
                    yield offset, row
                else:
                    notes.append(f"{path.name} line {line_number} is torn or lacks “{required}” and is left out.")
            offset += len(line)


def _stage(row: Row) -> StageKey:
    return StageKey(loop=int(row.get("loop") or 0), index=int(row.get("stage_index") or 0), name=str(row.get("stage")))


def _values(row: Row) -> dict[str, float]:
    return {key: number(row, key) for key, value in row.items() if isinstance(value, int | float)}


def _step(row: Row) -> Step:
    return Step(step=int(row["step"]), stage=_stage(row), values=_values(row))


def _validation(row: Row) -> Validation:
    problems = row.get("problems") or []
    length = number(row, "length")
    return Validation(
        step=int(row["step"]),
        stage=_stage(row),
        accuracy=number(row, "accuracy"),
        accuracy_interval=(number(row, "accuracy_low"), number(row, "accuracy_high")),
        length=length,
        length_interval=_mean_interval(length, [p["lengths"] for p in problems if p.get("lengths")]),
        num_problems=len(problems),
        values=_values(row),
    )


def _mean_interval(mean: float, lengths: Sequence[Sequence[int]]) -> Interval:
    """Mean length plus or minus 1.96 standard errors, problems as clusters."""
    if len(lengths) < 2:
        return NO_INTERVAL
    means = np.array([np.mean(one) for one in lengths])
    error = 1.96 * float(means.std(ddof=1)) / math.sqrt(len(means))
    return mean - error, mean + error


def _decision(row: Row) -> Decision:
    stopped = int(row["stopped_at"])
    chosen = row.get("chosen_step")
    evidence = row.get("evidence")
    return Decision(
        stage=_stage(row),
        started_at=int(row.get("started_at") or 0),
        stopped_at=stopped,
        chosen_step=stopped if chosen is None else int(chosen),
        reason=str(row.get("reason") or ""),
        evidence=evidence if isinstance(evidence, dict) else {},
    )


def _evaluation(path: Path, config: Row, notes: list[str]) -> tuple[EvalProblem, ...]:
    tags = _thinking_tags(config)
    problems = []
    for offset, row in _rows_with_offset(path, notes, "id"):
        texts = [str(text) for text in row.get("texts") or ()]
        problems.append(
            EvalProblem(
                id=str(row["id"]),
                domain=str(row.get("domain") or "default"),
                tier=str(row.get("tier") or ""),
                question=str(row.get("question") or ""),
                answer=str(row.get("answer") or ""),
                shortest_length=number(row, "shortest_length"),
                outcomes=tuple(str(outcome) for outcome in row.get("outcomes") or ()),
                lengths=tuple(int(length) for length in row.get("lengths") or ()),
                truncated=tuple(reason == "length" for reason in row.get("finish_reasons") or ()),
                thinking_chars=sum(len(split_thinking(text, tags)[0]) for text in texts),
                chars=sum(len(text) for text in texts),
                offset=offset,
            )
        )
    return tuple(problems)


def _interval(value: Any) -> Interval:
    if isinstance(value, list | tuple) and len(value) == 2:
        pair = {"low": value[0], "high": value[1]}
        return number(pair, "low"), number(pair, "high")
    return NO_INTERVAL


def _comparison(name: str, row: Row, trained: bool | None = None) -> Comparison:
    base, final = row.get("base") or {}, row.get("final") or {}
    is_trained = bool(row.get("trained", trained))
    return Comparison(
        name=str(name),
        trained=is_trained,
        base_accuracy=number(base, "accuracy"),
        final_accuracy=number(final, "accuracy"),
        delta_accuracy=number(row, "delta_accuracy"),
        delta_interval=_interval(row.get("delta_accuracy_ci")),
        base_length=number(base, "length"),
        final_length=number(final, "length"),
        relative_length=number(row, "relative_length"),
        relative_interval=_interval(row.get("relative_length_ci")),
        shortest_length=number(row, "shortest_length"),
        excess_removed=number(row, "excess_removed"),
        tiers=tuple(_comparison(tier, one, is_trained) for tier, one in (row.get("tiers") or {}).items()),
    )
