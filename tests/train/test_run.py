from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny
from transformers import AutoModelForCausalLM, AutoTokenizer

from sparing.errors import DataError, ModelError, RecipeError
from sparing.progress import SilentProgress
from sparing.train.run import preflight_run, train_run
from sparing.types import Problem, Turn


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_step_has_a_row(finished_run: Path) -> None:
    metrics = rows(finished_run / "metrics.jsonl")
    assert [(row["step"], row["stage_index"], row["stage"]) for row in metrics] == [
        (1, 0, "accuracy"),
        (2, 0, "accuracy"),
        (3, 1, "compression"),
        (4, 1, "compression"),
        (5, 1, "compression"),
        (6, 2, "accuracy"),
        (7, 2, "accuracy"),
    ]
    for row in metrics:
        assert row["groups_used"] == 6
        assert row["tokens"] == pytest.approx(row["length"] * 24)
        if row["stage"] == "accuracy":
            assert (row["rho"], row["penalty_fired_share"], row["penalty_mean"]) == (0, 0, 0)
            assert row["reward"] == row["accuracy"]
    assert any(row["penalty_fired_share"] > 0 for row in metrics)
    assert [row["step"] for row in rows(finished_run / "timings.jsonl")] == [1, 2, 3, 4, 5, 6, 7]


def test_validation_is_at_the_start_every_two_steps_and_at_the_end_of_each_stage(finished_run: Path) -> None:
    validation = rows(finished_run / "validation.jsonl")
    assert [row["step"] for row in validation] == [0, 2, 4, 5, 7]
    for row in validation:
        assert len(row["problems"]) == 4
        answers = [outcome == "correct" for problem in row["problems"] for outcome in problem["outcomes"]]
        assert len(answers) == 16
        assert row["accuracy"] == pytest.approx(sum(answers) / 16)
        assert row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"]
        lengths = [length for problem in row["problems"] for length in problem["lengths"]]
        assert (row["length_min"], row["length_max"]) == (min(lengths), max(lengths))
        assert row["length"] == pytest.approx(sum(lengths) / 16)


def test_kept_rollouts_show_their_rewards(finished_run: Path) -> None:
    assert sorted(path.name for path in (finished_run / "rollouts").iterdir()) == [
        "step-000003.jsonl",
        "step-000006.jsonl",
    ]
    compression = rows(finished_run / "rollouts/step-000003.jsonl")
    assert len(compression) == 8
    assert [row["compress"] for row in compression] == [True] * 4 + [False] * 4
    for row in compression:
        assert row["reward"] == pytest.approx((row["outcome"] == "correct") + row["penalty"])
        assert "</think>" in row["text"]


def test_summary_compares_base_and_final_on_the_test_problems(finished_run: Path) -> None:
    summary = json.loads((finished_run / "summary.json").read_text())
    base, final = (rows(finished_run / f"evals/{name}.jsonl") for name in ("base", "final"))
    domain = summary["domains"]["tiny"]
    assert domain["trained"] is True
    for name, answers in (("base", base), ("final", final)):
        lengths = [length for row in answers for length in row["lengths"]]
        correct = [outcome == "correct" for row in answers for outcome in row["outcomes"]]
        assert domain[name]["length"] == pytest.approx(sum(lengths) / 16)
        assert domain[name]["accuracy"] == pytest.approx(sum(correct) / 16)
    before, after = domain["base"]["length"], domain["final"]["length"]
    assert domain["relative_length"] == pytest.approx(after / before)
    assert domain["excess_removed"] == pytest.approx((before - after) / (before - 3))
    assert domain["relative_length_ci"][0] <= domain["relative_length"] <= domain["relative_length_ci"][1]
    assert set(domain["tiers"]) == {"easy", "hard"}
    assert summary["seed"] == 3
    assert summary["seconds"] > 0
    assert 50e6 < summary["peak_memory_bytes"] < 5e9


