from __future__ import annotations

import pytest

from sparing.settings import ThinkingSettings
from sparing.verify.thinking import split_response

THINKING = ThinkingSettings()


def test_the_answer_follows_the_last_closing_tag() -> None:
    assert split_response("<think>a</think>b", "stop", THINKING) == ("a", "b", "")
    assert split_response("a</think>b", "stop", THINKING) == ("a", "b", "")
    assert split_response("a</think>b</think>c", "stop", THINKING) == ("a</think>b", "c", "")


def test_instant_answers_have_empty_thinking() -> None:
    assert split_response("</think>5", "stop", THINKING) == ("", "5", "")


@pytest.mark.parametrize(
    ("text", "finish_reason", "reason"),
    [
        (r"<think>so \boxed{5}</think>\boxed{5}", "length", "ran into the token limit"),
        (r"<think>so \boxed{5}", "stop", "not closed by </think>"),
        (r"\boxed{5}", "stop", "not closed by </think>"),
        (r"<think>a</think>\boxed{5}<think>or 6", "stop", "opened again"),
    ],
)
def test_truncated_or_unclosed_thinking_has_no_answer(text: str, finish_reason: str, reason: str) -> None:
    thinking, answer, why = split_response(text, finish_reason, THINKING)  # type: ignore[arg-type]
    assert answer is None
    assert reason in why
    assert thinking == text


def test_a_prompt_that_does_not_open_wants_the_opening_tag() -> None:
    assert split_response("<think>a</think>b", "stop", THINKING, prompt_opens=False)[1] == "b"
    _, answer, why = split_response("a</think>b", "stop", THINKING, prompt_opens=False)
    assert answer is None
    assert "without opening" in why


def test_without_thinking_the_whole_text_is_the_answer_unless_truncated() -> None:
    plain = ThinkingSettings(enabled=False)
    assert split_response("5", "stop", plain) == ("", "5", "")
    assert split_response("5", "length", plain)[1] is None


def test_tags_are_the_settings() -> None:
    tags = ThinkingSettings(open="[T]", close="[/T]")
    assert split_response("[T]a[/T]b", "stop", tags) == ("a", "b", "")
    assert split_response("<think>a</think>b", "stop", tags)[1] is None
