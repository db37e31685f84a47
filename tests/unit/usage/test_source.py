"""Where measurements are read, as options and quotaform.yaml write it, and when."""

from __future__ import annotations

import pytest

from quotaform.model.settings import parse_source, require_distinct
from quotaform.usage.record.run import next_slot


def test_two_sources_of_one_broker_would_count_twice() -> None:
    with pytest.raises(ValueError, match='two sources of broker "1"'):
        require_distinct([parse_source("1=http://a/x"), parse_source("2=http://a/x"), parse_source("1=jmx:a:1")])


@pytest.mark.parametrize(
    ("slot", "ended", "took", "failures", "following"),
    [
        (0, 0.1, 0.1, 0, 1),
        (7, 79.0, 9.0, 0, 9),  # It worked for 9 s, and is left alone for as long.
        (7, 174.0, 0.2, 0, 18),  # The machine slept: no burst afterwards, and the slots are where they were.
        (3, 31.0, 1.0, 1, 4),
        (3, 31.0, 1.0, 2, 5),
        (3, 31.0, 1.0, 3, 7),
        (3, 31.0, 1.0, 40, 9),  # Never longer than a minute.
    ],
)
def test_a_source_is_asked_in_slots_and_less_often_when_it_is_slow_or_fails(
    slot: int, ended: float, took: float, failures: int, following: int
) -> None:
    assert next_slot(slot, 10.0, ended, took, failures) == following


def test_a_source_that_fails_is_asked_in_each_slot_when_these_are_long() -> None:
    assert next_slot(3, 300.0, 901.0, 1.0, 9) == 4
