"""Read a run folder into frozen records: the only place where the report touches files.

Files of a live run may end in a torn line; such lines are left out and named in `Run.notes`, which the page shows.
Texts of evaluated responses can be large, so they stay on disk until `response_texts` asks for one problem's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparing.errors import RunError
from sparing.report.records import (
    NO_INTERVAL,
    Comparison,
    Decision,
    EvalProblem,
    Interval,
    Row,
    Run,
    StageKey,
    Step,
    Validation,
    count_hedges,
    number,
    split_thinking,
    thinking_tags,
)


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
    tags = thinking_tags(config)
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
                hedges=sum(map(count_hedges, texts)),
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
    tiers = [_comparison(tier, one, is_trained) for tier, one in (row.get("tiers") or {}).items()]
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
        tiers=tuple(sorted(tiers, key=lambda tier: tier.base_length)),
    )
