from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from sparing.errors import DataError, ModelError, RunError
from sparing.progress import SilentProgress
from sparing.settings import RunConfig, ThinkingSettings, VerifierSettings
from sparing.train.opening import check_answers, fingerprints, locked
from sparing.train.run_folder import RunFolder
from sparing.types import Problem, Turn
from sparing.verify.grader import Grader


@pytest.fixture
def copied_run(finished_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


def config_of(base_model: Path, run: Path, **changes: Any) -> RunConfig:
    return tiny.tiny_config(base_model, run, **changes)


def test_a_folder_in_use_is_refused(base_model: Path, copied_run: Path) -> None:
    with locked(RunFolder(copied_run)), pytest.raises(RunError, match="in use by another training process"):
        tiny.run_tiny(config_of(base_model, copied_run), resume=True)


def test_a_folder_with_anything_in_it_is_not_started_in(base_model: Path, copied_run: Path) -> None:
    with pytest.raises(
        RunError, match=r"is not empty \(checkpoints, config.json.*resume the run in it, or set another"
    ):
        tiny.run_tiny(config_of(base_model, copied_run))


def test_a_run_without_any_result_is_replaced(base_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        tiny.run_tiny(config_of(tmp_path / "typo", tmp_path / "run"))
    with pytest.raises(ModelError, match=r"set rollout\.max_tokens"):
        tiny.run_tiny(config_of(base_model, tmp_path / "run", rollout={"num_rollouts": 2, "max_tokens": 10**6}))
    (tmp_path / "run/preflight.json").write_text("{}")
    (tmp_path / "run/report.html").write_text("old")
    stages = {"stages": [{"type": "accuracy", "steps": 1}]}
    tiny.run_tiny(config_of(base_model, tmp_path / "run", curriculum=stages))
    assert (tmp_path / "run/summary.json").exists()
    assert "warnings" in (tmp_path / "run/preflight.json").read_text()
    assert not (tmp_path / "run/report.html").exists()


def test_a_lone_file_of_the_same_name_is_left_alone(base_model: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("mine")
    with pytest.raises(RunError, match=r"is not empty \(config.json\)"):
        tiny.run_tiny(config_of(base_model, tmp_path))
    assert (tmp_path / "config.json").read_text() == "mine"


def test_an_output_that_cannot_be_a_folder(base_model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file/run"):
        with pytest.raises(RunError, match=r"file.* cannot be made a folder .*; set another output"):
            tiny.run_tiny(config_of(base_model, output))


def test_nothing_to_resume(base_model: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist, so there is nothing to resume"):
        tiny.run_tiny(config_of(base_model, tmp_path / "typo"), resume=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/todo.txt").write_text("")
    with pytest.raises(RunError, match=r"has no config\.json, so it is not a run folder"):
        tiny.run_tiny(config_of(base_model, tmp_path / "notes"), resume=True)


def test_other_settings_are_named_key_by_key(base_model: Path, copied_run: Path) -> None:
    config = config_of(base_model, copied_run, mixture={"batch_size": 5, "rho": 0.4}, seed=4)
    with pytest.raises(RunError, match=r"mixture\.batch_size was 6 and is 5; seed was 3 and is 4\. Resume with"):
        tiny.run_tiny(config, resume=True)


def test_other_problems_are_named(base_model: Path, copied_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = {split: tiny.make_problems(split) for split in ("train", "validation", "test")}
    problems["train"] = problems["train"][:-1]
    monkeypatch.setattr(tiny, "make_problems", problems.__getitem__)
    with pytest.raises(RunError, match=r"other problems: train\.num_problems was 12 and is 11; train\.sha256"):
        tiny.run_tiny(config_of(base_model, copied_run), resume=True)


def test_the_fingerprint_depends_on_order_and_answers() -> None:
    problems = tiny.make_problems("train")
    assert fingerprints({"a": problems}) != fingerprints({"a": problems[::-1]})
    assert fingerprints({"a": problems}) == fingerprints({"a": list(problems)})


def test_a_finished_run_is_left_alone(base_model: Path, copied_run: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in copied_run.rglob("*.json*")}
    config = config_of(base_model, copied_run)
    config = config.model_copy(update={"model": config.model.model_copy(update={"threads": 2})})
    assert tiny.run_tiny(config, resume=True) == copied_run
    assert {path: path.stat().st_mtime_ns for path in copied_run.rglob("*.json*")} == before


def test_another_number_of_threads_is_allowed_with_a_warning(base_model: Path, copied_run: Path) -> None:
    class Told(SilentProgress):
        def message(self, text: str) -> None:
            messages.append(text)

    messages: list[str] = []
    for name in ("summary.json", "evals/final.jsonl"):
        (copied_run / name).unlink()
    config = config_of(base_model, copied_run)
    config = config.model_copy(update={"model": config.model.model_copy(update={"threads": 2})})
    before = torch.get_num_threads()
    try:
        tiny.run_tiny(config, resume=True, progress=Told())
    finally:
        torch.set_num_threads(before)
    assert messages == [
        "warning: the run had 1 CPU threads and has 2 now; figures will differ in their last digits. "
        "Set model.threads = 1 for the same ones."
    ]
    assert (copied_run / "summary.json").exists()


def test_a_gold_answer_that_its_verifier_cannot_read_is_named() -> None:
    def problem(name: str, answer: str, kind: str) -> Problem:
        return Problem(id=name, turns=(Turn(role="user", content=name),), answer=answer, kind=kind)

    good = [problem("a", "12", "number"), problem("b", "two words", "exact"), problem("c", r"\frac{1}{2}", "math")]
    with Grader(ThinkingSettings(), VerifierSettings()) as grader:
        check_answers({"train": good}, grader)
        with pytest.raises(
            DataError, match=r'validation problem "d": the gold answer .*1 apple or 2.* is not one number'
        ):
            check_answers({"train": good, "validation": [problem("d", "1 apple or 2", "number")]}, grader)
