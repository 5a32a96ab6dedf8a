"""Prompts as token ids, through the tokenizer's chat template."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sparing.errors import ModelError
from sparing.types import Problem

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# What a template that writes the current date gets in its place: a run must not depend on the day it is resumed.
_DATE = datetime(2025, 1, 1)
_DIRECTIVE = re.compile(r"%-?[A-Za-z]")


def render_prompt(tokenizer: PreTrainedTokenizerBase, problem: Problem) -> list[int]:
    """Token ids of a problem's conversation, up to where the model's response begins.

    Without a chat template a single user message is taken as it is. A template that asks for today's date is told
    1 January 2025, so that the base model, the final one and a resumed run are given the same prompts.

    Raises:
        ModelError: no template and more than one message, or a template that refuses the conversation.
    """
    if not getattr(tokenizer, "chat_template", None):
        return _plain(tokenizer, problem)
    messages = [{"role": turn.role, "content": turn.content} for turn in problem.turns]
    try:
        ids = tokenizer.apply_chat_template(
            messages, chat_template=_dated(tokenizer), add_generation_prompt=True, tokenize=True, return_dict=False
        )
    # Templates are programs of the model's authors: they raise jinja errors, but also TypeError and KeyError.
    except Exception as error:
        roles = ", ".join(turn.role for turn in problem.turns)
        raise ModelError(
            f'the chat template refuses problem "{problem.id}" (roles: {roles}): {error}; '
            "change the messages of that problem, or the template"
        ) from error
    return _checked(ids, problem)


def _dated(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """The template with `strftime_now` bound to a fixed date; None where it asks for none and serves as it is."""
    template = tokenizer.chat_template
    if not isinstance(template, str) or "strftime_now" not in template:
        return None
    # transformers turns functions among a template's variables into text, so the date comes as a macro of the template.
    directives = sorted(set(_DIRECTIVE.findall(template)))
    filters = "".join(f" | replace('{directive}', '{_DATE.strftime(directive)}')" for directive in directives)
    return f"{{%- macro strftime_now(format) -%}}{{{{ format{filters} }}}}{{%- endmacro -%}}{template}"


def _plain(tokenizer: PreTrainedTokenizerBase, problem: Problem) -> list[int]:
    if len(problem.turns) != 1 or problem.turns[0].role != "user":
        raise ModelError(
            f'problem "{problem.id}" has {len(problem.turns)} messages and the tokenizer has no chat template; '
            "use a model with one, or give every problem a single prompt"
        )
    ids = list(tokenizer(problem.turns[0].content)["input_ids"])
    # Some tokenizers close every text; a prompt that has ended leaves nothing to continue.
    while ids and ids[-1] == tokenizer.eos_token_id:
        ids.pop()
    return _checked(ids, problem)


def _checked(ids: Any, problem: Problem) -> list[int]:
    if not ids:
        raise ModelError(f'the prompt of problem "{problem.id}" has no tokens; check the chat template')
    return [int(token) for token in ids]
