"""Supervised fine-tuning: what is learnt, in which batches, and what bad rows get."""

import itertools
import json
from types import SimpleNamespace

import pytest
import tiny
import torch

from sparing.errors import DataError
from sparing.lab.build import SFT, build, examples, new_model
from sparing.lab.tokenizer import make_tokenizer
from sparing.rollout.decode import LocalCompleter
from sparing.rollout.model import load_model, save_model
from sparing.settings import ModelSettings, SftSettings
from sparing.train.sft import (
    Example,
    batches,
    collate,
    end_token,
    epochs,
    fine_tune,
    read_examples,
    run_sft,
    schedule,
)

# The end token of the lab's tokenizer, and room enough.
LIMITS = {"end_id": make_tokenizer().eos_token_id, "vocab_size": 10_000, "context_length": 128, "max_length": 64}


def write(path, *rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_rows_become_prompt_and_response_with_end_token(tmp_path):
    tokenizer = make_tokenizer()
    path = write(tmp_path / "a.jsonl", {"prompt": "start at 3 (1) + 4 result ?", "response": "7"})
    (example,) = read_examples(path, tokenizer, **LIMITS)
    assert tokenizer.decode(example.prompt_ids) == "<user> start at 3 (1) + 4 result ? <assistant>"
    assert example.response_ids == [tokenizer.convert_tokens_to_ids("7"), tokenizer.eos_token_id]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"prompt": "a"', r"a.jsonl:2: broken JSON"),
        ({"prompt": "a"}, r'a.jsonl:2: no "response"'),
        ({"response": "a"}, r'a.jsonl:2: no "prompt" or "messages"'),
        ({"prompt": "a", "response": " "}, r"a.jsonl:2: .* is empty"),
        ({"prompt": "a", "response": "b " * 99}, r"a.jsonl:2: 103 tokens, the limit is 32"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, row, said):
    path = write(tmp_path / "a.jsonl", {"prompt": "a", "response": "b"}, row)
    with pytest.raises(DataError, match=said):
        read_examples(path, make_tokenizer(), **LIMITS | {"max_length": 32})


def test_a_row_longer_than_the_context_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", {"prompt": "a", "response": "b " * 99})
    with pytest.raises(DataError, match=r"a.jsonl:1: 103 tokens, the model's context is 64; shorten the row"):
        read_examples(path, make_tokenizer(), **LIMITS | {"context_length": 64, "max_length": 4096})


def test_a_token_that_the_model_does_not_know_is_refused(tmp_path):
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["<image>"], special_tokens=True)
    last = len(tokenizer) - 1
    path = write(tmp_path / "a.jsonl", {"prompt": "a", "response": "b"}, {"prompt": "a", "response": "<image>"})
    with pytest.raises(DataError, match=rf"a.jsonl:2: holds token id {last}; the model knows ids 0 to {last - 1}"):
        read_examples(path, tokenizer, **LIMITS | {"vocab_size": last})
    assert len(read_examples(path, tokenizer, **LIMITS | {"vocab_size": last + 1})) == 2


@pytest.mark.parametrize(
    ("own", "eos_ids", "closing"),
    [
        (1, (1, 7), 1),
        (7, (1, 7), 7),  # The tokenizer's, though the generation settings name another first.
        (None, (5, 7), 5),
        (99, (5, 7), 5),  # The model has no such token.
    ],
)
def test_a_response_closes_with_a_token_that_ends_responses(own, eos_ids, closing):
    assert end_token(SimpleNamespace(tokenizer=SimpleNamespace(eos_token_id=own), eos_ids=eos_ids)) == closing


