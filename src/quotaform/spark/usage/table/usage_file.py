"""Files of the table of usage that are written without a Spark session, and without Java.

A file is there as a whole or not at all: a kill leaves at most a temporary file, whose name begins with a dot, so that
readers of the directory pass over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from quotaform.atomic_file import write_bytes_atomically
from quotaform.core.usage.record.recording import UsageRow
from quotaform.errors import EngineError, QuotaformError, UsageError, missing_extra
from quotaform.files import require_no_way_out
from quotaform.model.text import inert

if TYPE_CHECKING:
    import pyarrow


class UsageDirectory:
    """A directory of Parquet files with the columns of `quotaform.spark.usage.schemas.USAGE`."""

    def __init__(self, path: Path) -> None:
        """Make sure that rows can be written to a directory, which is made if it is not there.

        Raises:
            EngineError: The extra is missing.
            UsageError: It holds something else.
            QuotaformError: It cannot be made or read.
        """
        if find_spec("pyarrow") is None:
            raise EngineError(f"Parquet files cannot be written without pyarrow: {missing_extra('usage')}.")
        self._path = path
        try:
            require_no_way_out(path)
            path.mkdir(parents=True, exist_ok=True)
            self._require_usage()
        except OSError as error:
            raise self._error(error) from error

    def write(self, rows: Sequence[UsageRow]) -> Path:
        """Write rows to a new file, and return its path.

        Raises `QuotaformError` if it cannot be written; then nothing of it is there.
        """
        from pyarrow import BufferOutputStream, parquet

        path = self._path / f"part-{uuid4()}.parquet"
        content = BufferOutputStream()
        parquet.write_table(usage_table(rows), content)
        try:
            write_bytes_atomically(path, [content.getvalue().to_pybytes()])
        except OSError as error:
            raise self._error(error) from error
        return path

    def _require_usage(self) -> None:
        """Make sure that what is there is a table of usage: rows of it and of something else would be mixed."""
        from pyarrow import ArrowException, parquet

        shown = inert(str(self._path))
        if (self._path / "_delta_log").exists():
            raise UsageError(f"--usage {shown} is a Delta Lake table; record to a directory, and ingest that")
        others = [path for path in self._path.iterdir() if not path.name.startswith((".", "_"))]
        if not others:
            return
        files = [path for path in others if path.suffix == ".parquet"]
        if not files:
            raise UsageError(f"--usage {shown} is not empty and no table of usage; give another directory")
        try:
            names = set(parquet.read_schema(files[0]).names)
        except ArrowException as error:
            raise QuotaformError(
                f"{inert(str(files[0]))} is no Parquet file that can be read ({inert(str(error)[:200])}); "
                "give another directory"
            ) from None
        # A column with a default came later; files of an earlier version lack it.
        if missing := [name for name in UsageRow._fields if name not in {*names, *UsageRow._field_defaults}]:
            raise UsageError(
                f"--usage {shown} is no table of usage, as it lacks the column {missing[0]}; give another directory"
            )

    def _error(self, error: OSError) -> QuotaformError:
        return QuotaformError(
            f"{inert(str(self._path))} cannot be written: {error.strerror or error}; files written before stay"
        )


def usage_table(rows: Sequence[UsageRow]) -> pyarrow.Table:
    """Return rows as a table of Arrow, with the types that Spark reads as those of `schemas.USAGE`."""
    import pyarrow

    schema = _schema()
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    columns[0] = [round(ts * 1_000_000) for ts in columns[0]]
    return pyarrow.table(
        [pyarrow.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema
    )


def _schema() -> pyarrow.Schema:
    import pyarrow

    double, text = pyarrow.float64(), pyarrow.string()
    names = {"ts": pyarrow.timestamp("us", "UTC"), "window_s": double, "rate": double, "throttle_ms": double}
    return pyarrow.schema([(name, names.get(name, text)) for name in UsageRow._fields])
