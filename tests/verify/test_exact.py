from __future__ import annotations

from sparing.verify.exact import exact_match


def test_the_whole_answer_up_to_whitespace() -> None:
    assert exact_match("a b", "  a \n b\t")
    assert not exact_match("a b", "a b.")
    assert not exact_match("a b", "A b")
    assert not exact_match("b", "a b")
    assert not exact_match("ab", "a b")
