from __future__ import annotations

import math

import pytest

from sparing.report.markup import Markup, el, num, percent, short, signed


def test_strings_are_escaped_and_markup_is_not() -> None:
    assert el("p", "<b>", Markup("<i>ok</i>"), class_='a"b') == '<p class="a&quot;b">&lt;b&gt;<i>ok</i></p>'
    assert el("div", [el("span", "&"), ["x", None]], hidden=True, title=None) == "<div hidden><span>&amp;</span>x</div>"


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (num(1234.5), "1,234"),
        (num(-0.0004, 3), "0.000"),
        (num(-0.0625, 2), "\u22120.06"),
        (num(math.nan), "\u2013"),
        (signed(0.02), "+0.020"),
        (signed(0.0001), "0.000"),
        (signed(-0.02), "\u22120.020"),
        (percent(0.714), "71\u00a0%"),
        (percent(0.0421), "4.2\u00a0%"),
        (percent(0.0996), "10\u00a0%"),
        (percent(-0.29, sign=True), "\u221229\u00a0%"),
        (percent(math.inf), "\u2013"),
        (short(0.30049), "0.300"),
        (short(123.4), "123"),
        (short(12.34), "12.3"),
        (short(3e-6), "3.0e\u22126"),
        (short(2.0), "2"),
    ],
)
def test_number_formats(shown: str, text: str) -> None:
    assert shown == text
