"""Kind `exact`: the whole answer text equals the gold answer, up to whitespace."""

from __future__ import annotations


def normalise_whitespace(text: str) -> str:
    """Strip the ends and turn every run of whitespace into one space."""
    return " ".join(text.split())


def exact_match(gold: str, answer: str) -> bool:
    """Whether `answer`, all of it, is `gold`; case and punctuation count."""
    return normalise_whitespace(answer) == normalise_whitespace(gold)
