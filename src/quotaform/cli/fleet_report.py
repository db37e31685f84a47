"""The report of a run over clusters: the files of `--report`, and what `--format report` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quotaform.app.rendering import render
from quotaform.cli.cluster_path import PLACEHOLDER
from quotaform.cli.console import Console, remove_earlier, require_writable, write_file
from quotaform.cli.format import read_output
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import NotReadError, QuotaformError, UsageError

if TYPE_CHECKING:
    from quotaform.core.fleet_report import FleetReport

SUBJECT: Final = "fleet-report"
_OPTION: Final = "--report"


class FleetReports:
    """The reports that were asked for."""

    def __init__(self, console: Console, command: str, written: Iterable[str]) -> None:
        """Read the values of `--report`.

        Args:
            written: The values.
        """
        self._console = console
        self._command = command
        self._files: list[tuple[str, Path]] = []
        self._is_written = False
        for text in written:
            format_name, path = read_output(SUBJECT, text, option=_OPTION)
            if PLACEHOLDER in str(path):
                raise UsageError(
                    f"{_OPTION} writes one file for all clusters; leave {PLACEHOLDER} out, or write a file for each "
                    "cluster with --out"
                )
            require_writable(path)
            self._files.append((format_name, path))

    def write(self, outcomes: Sequence[ClusterOutcome[Any]], error: QuotaformError | None = None) -> None:
        """Write the files.

        Args:
            error: What ended the run as a whole.
        """
        self._is_written = True
        if self._files:
            report = self._made(outcomes, error)
            for format_name, path in self._files:
                write_file(path, render(SUBJECT, format_name, report))

    def remove(self) -> None:
        """Remove the files of an earlier run, so that they are not taken for the result of this one."""
        for _, path in self._files:
            remove_earlier(self._console, path)

    def echo(self, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
        """Print the report."""
        self._console.echo(render(SUBJECT, "text", self._made(outcomes), style=self._console.style()))

    @contextmanager
    def covering(self, clusters: Sequence[str]) -> Iterator[None]:
        """Write the files also when the block writes none, because of an error or an interrupt.

        Wrong usage is not written: it is for whoever typed it.

        Args:
            clusters: The names of the clusters, as far as they are known.
        """
        try:
            yield
        except UsageError:
            raise
        except QuotaformError as error:
            self._write_failed([ClusterOutcome(name, error=error) for name in clusters], error)
            raise
        except KeyboardInterrupt:
            missing = "not applied" if self._command == "apply" else "not read"
            unread = NotReadError(f"{missing}: the run was interrupted")
            self._write_failed([ClusterOutcome(name, error=unread) for name in clusters])
            raise

    def _write_failed(self, outcomes: Sequence[ClusterOutcome[Any]], error: QuotaformError | None = None) -> None:
        try:
            if not self._is_written:
                self.write(outcomes, error)
        except QuotaformError as problem:
            # What failed first is what matters.
            self._console.report_failure(f"Warning: the failure is not in the files of {_OPTION}: {problem}")

    def _made(self, outcomes: Sequence[ClusterOutcome[Any]], error: QuotaformError | None = None) -> FleetReport:
        from quotaform.core.fleet_report import make_fleet_report

        return make_fleet_report(self._command, outcomes, error=error)