def test_the_final_model_is_a_plain_folder_that_gives_the_last_validation_again(finished_run: Path) -> None:
    AutoModelForCausalLM.from_pretrained(finished_run / "final")
    AutoTokenizer.from_pretrained(finished_run / "final")
    fresh = subprocess.run(
        [sys.executable, "-m", "sparing.train.revalidate", str(finished_run)],
        cwd=Path(tiny.__file__).parents[2],
        env={"OMP_NUM_THREADS": "1", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert fresh.stdout.endswith("same\n"), fresh.stderr
    assert fresh.returncode == 0


def test_preflight_measures_and_warns_of_nothing_here(finished_run: Path) -> None:
    report = json.loads((finished_run / "preflight.json").read_text())
    assert (report["problems"], report["rollouts"]) == (12, 48)
    assert report["closed_thinking_share"] == 1
    assert report["longest_prompt"] == 5
    assert report["tokens_per_step"] == pytest.approx(24 * report["mean_length"])
    parts = report["memory_bytes"]
    # 22 words and 2 layers of width 32; two moments a weight.
    num_weights = 22 * 32 + 2 * (32 * 64 * 2 + 2 * 32 * 16 + 3 * 32 * 64 - 32 * 32 + 0) + 0
    assert parts["optimizer"] == 2 * parts["weights"] == 2 * parts["gradients"]
    assert parts["weights"] == pytest.approx(4 * num_weights, rel=0.2)
    # 24 rollouts of a batch are the most rows at once; 25 tokens, keys and values, 2 layers, width 16, 4 bytes.
    assert parts["cache"] == 24 * 25 * 2 * 2 * 16 * 4
    assert report["warnings"] == []


class Told(SilentProgress):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def test_preflight_alone_leaves_no_file(base_model: Path, tmp_path: Path) -> None:
    told = Told()
    config = tiny.tiny_config(
        base_model, tmp_path / "run", rollout={"num_rollouts": 2, "max_tokens": 3}, thinking={"close": "</thought>"}
    )
    problems = [tiny.make_problems(split) for split in ("train", "validation", "test")]
    problems[2].append(problems[0][0])
    report = preflight_run(config, *problems, progress=told)
    assert not (tmp_path / "run").exists()
    assert report["accuracy"] == 0
    text = "\n".join(told.messages)
    assert "no response holds '</thought>'" in text
    assert "thinking.enabled = false" in text
    assert "of rollouts are cut at rollout.max_tokens = 3" in text
    assert "0% of problems are mastered and mixture.rho asks for 40%" in text
    assert "100% of problems were never solved" in text
    assert "1 questions stand in train and in test" in text


def test_a_context_too_small_is_found_before_training(base_model: Path, tmp_path: Path) -> None:
    config = tiny.tiny_config(base_model, tmp_path / "run", rollout={"num_rollouts": 4, "max_tokens": 120})
    problems = [tiny.make_problems(split) for split in ("train", "validation", "test")]
    long = Problem(id="long", turns=(Turn(role="user", content="easy " * 30),), answer="yes", kind="exact")
    with pytest.raises(ModelError, match=r'"long" has 33 tokens and rollout.max_tokens is 120.* to at most 95'):
        preflight_run(config, [*problems[0], long], *problems[1:], progress=SilentProgress())


def test_settings_that_cannot_work_are_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    problems = tiny.make_problems("train")
    config = tiny.tiny_config(tmp_path / "no model", tmp_path / "run", mixture={"batch_size": 13})
    with pytest.raises(DataError, match="a batch needs 13 different problems and the training data has 12"):
        train_run(config, problems, problems, [], resume=False, progress=SilentProgress())
    config = tiny.tiny_config(tmp_path / "no model", tmp_path / "run")
    with pytest.raises(DataError, match="validation has 1 problems"):
        train_run(config, problems, problems[:1], [], resume=False, progress=SilentProgress())
    config = tiny.tiny_config(tmp_path / "no model", tmp_path / "run", objective={"updates_per_batch": 7})
    with pytest.raises(RecipeError, match=r"updates_per_batch is 7 and a batch has 6 problems"):
        train_run(config, problems, problems, [], resume=False, progress=SilentProgress())
    assert not (tmp_path / "run").exists()
