"""Loads the file that says what the columns of a table with usage are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quotaform.core.usage.format.table_mapping import TableMapping
from quotaform.errors import InvalidFilesError
from quotaform.files import MIB, read_bytes

_LIMIT: Final = MIB


def load_usage_mapping(path: Path) -> TableMapping:
    """Return the mapping in a file.

    Raises `FileReadError` if it cannot be read, or is too large, and `InvalidFilesError` if it is invalid; all problems
    at once.
    """
    from quotaform.desired.tree import SourceFile, shown_path
    from quotaform.desired.usage_mapping import read_usage_mapping

    mapping, problems = read_usage_mapping(SourceFile(shown_path(path), read_bytes(path, _LIMIT)))
    if mapping is None:
        raise InvalidFilesError(problems)
    return mapping
