"""Every reader answers every document with a value or with its documented error, in words and in time.

`make fuzz` does the same for minutes. What it found once is in `regressions`, and is read here.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import REGRESSIONS, TARGETS, document_of
from tests.fuzz.target import examine

KEPT = sorted(REGRESSIONS.glob("*/*"))


@pytest.mark.parametrize("name", TARGETS)
def test_a_valid_document_is_read(name: str) -> None:
    """Only the first one had to be; the others could be refused, and one was."""
    for document in TARGETS[name].corpus():
        TARGETS[name].read(document)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.refused])
def test_an_invalid_document_is_refused_in_words(name: str) -> None:
    target = TARGETS[name]
    for document in target.refused:
        assert examine(target, document) is None
        with pytest.raises(target.errors):
            target.read(document)


def test_the_time_limit_of_a_test_goes_on_after_a_document() -> None:
    """It ended with the first document, so that a test that hung was waited for without end."""
    handler, (left, _) = signal.getsignal(signal.SIGALRM), signal.setitimer(signal.ITIMER_REAL, 100)
    try:
        assert examine(TARGETS["value"], b"1") is None
        assert signal.getsignal(signal.SIGALRM) is handler
        assert 90 < signal.getitimer(signal.ITIMER_REAL)[0] <= 100
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)


@pytest.mark.parametrize("name", TARGETS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=150)
def test_a_document_changed_at_random_is_read_or_refused_in_words(name: str, seed: int) -> None:
    target = TARGETS[name]
    document = document_of(target, str(seed))
    assert examine(target, document) is None, document


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once_is_mended(path: Path) -> None:
    assert examine(TARGETS[path.parent.name], path.read_bytes()) is None
