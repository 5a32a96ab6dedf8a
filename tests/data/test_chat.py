from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from sparing.data.chat import render_prompt
from sparing.errors import ModelError
from sparing.types import Problem, Turn

WORDS = ["<unk>", "<end>", "<user>", "<system>", "<model>", "<think>", "one", "two", "plus", "?"]
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'assistant' %}{{ raise_exception('no assistant turns') }}{% endif %}"
    "<{{ message.role }}> {{ message.content }} {% endfor %}"
    "{% if add_generation_prompt %}<model> <think>{% endif %}"
)


def tokenizer_of(template: str | None = None, closes_texts: bool = False) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if closes_texts:
        inner.post_processor = processors.TemplateProcessing(single="$A <end>", special_tokens=[("<end>", 1)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", unk_token="<unk>")
    tokenizer.chat_template = template
    return tokenizer


def problem(*turns: tuple[str, str]) -> Problem:
    return Problem(id="p1", turns=tuple(Turn(role=role, content=content) for role, content in turns), answer="3")


def words(ids: list[int]) -> list[str]:
    return [WORDS[token] for token in ids]


def test_template_renders_all_turns_up_to_the_response() -> None:
    ids = render_prompt(tokenizer_of(TEMPLATE), problem(("system", "two"), ("user", "one plus two ?")))
    assert all(type(token) is int for token in ids)
    assert words(ids) == ["<system>", "two", "<user>", "one", "plus", "two", "?", "<model>", "<think>"]


def test_without_template_the_single_prompt_is_taken_as_it_is() -> None:
    assert words(render_prompt(tokenizer_of(), problem(("user", "one plus two ?")))) == ["one", "plus", "two", "?"]


def test_an_end_token_that_the_tokenizer_appends_is_removed() -> None:
    tokenizer = tokenizer_of(closes_texts=True)
    assert tokenizer("one")["input_ids"] == [6, 1]
    assert words(render_prompt(tokenizer, problem(("user", "one")))) == ["one"]


def test_conversation_without_template_is_refused() -> None:
    with pytest.raises(ModelError, match=r'problem "p1" has 2 messages and the tokenizer has no chat template; use'):
        render_prompt(tokenizer_of(), problem(("system", "two"), ("user", "one")))


def test_refusal_of_the_template_names_the_problem() -> None:
    with pytest.raises(ModelError, match=r'refuses problem "p1" \(roles: user, assistant, user\): no assistant turns'):
        render_prompt(tokenizer_of(TEMPLATE), problem(("user", "one"), ("assistant", "two"), ("user", "one")))


def test_prompt_without_tokens_is_refused() -> None:
    with pytest.raises(ModelError, match=r'the prompt of problem "p1" has no tokens'):
        render_prompt(tokenizer_of("{{ '' }}"), problem(("user", "one")))


def test_a_template_that_writes_the_date_writes_the_same_one_every_day() -> None:
    tokenizer = tokenizer_of(
        "{{ strftime_now('%Y') }} {{ strftime_now('%d %b') }} {% for m in messages %}{{ m.content }}{% endfor %}"
    )
    tokenizer.add_tokens(["2025", "01", "Jan"])
    ids = render_prompt(tokenizer, problem(("user", "two")))
    assert tokenizer.convert_ids_to_tokens(ids) == ["2025", "01", "Jan", "two"]


def test_a_template_may_ask_whether_there_is_a_date() -> None:
    template = "{% if strftime_now is defined %}{% set day = strftime_now('%-d %B') %}{% endif %}{{ day }} {{ messages[0].content }}"
    tokenizer = tokenizer_of(template)
    tokenizer.add_tokens(["1", "January"])
    ids = render_prompt(tokenizer, problem(("user", "two")))
    assert tokenizer.convert_ids_to_tokens(ids) == ["1", "January", "two"]
