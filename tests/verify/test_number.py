from __future__ import annotations

import pytest

from sparing.verify.number import last_number, number_match, parse_number


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2 + 3 = 5<|im_end|>", "5"),
        ("The answer is 1,234.50 dollars.", "1,234.50"),
        ("so x = -4.", "-4"),
        ("so x = \u22124.", "\u22124"),
        ("7-2", "2"),
        ("about $18 in all", "$18"),
        ("it is .5", ".5"),
        ("it is 3/4", "3/4"),
        ("he has 5. He is happy.", "5"),
        ("between 5 and 6", "6"),
    ],
)
def test_the_last_number(text: str, found: str) -> None:
    assert last_number(text) == found


@pytest.mark.parametrize("text", ["", "none", "5 or 6", "it is 5, or 6.", "."])
def test_no_number_or_hedging(text: str) -> None:
    assert last_number(text) is None


def test_numbers_are_equal_by_value() -> None:
    assert number_match("1234.5", "so 1,234.50") == (True, "1,234.50", "")
    assert number_match("0.75", "it is 3/4")[0]
    assert number_match("18", "$18.")[0]
    assert number_match("-4", "x = \u22124")[0]
    assert not number_match("2", "2 or 3")[0]
    assert not number_match("12", "12 apples and 3 pears")[0]
    assert not number_match("0.333333", "1/3")[0]
    assert not number_match("5", "five")[0]


def test_gold_numbers() -> None:
    assert parse_number(" $1,000 ") == 1000
    assert parse_number("1/0") is None
    assert parse_number("3 apples") is None
