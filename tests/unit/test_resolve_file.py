"""Files of requests that are unreadable or too large; what can be written is in `tests/golden/decided-asked.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.model.errors import InvalidFilesError
from quotaform.resolve.request_file import RequestFile


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidFilesError, match=r"absent\.csv: error: it cannot be read: No such file"):
        RequestFile.read(tmp_path / "absent.csv")
    with pytest.raises(InvalidFilesError, match="it cannot be read"):
        RequestFile.read(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"user\n" + b"x" * 200_000, "asked.csv:2: error: this is not CSV: a field is larger than 131,072 characters"),
        (b'{"user": ' + b"[" * 100_000, "asked.csv:1: error: this line is not a JSON object"),
    ],
)
def test_a_row_that_is_too_much_is_said(content: bytes, words: str) -> None:
    with pytest.raises(InvalidFilesError) as refused:
        list(RequestFile(content, "asked.csv"))
    assert words in str(refused.value)


def test_a_million_bad_lines_have_a_hundred_problems() -> None:
    """Every line of a file of requests that was wrong was reported, however many there were."""
    with pytest.raises(InvalidFilesError) as refused:
        RequestFile(b"user\n" + b"a,b\n" * 1_000_000, "requests.csv")
    assert len(refused.value.problems) == 101
    assert "and more" in str(refused.value.problems[-1])
