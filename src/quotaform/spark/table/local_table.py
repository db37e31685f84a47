"""Looks at tables of this machine before Spark is started, which would find out after seconds that they cannot be read.

What is not known without Spark is left to it: URLs, globs, tables of a catalog, formats other than Parquet, and all of
it where the session exists already or is one of Spark Connect, whose server may see other files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from quotaform.model.text import quote
from quotaform.spark.session.catalog import may_have_tables
from quotaform.spark.session.options import SessionOptions
from quotaform.spark.session.session import starts_java
from quotaform.spark.table.named_table import (
    NO_COLUMNS,
    NO_PATH,
    NO_TABLE,
    bad_table,
    format_of,
    lacking_columns,
)
from quotaform.spark.table.path import is_url

_PATTERN: Final = frozenset("*?[{")
"""With one of these, Spark takes a path for a pattern."""
_MAGIC: Final = (b"PAR1", b"PARE")
"""What a file of Parquet begins with, encrypted or not."""
_PARQUET: Final = "parquet"
_MOST_FILES: Final = 1000
"""In how many files columns are looked for that the first one lacks: some sessions merge the schemas of all."""


def is_of_spark(name: str, session: SessionOptions) -> bool:
    """Whether only Spark knows what a path is: a URL, a pattern, or anything where a session sees other files."""
    return is_url(name) or bool(_PATTERN.intersection(name)) or not starts_java(session)


def require_table(name: str, columns: Collection[str], session: SessionOptions) -> None:
    """Make sure that a table can be there which `named_table.read_table` is to read, with columns.

    Args:
        name: As `read_table` takes it.

    Raises:
        InvalidFilesError: There is nothing at the path, or something else.
    """
    if is_of_spark(name, session):
        return
    try:
        reason = _problem(name, session)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason is not None:
        raise bad_table(name, f"cannot be read: {reason}")
    if format_of(name) == _PARQUET:
        _require_columns(name, Path(name), columns)


def _problem(name: str, session: SessionOptions) -> str | None:
    """Return why Spark would not read a table; `None` if only Spark knows."""
    path, kind = Path(name), format_of(name)
    if kind is None:
        if may_have_tables(session):
            return None
        is_file = path.exists()
        return "it is a file; name a directory of Parquet files, or a file *.parquet" if is_file else NO_TABLE
    if not path.exists():
        return NO_PATH
    if kind != _PARQUET or not os.access(path, os.R_OK):
        return None
    if not path.is_dir():
        return None if is_parquet(path) else "it is not a Parquet file"
    first = next(data_files(path), None)
    if first is None:
        return NO_COLUMNS
    return None if is_parquet(first) else f"{quote(str(first.relative_to(path)))} in it is not a Parquet file"


def _require_columns(name: str, path: Path, columns: Collection[str]) -> None:
    """Make sure that the first files have each column; no more of them are opened than it takes to find them."""
    found: dict[str, None] = {}
    for number, file in enumerate(data_files(path) if path.is_dir() else [path]):
        own = _columns_of(file)
        if own is None or number == _MOST_FILES:
            return
        found |= dict.fromkeys([*own, *_partitions(file.relative_to(path))])
        if found.keys() >= set(columns):
            return
    raise lacking_columns(name, [each for each in columns if each not in found], list(found))


def _columns_of(file: Path) -> list[str] | None:
    """Return the columns of a file; `None` if it is for Spark to say why it cannot be read."""
    from pyarrow import ArrowException, parquet

    try:
        return [str(each) for each in parquet.read_schema(file).names]
    except (ArrowException, OSError):
        return None


def _partitions(file: Path) -> Iterator[str]:
    """Yield the columns that the names of directories give to a file: `cluster=lab/day=1/part-0.parquet`."""
    for part in file.parts[:-1]:
        name, separator, _ = part.partition("=")
        if separator:
            yield name


def data_files(folder: Path) -> Iterator[Path]:
    """Yield the files that Spark reads: not those, or in directories, whose names begin with `_` or a dot."""
    for root, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and ("=" in each or each[0] != "_"))
        yield from (Path(root, each) for each in sorted(names) if each[0] not in "._")


def is_parquet(file: Path) -> bool:
    """Whether a file begins as those of Parquet do; also if it cannot be read, as Spark is to say why."""
    try:
        with file.open("rb") as opened:
            return opened.read(4) in _MAGIC
    except OSError:
        return True