@pytest.mark.filterwarnings("error")
def test_a_tokenizer_without_end_token_serves_where_the_generation_settings_name_one(tmp_path):
    torch.set_num_threads(1)
    tokenizer = tiny.make_tokenizer()
    tokenizer.eos_token = tokenizer.pad_token = None
    model = tiny.make_model()
    model.generation_config.eos_token_id = 1
    save_model(model, tokenizer, tmp_path / "base")
    rows = write(tmp_path / "a.jsonl", {"prompt": "easy 3", "response": "</think> yes"})
    settings = SftSettings(steps=30, learning_rate=1e-2, warmup_steps=1, batch_tokens=64)
    run_sft(str(tmp_path / "base"), rows, tmp_path / "out", settings)
    loaded = load_model(ModelSettings(path=str(tmp_path / "out"), device="cpu", threads=1))
    prompt = tokenizer("user easy 3 assistant <think>").input_ids
    (completion,) = LocalCompleter(loaded).generate([prompt], temperature=0.01, top_p=1.0, max_tokens=8, seed=0)
    assert tokenizer.decode(completion.response_ids_T) == "</think> yes <end>"
    assert completion.finish_reason == "stop"


def test_only_response_tokens_are_learnt():
    batch = [Example(prompt_ids=[5, 6], response_ids=[7, 1]), Example(prompt_ids=[5], response_ids=[8, 9, 1])]
    arrays = collate(batch, pad_id=0, device=torch.device("cpu"))
    assert arrays["input_ids"][:, :5].tolist() == [[5, 6, 7, 1, 0], [5, 8, 9, 1, 0]]
    assert arrays["labels"][:, :5].tolist() == [[-100, -100, 7, 1, -100], [-100, 8, 9, 1, -100]]
    assert arrays["attention_mask"].sum(dim=1).tolist() == [4, 4]


def test_batches_keep_to_their_tokens_and_lose_no_example():
    made = [Example(prompt_ids=[2] * (1 + i % 40), response_ids=[3, i]) for i in range(1000)]
    taken = list(itertools.islice(batches(epochs(made, seed=0), batch_tokens=256, seed=0), 40))
    for batch in taken:
        width = collate(batch, pad_id=0, device=torch.device("cpu"))["input_ids"].shape[1]
        assert len(batch) * width <= 256 or len(batch) == 1
    first_epoch = list(itertools.islice(epochs(made, seed=0), 1000))
    assert sorted(example.response_ids[1] for example in first_epoch) == list(range(1000))


def test_schedule_warms_up_and_anneals():
    settings = SftSettings(steps=100, warmup_steps=10)
    assert schedule(0, settings) == pytest.approx(0.1)
    assert schedule(9, settings) == pytest.approx(1.0)
    assert schedule(55, settings) == pytest.approx(0.01 + 0.99 / 2)
    assert schedule(100, settings) == pytest.approx(0.01)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_fine_tuning_learns_what_the_rows_say(optimizer):
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model = new_model(tokenizer, seed=0)
    rows = [Example(prompt_ids=[3, 20 + i, 4], response_ids=[60 + i, 1]) for i in range(4)]
    settings = SftSettings(steps=40, optimizer=optimizer, learning_rate=3e-3, warmup_steps=2, batch_tokens=256)
    losses = []
    stream = epochs(rows, seed=0)
    fine_tune(model, stream, settings, pad_id=0, report=lambda row: losses.append(row["loss"]))
    assert losses[-1] < 0.1
    answers = model(input_ids=torch.tensor([row.prompt_ids for row in rows])).logits[:, -1].argmax(-1)
    assert answers.tolist() == [60, 61, 62, 63]


def test_the_lab_build_is_the_same_each_time(tmp_path):
    torch.set_num_threads(1)
    cycle = SFT.model_copy(update={"steps": 2, "batch_tokens": 512})
    one = build(tmp_path / "one", cycles=(cycle,), report=lambda row: None)
    two = build(tmp_path / "two", cycles=(cycle,), report=lambda row: None)
    assert (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()


def test_the_lab_rows_are_endless_and_in_vocabulary():
    tokenizer = make_tokenizer()
    taken = list(itertools.islice(examples(tokenizer, seed=0), 50))
    assert all(max([*row.prompt_ids, *row.response_ids]) < len(tokenizer) for row in taken)
