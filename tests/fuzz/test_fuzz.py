"""Every reader answers every document with a value or with its documented error, in words and in time.

`make fuzz` does the same for minutes. What it found once is in `regressions`, and is read here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.run import REGRESSIONS, TARGETS, document_of
from tests.fuzz.target import examine

KEPT = sorted(REGRESSIONS.glob("*/*"))


@pytest.mark.parametrize("name", TARGETS)
def test_a_valid_document_is_read(name: str) -> None:
    target = TARGETS[name]
    valid, *more = target.corpus()
    target.read(valid)
    assert [examine(target, document) for document in more] == [None] * len(more)


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
