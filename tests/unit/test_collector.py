"""The garbage collector is paused, and comes back whatever happens."""

from __future__ import annotations

import gc

import pytest

from quotaform.collector import paused_collector


def test_the_collector_is_off_meanwhile_and_on_again_afterwards() -> None:
    with paused_collector():
        assert not gc.isenabled()
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_comes_back_after_an_error() -> None:
    with pytest.raises(KeyError), paused_collector():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_much_that_was_made_is_not_walked_through_by_the_next_collection() -> None:
    with paused_collector():
        made: list[list[None]] = [[] for _ in range(20_000)]
    young = {id(each) for each in gc.get_objects(generation=0)}
    assert sum(id(each) in young for each in made) < 100


def test_the_garbage_of_callers_is_still_found() -> None:
    gc.collect()
    with paused_collector():
        cycle: list[object] = []
        cycle.append(cycle)
        del cycle
    assert gc.collect() >= 1
