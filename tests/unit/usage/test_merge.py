"""Samples of one bucket become rows."""

from __future__ import annotations

from quotaform.usage.sample import Attribute, Dropped, DropReason, MergedRow, Sample, merge

from .recorded import series


def rate(ts: float, value: float) -> Sample:
    return Sample(series(user="a"), ts, value, 11.5)


def throttle(ts: float, value: float) -> Sample:
    return Sample(series(user="a", attribute=Attribute.THROTTLE_TIME), ts, value, 11.5)


def total(ts: float, value: float) -> Sample:
    return Sample(series(user="a", attribute=Attribute.TOTAL), ts, value, 0.0)


def test_a_rate_and_a_throttle_time_of_one_time_are_one_row() -> None:
    rows, dropped = merge([rate(2, 20), throttle(1, 7), rate(1, 10), throttle(3, 9)])
    assert rows == [MergedRow(1, 11.5, 10, 7), MergedRow(2, 11.5, 20, None), MergedRow(3, 11.5, None, 9)]
    assert dropped == []


def test_a_time_that_is_there_twice_counts_once_with_the_larger_value() -> None:
    rows, dropped = merge([rate(1, 10), rate(1, 10), rate(1, 12), rate(1, 11)])
    assert rows == [MergedRow(1, 11.5, 12, None)]
    assert dropped == [Dropped(DropReason.DUPLICATE, 1), Dropped(DropReason.CONFLICT, 2)]


def test_totals_become_rates_between_them() -> None:
    rows, dropped = merge([total(40, 400), total(10, 100), total(20, 300), total(50, 20), total(60, 50)])
    assert rows == [MergedRow(20, 10, 20, None), MergedRow(40, 20, 5, None), MergedRow(60, 10, 3, None)]
    assert dropped == [Dropped(DropReason.FIRST_TOTAL, 1), Dropped(DropReason.COUNTER_RESET, 1)]


def test_a_rate_and_a_total_of_one_time_are_one_rate() -> None:
    rows, dropped = merge([total(10, 0), total(20, 100), rate(20, 12)])
    assert rows == [MergedRow(20, 11.5, 12, None)]
    assert dropped == [Dropped(DropReason.FIRST_TOTAL, 1), Dropped(DropReason.CONFLICT, 1)]
