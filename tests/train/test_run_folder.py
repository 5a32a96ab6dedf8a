from __future__ import annotations

from pathlib import Path

import pytest

from sparing.errors import RunError
from sparing.train.run_folder import RunFolder


def test_cutting_back_removes_later_rows_torn_lines_rollouts_and_temporaries(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append("metrics", {"step": 1, "text": "é"})
    folder.append("validation", {"step": 0})
    sizes = folder.sizes()
    folder.append("metrics", {"step": 2})
    folder.append("decisions", {"stage": 0})
    with folder.row_file("metrics").open("a") as stream:
        stream.write('{"step": 3, "accu')
    for step in (1, 2):
        folder.write_rows(f"rollouts/step-{step:06d}.jsonl", [{"step": step}])
    (folder.checkpoints / ".tmp-step-000002").mkdir(parents=True)
    (folder.checkpoints / ".tmp-step-000002/model.safetensors").write_text("half")
    (tmp_path / ".tmp-summary.json").write_text("half")
    folder.cut_back(sizes, step=1)
    assert folder.rows("metrics") == [{"step": 1, "text": "é"}]
    assert folder.rows("validation") == [{"step": 0}]
    assert folder.rows("decisions") == []
    assert [path.name for path in (tmp_path / "rollouts").iterdir()] == ["step-000001.jsonl"]
    assert not list(tmp_path.rglob(".tmp-*"))


def test_a_row_file_shorter_than_its_checkpoint_says_is_an_error(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append("metrics", {"step": 1})
    sizes = folder.sizes()
    folder.row_file("metrics").write_text("")
    with pytest.raises(RunError, match=r"metrics\.jsonl has 0 bytes but the checkpoint of step 5 was made with 12"):
        folder.cut_back(sizes, step=5)


def test_rows_are_strict_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        RunFolder(tmp_path).append("metrics", {"loss": float("nan")})


def test_unreadable_json_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(RunError, match=r"config\.json does not exist"):
        folder.read_json("config.json")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunError, match=r"config\.json is not JSON"):
        folder.read_json("config.json")


def test_line_separators_inside_texts_end_no_row(tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\u0085d"
    folder = RunFolder(tmp_path)
    folder.write_rows("evals/base.jsonl", [{"texts": [text]}, {"texts": []}])
    assert folder.read_rows("evals/base.jsonl") == [{"texts": [text]}, {"texts": []}]
    folder.append("decisions", {"reason": text})
    assert folder.rows("decisions") == [{"reason": text}]
