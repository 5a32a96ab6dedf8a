"""summary.json: the base model against the final one on the test problems, with paired intervals.

Shape legend: P problems, K responses of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sparing.method.statistics import avg_at_k, delta_accuracy_interval, mean_length, relative_length_interval
from sparing.seeding import derive_rng
from sparing.train.timing import peak_memory
from sparing.train.trainer import Trainer

Rows = Sequence[dict[str, Any]]


def summarise(trainer: Trainer, trained: set[str]) -> dict[str, Any]:
    """The run's summary: every domain of the test with its tiers, every stage, time and memory of all its processes.

    `relative_length` is final / base (0.4 is 60 % shorter); intervals are 95 %, from a paired nested bootstrap.
    """
    folder, seed = trainer.folder, trainer.config.seed
    has_test = (folder.path / "evals/base.jsonl").exists()
    base = folder.read_rows("evals/base.jsonl") if has_test else []
    final = folder.read_rows("evals/final.jsonl") if has_test else []
    domains: dict[str, Any] = {}
    for domain in dict.fromkeys(row["domain"] for row in base):
        chosen = [index for index, row in enumerate(base) if row["domain"] == domain]
        pair = [[rows[index] for index in chosen] for rows in (base, final)]
        tiers = {
            tier: compare(
                *([row for row in rows if row["tier"] == tier] for rows in pair), seed=seed, name=f"{domain}/{tier}"
            )
            for tier in dict.fromkeys(row["tier"] for row in pair[0])
            if tier
        }
        domains[domain] = {
            "trained": domain in trained,
            **compare(pair[0], pair[1], seed=seed, name=domain),
            "tiers": tiers,
        }
    resident = [row["rss_bytes"] for row in folder.rows("timings")]
    return {
        "domains": domains,
        "stages": [{k: v for k, v in row.items() if k != "evidence"} for row in folder.rows("decisions")],
        "steps": trainer.position.step,
        "seconds": trainer.seconds,
        "peak_memory_bytes": max([peak_memory(), *resident]),
        "peak_gpu_memory_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
        "seed": seed,
    }


def compare(base: Rows, final: Rows, *, seed: int, name: str) -> dict[str, Any]:
    """Base against final on the same problems, in the same order.

    `excess_removed` is the share of base tokens beyond the shortest known good response that is gone, over the problems
    that have one; None where none has, or where the base was no longer than that.
    """
    delta = delta_accuracy_interval(_correct(base), _correct(final), rng=derive_rng(seed, "delta accuracy", name))
    relative = relative_length_interval(_lengths(base), _lengths(final), rng=derive_rng(seed, "relative length", name))
    shortest, excess_removed = _excess(base, final)
    return {
        "base": _figures(base),
        "final": _figures(final),
        "delta_accuracy": delta.value,
        "delta_accuracy_ci": [delta.low, delta.high],
        "relative_length": relative.value,
        "relative_length_ci": [relative.low, relative.high],
        "shortest_length": shortest,
        "excess_removed": excess_removed,
        "num_problems": len(base),
    }


def _excess(base: Rows, final: Rows) -> tuple[float | None, float | None]:
    """Mean shortest length of the problems that have one, and the share of their base excess over it that is gone."""
    known = [index for index, row in enumerate(base) if row["shortest_length"] is not None]
    if not known:
        return None, None
    shortest = float(np.mean([base[index]["shortest_length"] for index in known]))
    before, after = (mean_length(_lengths([rows[index] for index in known])) for rows in (base, final))
    return shortest, (before - after) / (before - shortest) if before > shortest else None


def _figures(rows: Rows) -> dict[str, Any]:
    """Accuracy in [0, 1], mean lengths in tokens (of all and of correct responses), share cut at the token limit."""
    correct_PK, lengths_PK = _correct(rows), _lengths(rows)
    return {
        "accuracy": avg_at_k(correct_PK),
        "length": mean_length(lengths_PK),
        "length_correct": float(lengths_PK[correct_PK].mean()) if correct_PK.any() else None,
        "length_min": int(lengths_PK.min()),
        "length_max": int(lengths_PK.max()),
        "truncated_share": float(np.mean([[reason == "length" for reason in row["finish_reasons"]] for row in rows])),
        "k": int(correct_PK.shape[1]),
    }


def _correct(rows: Rows) -> Any:
    return np.array([[outcome == "correct" for outcome in row["outcomes"]] for row in rows])


def _lengths(rows: Rows) -> Any:
    return np.array([row["lengths"] for row in rows])
