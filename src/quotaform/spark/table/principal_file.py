"""Looks whether the files of principals are there before Spark is started, which would find out after many seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from quotaform.model.text import quote
from quotaform.spark.session.options import SessionOptions
from quotaform.spark.session.session import starts_java
from quotaform.spark.table.named_table import format_of
from quotaform.spark.table.path import is_url
from quotaform.spark.table.principals import is_text, unreadable

_PATTERN: Final = frozenset("*?[{")
"""With one of these, Spark takes a path for a pattern."""
_MAGIC: Final = (b"PAR1", b"PARE")
"""What a file of Parquet begins with, encrypted or not."""


def require_files(name: str, session: SessionOptions) -> None:
    """Make sure that principals of this machine can be there: a file, or a directory of Parquet files.

    URLs, patterns and tables of the catalog are left to Spark, and so is everything where the session exists already or
    is one of Spark Connect, whose server may see other files.

    Args:
        name: As `principals.read_principals` takes it.
        session: Where Spark is to run.

    Raises:
        InvalidFilesError: There is nothing at the path, or a directory has no Parquet files.
    """
    kind = format_of(name)
    if (kind is None and not is_text(name)) or is_url(name) or _PATTERN.intersection(name) or not starts_java(session):
        return
    path = Path(name)
    if not path.exists():
        raise unreadable(name, "there is no such file or directory; correct the path")
    if kind == "parquet" and path.is_dir():
        first = next(_data_files(path), None)
        if first is None:
            raise unreadable(name, "the directory has no files; give a CSV file or a directory of Parquet files")
        if not _is_parquet(first):
            shown = quote(str(first.relative_to(path)))
            raise unreadable(name, f"{shown} is not Parquet; give a CSV file or a directory of Parquet files only")


def _data_files(folder: Path) -> Iterator[Path]:
    """Yield the files that Spark reads: not those, or in directories, whose names begin with `_` or a dot."""
    for root, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and ("=" in each or each[0] != "_"))
        yield from (Path(root, each) for each in sorted(names) if each[0] not in "._")


def _is_parquet(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(4) in _MAGIC
    except OSError:
        return True  # It is for Spark to say why it cannot be read.
