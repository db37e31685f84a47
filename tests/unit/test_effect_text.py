"""Values in the notes about effects; `rules-change.txt` has the notes."""

from __future__ import annotations

from quotaform.resolve.effect import value_text
from tests.builder import PRODUCER, REQUEST


def test_a_value_of_an_unknown_key_is_a_plain_number() -> None:
    assert value_text("future_rate", 1e20) == "100000000000000000000"
    assert value_text(REQUEST, 12.5) == "12.5%"
    assert value_text(PRODUCER, float("nan")) == "NaN"
