import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3Model,
    T5Config,
    T5ForConditionalGeneration,
)

from sparing.errors import ModelError
from sparing.rollout.decode import LocalCompleter
from sparing.rollout.model import load_model, save_model
from sparing.settings import ModelSettings

WORDS = ["<pad>", "<eos>", "<stop>", *(f"w{i}" for i in range(37))]
SIZES = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}


def tokenizer(**special):
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", **special)


def qwen3(**changes):
    torch.manual_seed(0)
    ends = {"eos_token_id": 2, "pad_token_id": 0, "bos_token_id": None}
    return Qwen3ForCausalLM(Qwen3Config(**{**SIZES, **HEADS, **ends, "max_position_embeddings": 77, **changes}))


@pytest.fixture
def folder(tmp_path):
    save_model(qwen3(), tokenizer(eos_token="<eos>"), tmp_path / "model")
    return tmp_path / "model"


def load(path, **changes):
    return load_model(ModelSettings(path=str(path), **{"device": "cpu", **changes}))


def test_what_is_loaded(folder):
    loaded = load(folder)
    assert loaded.eos_ids == (1, 2)  # <eos> of the tokenizer, <stop> of the generation settings
    assert loaded.context_length == 77
    assert not loaded.has_chat_template
    assert loaded.device == torch.device("cpu")
    assert loaded.model.config._attn_implementation == "sdpa"
    assert loaded.tokenizer("w0 w1").input_ids == [3, 4]


def test_several_end_tokens_and_a_chat_template(tmp_path):
    model, words = qwen3(), tokenizer()
    model.generation_config.eos_token_id = [2, 5, 400]
    words.chat_template = "{{ messages[0].content }}"
    save_model(model, words, tmp_path)
    loaded = load(tmp_path)
    assert loaded.eos_ids == (2, 5)  # The model cannot say 400.
    assert loaded.has_chat_template


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_weights_are_held_in_the_type_asked_for(tmp_path, stored):
    save_model(qwen3().to(stored), tokenizer(eos_token="<eos>"), tmp_path)
    assert {p.dtype for p in load(tmp_path).model.parameters()} == {torch.float32}
    assert {p.dtype for p in load(tmp_path, dtype="bfloat16").model.parameters()} == {torch.bfloat16}


