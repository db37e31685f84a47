"""Looks whether the files of principals are there before Spark is started, which would find out after many seconds."""

from __future__ import annotations

from pathlib import Path

from quotaform.model.text import quote
from quotaform.spark.session.options import SessionOptions
from quotaform.spark.table.local_table import data_files, is_of_spark, is_parquet
from quotaform.spark.table.named_table import NO_PATH, format_of
from quotaform.spark.table.principals import is_text, unreadable


def require_files(name: str, session: SessionOptions) -> None:
    """Make sure that principals of this machine can be there: a file, or a directory of Parquet files.

    What is not known without Spark is left to it, as `local_table` has it, and so are tables of the catalog.

    Args:
        name: As `principals.read_principals` takes it.

    Raises:
        InvalidFilesError: There is nothing at the path, or a directory has no Parquet files.
    """
    kind = format_of(name)
    if (kind is None and not is_text(name)) or is_of_spark(name, session):
        return
    path = Path(name)
    if not path.exists():
        raise unreadable(name, NO_PATH)
    if kind == "parquet" and path.is_dir():
        first = next(data_files(path), None)
        if first is None:
            raise unreadable(name, "the directory has no files; give a CSV file or a directory of Parquet files")
        if not is_parquet(first):
            shown = quote(str(first.relative_to(path)))
            raise unreadable(name, f"{shown} is not Parquet; give a CSV file or a directory of Parquet files only")
