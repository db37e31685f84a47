"""The files of `--out` of a result that is a table: a document or picture of its first rows, or all rows as Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quotaform.app.picture import PICTURES
from quotaform.app.rendering import render
from quotaform.cli.console import require_writable, write_binary_file, write_file
from quotaform.cli.format import read_output
from quotaform.cli.saved_file import report_saved_files
from quotaform.errors import QuotaformError, UsageError
from quotaform.model.text import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from quotaform.cli.console import Console
    from quotaform.core.usage.chart.chart import Chart

_PARQUET: Final = "parquet"


class TableOutput:
    """The files of one run."""

    def __init__(self, subject: str, written: Iterable[str]) -> None:
        """Read the values of `--out`.

        Raises `QuotaformError` if a file cannot be written, a directory exists already, or pictures cannot be drawn.
        """
        self._subject = subject
        self._files: list[tuple[str, Path]] = []
        self._folders: list[str] = []
        self._pictures: list[tuple[str, Path]] = []
        self._paths: list[str] = []
        for text in written:
            name, separator, path = text.partition("=")
            if name == _PARQUET and separator:
                self._folders.append(_new_folder(path))
                self._paths.append(path)
            else:
                format_name, file = read_output(subject, text)
                require_writable(file)
                self._paths.append(str(file))
                (self._pictures if format_name in PICTURES else self._files).append((format_name, file))
        if self._pictures:
            from quotaform.plot.library import require_matplotlib

            require_matplotlib()

    @property
    def has_pictures(self) -> bool:
        """Whether a chart of the result is needed."""
        return bool(self._pictures)

    def write(self, result: object, rows: DataFrame, **options: Any) -> None:
        """Write a result, and all rows of it."""
        for format_name, file in self._files:
            write_file(file, render(self._subject, format_name, result, **options))
        for folder in self._folders:
            rows.write.parquet(folder)

    def draw(self, chart: Chart) -> None:
        """Write the pictures of a result."""
        for format_name, file in self._pictures:
            write_binary_file(file, PICTURES[format_name](chart))

    def report(self, console: Console) -> None:
        """Print to stderr what was written, once it is."""
        report_saved_files(console, "result", self._paths)


def _new_folder(path: str) -> str:
    """Return where Spark is to write, if nothing is there."""
    if not path:
        raise UsageError("--out parquet: a directory is missing; write for example --out parquet=rows")
    from quotaform.spark.table.path import is_url, located

    if not is_url(path) and Path(path).exists():
        raise QuotaformError(f"--out parquet={quote(path)}: it exists already; name a new directory")
    return located(path)