def test_models_that_sdpa_cannot_compute_use_eager(tmp_path):
    torch.manual_seed(0)
    config = Gemma2Config(**SIZES, **HEADS, sliding_window=6, eos_token_id=2, pad_token_id=0, initializer_range=0.25)
    save_model(Gemma2ForCausalLM(config), tokenizer(eos_token="<eos>"), tmp_path)
    loaded = load(tmp_path)
    assert loaded.model.config._attn_implementation == "eager"
    prompt = list(range(3, 15))
    (completion,) = LocalCompleter(loaded).generate([prompt], temperature=1.0, top_p=1.0, max_tokens=20, seed=0)
    ids = torch.tensor([[*prompt, *completion.response_ids_T]])
    with torch.no_grad():
        logprobs = torch.log_softmax(loaded.model(input_ids=ids, use_cache=False).logits[0, 11:-1], -1)
    torch.testing.assert_close(
        torch.tensor(completion.logprobs_T), logprobs.gather(1, ids[0, 12:, None])[:, 0], atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("tied", [True, False])
def test_saving_keeps_every_bit_and_loads_plainly(tmp_path, tied):
    model = qwen3(tie_word_embeddings=tied)
    save_model(model, tokenizer(eos_token="<eos>"), tmp_path)
    assert ("lm_head.weight" in load_file(tmp_path / "model.safetensors")) is not tied
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    for (name, old), new in zip(model.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(old, new), name
    assert again.config.tie_word_embeddings is tied
    assert again.generation_config.eos_token_id == 2
    assert AutoTokenizer.from_pretrained(tmp_path).eos_token == "<eos>"


@pytest.mark.parametrize(
    ("stated", "stored"),
    [
        (
            {"temperature": 1.0},
            {"temperature": 1.0, "do_sample": None},
        ),  # As valid for greedy decoding as for sampling.
        ({"do_sample": False, "temperature": 0.6}, {"temperature": None, "do_sample": False}),
        ({"temperature": 0.6, "top_k": 20}, {"temperature": None, "top_k": None, "do_sample": None}),
        ({"top_p": 0.8, "min_p": 0.1, "typical_p": 0.5}, {"top_p": None, "min_p": None, "typical_p": None}),
        ({"do_sample": True, "temperature": 0.6, "top_p": 0.9}, {"do_sample": True, "temperature": 0.6, "top_p": 0.9}),
    ],
)
def test_saving_changes_neither_how_a_model_decodes_nor_the_model(tmp_path, stated, stored):
    model = qwen3()
    model.generation_config.update(**stated)
    own, before = model.generation_config, model.generation_config.to_dict()
    save_model(model, tokenizer(eos_token="<eos>"), tmp_path)
    assert model.generation_config is own
    assert own.to_dict() == before
    again = AutoModelForCausalLM.from_pretrained(tmp_path).generation_config
    assert {name: getattr(again, name) for name in stored} == stored
    assert again.eos_token_id == 2


def test_published_generation_settings_survive_loading_and_saving(folder, tmp_path):
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_sample": False, "temperature": 0.6}))
    loaded = load(folder)
    save_model(loaded.model, loaded.tokenizer, tmp_path / "again")
    assert load(tmp_path / "again").model.generation_config.do_sample is False


def test_generation_settings_that_cannot_be_saved(tmp_path):
    model = qwen3()
    model.generation_config.max_new_tokens = -1
    with pytest.raises(ModelError, match=r"cannot be saved \(.*max_new_tokens.*generation_config.json"):
        save_model(model, tokenizer(eos_token="<eos>"), tmp_path)


def test_a_path_from_the_home_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load("~/model").context_length == 77
    fails("~/other", str(folder.parent / "other"), "no such folder")
    fails("~nobody-of-this-name/model", "~nobody-of-this-name/model", "no such folder")


def test_threads_are_set(folder, monkeypatch):
    before = torch.get_num_threads()
    try:
        load(folder, threads=2)
        assert torch.get_num_threads() == 2
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        load(folder)  # 0 leaves the choice to whoever set the variable.
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def fails(path, *words, **changes):
    with pytest.raises(ModelError) as caught:
        load(path, **changes)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_a_missing_folder(tmp_path):
    fails(tmp_path / "nowhere", str(tmp_path / "nowhere"), "no such folder", "model.path")


def test_a_name_that_is_neither_folder_nor_model(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    fails("nobody/nothing-of-this-name", "nobody/nothing-of-this-name", "hub")


def test_a_file_in_place_of_a_folder(folder):
    fails(folder / "config.json", "is a file", "folder that holds it")


def test_no_config(folder):
    (folder / "config.json").unlink()
    fails(folder, str(folder), "config.json", "save_pretrained")


def test_a_broken_config(folder):
    (folder / "config.json").write_text("{")
    fails(folder, str(folder), "cannot be read")


def test_an_encoder(tmp_path):
    config = BertConfig(vocab_size=40, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=8)
    BertForMaskedLM(config).save_pretrained(tmp_path)
    tokenizer(eos_token="<eos>").save_pretrained(tmp_path)
    fails(tmp_path, "BertForMaskedLM", "no causal language model", "ForCausalLM")


def test_an_encoder_decoder(tmp_path):
    config = T5Config(vocab_size=40, d_model=32, d_kv=8, d_ff=16, num_layers=1, num_heads=4, decoder_start_token_id=0)
    save_model(T5ForConditionalGeneration(config), tokenizer(eos_token="<eos>"), tmp_path)
    fails(tmp_path, "T5ForConditionalGeneration", "no causal language model")


def test_a_body_without_head(tmp_path):
    Qwen3Model(qwen3().config).save_pretrained(tmp_path)
    tokenizer(eos_token="<eos>").save_pretrained(tmp_path)
    fails(tmp_path, "Qwen3Model", "no causal language model")


def test_no_tokenizer(folder):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    fails(folder, str(folder), "no tokenizer", "tokenizer.json")


def test_a_tokenizer_with_more_words_than_the_model(tmp_path):
    save_model(qwen3(vocab_size=39), tokenizer(eos_token="<eos>"), tmp_path)  # Gemma 3 1B has one such word.
    completer = LocalCompleter(load(tmp_path))
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 2, "seed": 0}
    assert completer.generate([[38]], **sampling)
    with pytest.raises(ModelError, match="token id 39; the model knows ids 0 to 38"):
        completer.generate([[39]], **sampling)


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_quantised_weights(folder):
    change_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    fails(folder, "gptq", "training needs full weights", "dequantise first")


@pytest.fixture
def never_asked(monkeypatch):
    def ask(*_):
        pytest.fail("asked on the terminal")

    monkeypatch.setattr("builtins.input", ask)


@pytest.mark.usefixtures("never_asked")
def test_a_model_of_an_unknown_type_that_brings_its_code(folder):
    change_config(folder, model_type="new", auto_map={"AutoConfig": "new.NewConfig"})
    fails(folder, "program code of its own", "never run", "model.path")


@pytest.mark.usefixtures("never_asked")
def test_a_model_of_a_known_type_that_brings_its_code(folder):
    change_config(folder, architectures=["NewForCausalLM"], auto_map={"AutoModelForCausalLM": "new.NewForCausalLM"})
    fails(folder, "program code of its own", "never run", "model.path")


@pytest.mark.usefixtures("never_asked")
def test_a_tokenizer_that_brings_its_code(folder):
    path = folder / "tokenizer_config.json"
    stated = {"tokenizer_class": "NewTokenizer", "auto_map": {"AutoTokenizer": [None, "new.NewTokenizer"]}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **stated}))
    # For Qwen3, transformers would take its own tokenizer class; for this type it has none.
    change_config(folder, model_type="arcee", architectures=["ArceeForCausalLM"])
    fails(folder, "program code of its own", "never run", "model.path")


@pytest.mark.usefixtures("never_asked")
def test_code_that_is_not_needed_is_ignored(folder):
    change_config(folder, auto_map={"AutoConfig": "new.NewConfig", "AutoModelForCausalLM": "new.NewForCausalLM"})
    assert type(load(folder).model) is Qwen3ForCausalLM


def test_no_end_token(tmp_path):
    save_model(qwen3(eos_token_id=None), tokenizer(), tmp_path)
    fails(tmp_path, "no end token", "eos_token_id", "generation_config.json")


def test_no_weights(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])  # A download that broke off.
    fails(folder, "its weights cannot be read", "put all weight files")
    weights.unlink()
    fails(folder, str(folder), "weights cannot be read")


def test_some_weights_missing(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    fails(folder, "model.layers.1.mlp.up_proj.weight", "weight files")


def test_weights_of_another_size(folder):
    change_config(folder, intermediate_size=64)
    fails(folder, str(folder), "other shapes than its config.json says", "of one model")


def test_an_unknown_device(folder):
    fails(folder, "'tpu'", "auto, cpu or cuda", device="tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_where_there_is_none(folder):
    fails(folder, "no CUDA device", "auto or cpu", device="cuda")
    assert load(folder, device="auto").device.type == "cpu"
