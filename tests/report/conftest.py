"""A small deterministic run folder in the shape that training writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparing.settings import RunConfig

DOMAINS = ("arithmetic", "code", "list", "logic", "lookup", "ordering")
Stage = tuple[int, int, str, int, int, int]  # loop, stage_index, name, first step, stopped at, kept


def _write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _stages(loops: int, scale: int) -> list[Stage]:
    stages: list[Stage] = [(0, 0, "accuracy", 0, 10 * scale, 10 * scale)]
    for loop in range(loops):
        start = stages[-1][4]
        stages.append((loop, 1 + 2 * loop, "compression", start, start + 50 * scale, start + 40 * scale))
        start = stages[-1][4]
        stages.append((loop, 2 + 2 * loop, "accuracy", start, start + 20 * scale, start + 20 * scale))
    return stages


def _curve(step: int, stages: Sequence[Stage]) -> tuple[float, float]:
    """(accuracy, length) of the policy at a step: length falls in compression, accuracy falls past the kept step."""
    accuracy, length = 0.86, 180.0
    for _, _, name, first, stopped, kept in stages:
        done = min(step, stopped)
        if done <= first:
            break
        part = (done - first) / (stopped - first)
        if name == "accuracy":
            accuracy, length = accuracy + 0.06 * part * (1 - accuracy) / 0.14, length * (1 + 0.04 * part)
        elif step <= stopped and step > kept:
            return accuracy - 0.2 * (step - kept) / (stopped - kept), length * np.exp(-1.4 * part)
        else:
            length *= np.exp(-1.4 * min(part, (kept - first) / (stopped - first)))
    return accuracy, length


def _metrics(step: int, stage: Stage, stages: Sequence[Stage], rng: np.random.Generator) -> dict[str, Any]:
    accuracy, length = _curve(step, stages)
    compressing = stage[2] == "compression"
    mastered = float(np.clip(accuracy - 0.35 + 0.05 * rng.normal(), 0, 1))
    return {
        "step": step, "loop": stage[0], "stage_index": stage[1], "stage": stage[2],
        "accuracy": float(np.clip(accuracy + 0.03 * rng.normal(), 0, 1)),
        "mastered_share": mastered, "unsolved_share": 0.04, "length": float(length * (1.1 + 0.04 * rng.normal())),
        "length_mastered": float(length * 0.8), "length_max": 512, "truncated_share": 0.01, "unknown_share": 0.0,
        "penalty_fired_share": 0.38 if compressing else 0.0, "penalty_mean": -0.1 if compressing else 0.0,
        "rho": 0.4 if compressing else None, "shortage": "", "groups_generated": 24, "groups_used": 16,
        "reward": accuracy, "loss": 0.01, "grad_norm": float(np.exp(-1 + 0.4 * rng.normal())),
        "entropy": float(0.3 + 0.1 * np.exp(-step / 40) + 0.01 * rng.normal()),
        "clip_share": 0.001, "kl": 0.0002, "learning_rate": 1e-4, "tokens": 16000,
    }  # fmt: skip


def _validation(step: int, stage: Stage, stages: Sequence[Stage], rng: np.random.Generator) -> dict[str, Any]:
    accuracy, length = _curve(step, stages)
    problems = [
        {
            "id": f"validation-{i}", "domain": "arithmetic", "tier": "easy" if i % 2 else "hard",
            "outcomes": ["correct" if r < accuracy else "incorrect" for r in rng.random(4)],
            "lengths": [int(max(4, length * s)) for s in rng.lognormal(0, 0.3, 4) * (0.6 if i % 2 else 1.4)],
        }
        for i in range(32)
    ]  # fmt: skip
    share = np.mean([outcome == "correct" for p in problems for outcome in p["outcomes"]])
    lengths = [value for p in problems for value in p["lengths"]]
    return {
        "step": step, "loop": stage[0], "stage_index": stage[1], "stage": stage[2], "accuracy": float(share),
        "length": float(np.mean(lengths)), "length_min": min(lengths), "length_max": max(lengths),
        "truncated_share": 0.0, "instant_share": 0.0, "k": 4, "accuracy_low": float(share - 0.06),
        "accuracy_high": float(min(share + 0.06, 1)), "problems": problems,
    }  # fmt: skip


def _response(length: int, correct: bool, answer: str) -> str:
    words = ["3", "+", "4", "=", "7", ".", "wait", ",", "let", "me", "check", "again", ":"] * (length // 13 + 1)
    return " ".join(words[: max(length - 3, 0)]) + f" </think> {answer if correct else '0'}"


def _evaluation(which: str, domains: Sequence[str], rng: np.random.Generator) -> list[dict[str, Any]]:
    rows = []
    for d, domain in enumerate(domains):
        for i in range(24):
            hard = i % 2
            mean = (60 + 12 * d) * (3 if hard else 1)
            shrink = 1.0 if which == "base" else (0.29 if d == 0 else 0.35 + 0.06 * (d % 6)) * (1.25 if hard else 1)
            lengths = [int(np.clip(mean * shrink * s, 5, 512)) for s in rng.lognormal(0, 0.35, 4)]
            good = [bool(r < (0.65 if hard else 0.93)) for r in rng.random(4)]
            rows.append(
                {
                    "id": f"{domain}-{i}", "domain": domain, "tier": "hard" if hard else "easy",
                    "question": f"compute problem {i} of {domain}", "answer": str(7 + i), "shortest_length": mean // 4,
                    "outcomes": ["correct" if g else "incorrect" for g in good], "lengths": lengths,
                    "finish_reasons": ["length" if length >= 512 else "stop" for length in lengths],
                    "texts": [_response(n, g, str(7 + i)) for n, g in zip(lengths, good, strict=True)],
                }
            )  # fmt: skip
    return rows


def _compare(base: Sequence[dict[str, Any]], final: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def both(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
        return {
            "accuracy": float(np.mean([o == "correct" for r in rows for o in r["outcomes"]])),
            "length": float(np.mean([n for r in rows for n in r["lengths"]])),
        }

    before, after = both(base), both(final)
    shortest = float(np.mean([row["shortest_length"] for row in base]))
    delta, relative = after["accuracy"] - before["accuracy"], after["length"] / before["length"]
    return {
        "base": before, "final": after, "delta_accuracy": delta, "delta_accuracy_ci": [delta - 0.05, delta + 0.05],
        "relative_length": relative, "relative_length_ci": [relative * 0.94, relative * 1.06],
        "shortest_length": shortest, "excess_removed": (before["length"] - after["length"]) / (before["length"] - shortest),
    }  # fmt: skip


def _summary(base: Sequence[dict[str, Any]], final: Sequence[dict[str, Any]]) -> dict[str, Any]:
    domains = {}
    for name in dict.fromkeys(row["domain"] for row in base):
        before, after = ([row for row in rows if row["domain"] == name] for rows in (base, final))
        tiers = {
            tier: _compare([r for r in before if r["tier"] == tier], [r for r in after if r["tier"] == tier])
            for tier in ("easy", "hard")
        }
        domains[name] = {"trained": name == "arithmetic", **_compare(before, after), "tiers": tiers}
    return {"domains": domains, "stages": [], "seconds": 1530.0, "peak_memory_bytes": 1_200_000_000, "seed": 7}


def _evidence(points: Sequence[dict[str, Any]], stage: Stage) -> dict[str, Any]:
    own = [point for point in points if stage[3] <= point["step"] <= stage[4] and "weights_step" not in point]
    accuracy = [point["accuracy"] for point in own]
    decline = [max(0.0, 20 * (accuracy[0] - value)) for value in accuracy]
    return {
        "accuracy": accuracy, "length": [point["length"] for point in own], "decline": decline, "bar": 1.75,
        "reference_steps": [float(stage[3]), float(stage[3] + 5)], "reference_accuracy": accuracy[0],
        "reference_length": own[0]["length"],
    }  # fmt: skip


def _config(stages: Sequence[Stage]) -> dict[str, Any]:
    source = {"type": "lab", "domain": "arithmetic", "tier": "easy", "split": "train", "num_problems": 512}
    return RunConfig.model_validate(
        {
            "seed": 7,
            "data": {"train": [source], "test": [{**source, "split": "test", "num_problems": 24}]},
            "mixture": {"rho": 0.4, "batch_size": 16},
            "validation": {"k": 4},
            "curriculum": {"loops": max(s[0] for s in stages) + 1},
        }
    ).model_dump(mode="json")


MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """make_run(name, loops=1, scale=1, domains=DOMAINS, tests=True, until=None) writes a folder and returns it."""

    def make(
        name: str = "run",
        *,
        loops: int = 1,
        scale: int = 1,
        domains: Sequence[str] = DOMAINS,
        tests: bool = True,
        until: int | None = None,
    ) -> Path:
        return write_run(tmp_path / name, loops=loops, scale=scale, domains=domains, tests=tests, until=until)

    return make


def write_run(
    folder: Path,
    *,
    loops: int = 1,
    scale: int = 1,
    domains: Sequence[str] = DOMAINS,
    tests: bool = True,
    until: int | None = None,
) -> Path:
    """Write a run folder; `until` leaves it as it was when that step was done."""
    rng = np.random.default_rng(7)
    stages = _stages(loops, scale)
    end = stages[-1][4] if until is None else until
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(_config(stages)), encoding="utf-8")
    metrics, points, decisions = [], [_validation(0, stages[0], stages, rng)], []
    for stage in stages:
        for step in range(stage[3] + 1, min(stage[4], end) + 1):
            metrics.append(_metrics(step, stage, stages, rng))
            if step % (5 * scale) == 0:
                points.append(_validation(step, stage, stages, rng))
        if stage[5] < stage[4] <= end:
            # Training repeats the kept checkpoint's validation as the starting point of the next stage.
            kept = next(point for point in points if point["step"] == stage[5])
            following = stages[stage[1] + 1]
            place = {"loop": following[0], "stage_index": following[1], "stage": following[2]}
            points.append({**kept, "step": stage[4], "weights_step": stage[5], **place})
        if stage[4] <= end:
            back = stage[5] < stage[4]
            decisions.append(
                {
                    "loop": stage[0], "stage_index": stage[1], "stage": stage[2], "started_at": stage[3],
                    "stopped_at": stage[4], "chosen_step": stage[5],
                    "reason": "accuracy declined in 2 validations in a row while length fell" if back else "all steps done",
                    "evidence": _evidence(points, stage) if back else {},
                }
            )  # fmt: skip
    _write_jsonl(folder / "metrics.jsonl", metrics)
    _write_jsonl(folder / "validation.jsonl", points)
    _write_jsonl(folder / "decisions.jsonl", decisions)
    if tests:
        base = _evaluation("base", domains, rng)
        _write_jsonl(folder / "evals" / "base.jsonl", base)
        if until is None:
            final = _evaluation("final", domains, rng)
            _write_jsonl(folder / "evals" / "final.jsonl", final)
            (folder / "summary.json").write_text(json.dumps(_summary(base, final)), encoding="utf-8")
    elif until is None:
        summary = {"domains": {}, "stages": [], "seconds": 20.0, "peak_memory_bytes": 5e8, "seed": 7}
        (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return folder
