"""The lab's word-level tokenizer, in Hugging Face format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparing.lab import teacher

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, END, UNKNOWN = "<pad>", "<end>", "<unk>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<user> ' if message.role == 'user' else '<assistant> ' }}{{ message.content }}{{ ' ' }}"
    "{% if message.role == 'assistant' %}{{ '<end> ' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
_QUESTION_WORDS = (
    "start at result ? + - * = is truth T F and or xor let print list reverse rotate swap sort raise : , "
    "from who boss ann bob cem dan eve fay gus hal queue before after order east west north south where drill"
)


def vocabulary() -> list[str]:
    """Every word of the lab, in the order of its token ids."""
    numbers = [str(number) for number in range(100)]
    marks = [f"({position})" for position in range(1, 17)]
    letters = list("abcdefghij")
    special = [PAD, END, UNKNOWN, "<user>", "<assistant>", "<think>", "</think>"]
    rest = sorted((set(_QUESTION_WORDS.split()) | teacher.words()) - set(letters))
    return special + numbers + marks + letters + rest


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer that splits at white space, with the lab's chat template and end token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {word: index for index, word in enumerate(vocabulary())}
    core = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        padding_side="left",
        model_max_length=1024,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
