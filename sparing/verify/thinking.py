"""Split a response into thinking and answer. Truncated or unclosed thinking has no answer."""

from __future__ import annotations

from sparing.settings import ThinkingSettings
from sparing.types import FinishReason


def split_response(
    text: str, finish_reason: FinishReason, thinking: ThinkingSettings, prompt_opens: bool = True
) -> tuple[str, str | None, str]:
    """Return (thinking text, answer text or None, reason for None).

    The answer is what follows the last closing tag. It is None, so the response is incorrect whatever it says, when
    the response ran into the token limit, or never closed its thinking, or opened it again without closing it. A
    model that writes half of a right chain of thought has not answered.

    `prompt_opens` says that the chat template already wrote the opening tag; without it, the response must.
    With `thinking.enabled` false the whole text is the answer.
    """
    answer, reason = find_answer_text(text, finish_reason, thinking)
    if not thinking.enabled and finish_reason != "length":
        return "", answer, reason
    if answer is None:
        return text, None, reason
    before = text[: len(text) - len(answer) - len(thinking.close)]
    opened = before.lstrip()
    if opened.startswith(thinking.open):
        return opened[len(thinking.open) :], answer, ""
    if not prompt_opens:
        return text, None, f"the response closes its thinking without opening it by {thinking.open}"
    return before, answer, ""


def find_answer_text(text: str, finish_reason: FinishReason, thinking: ThinkingSettings) -> tuple[str | None, str]:
    """The answer text of `split_response` and the reason for None, without a copy of long thinking."""
    if finish_reason == "length":
        return None, "the response ran into the token limit"
    if not thinking.enabled:
        return text, ""
    end = text.rfind(thinking.close)
    if end < 0:
        return None, f"the thinking is not closed by {thinking.close}"
    answer = text[end + len(thinking.close) :]
    if thinking.open in answer:
        return None, f"{thinking.open} is opened again after the answer and not closed"
    return answer, ""
