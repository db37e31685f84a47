"""Metrics of clusters: in memory, and in files for the textfile collector of Prometheus' node_exporter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from quotaform.app.file_lock import update_lock
from quotaform.atomic_file import write_text_atomically
from quotaform.core.drift.log_event import FileNotLocked, MetricsUnusable, Warn
from quotaform.core.drift.metric import RunFacts, Sample, keep_clusters, merge_run
from quotaform.errors import FileReadError, QuotaformError
from quotaform.files import MIB, read_text

_LIMIT: Final = 32 * MIB


@dataclass(slots=True)
class MetricStore:
    """The metrics of clusters; threads may share it.

    Attributes:
        path_of: Returns the file of a cluster, which several may share; `None` to keep its metrics in memory only.
        warn: Called with what is wrong with a file that exists.
        is_deferred: Whether files are written by `write` alone: once for many clusters.
    """

    path_of: Callable[[str], Path | None]
    warn: Warn
    is_deferred: bool = False
    samples: dict[Sample, float] = field(default_factory=dict)
    _unwritten: list[RunFacts] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def add(self, runs: Iterable[RunFacts], *, only: Collection[str] | None = None) -> None:
        """Take up runs, and write the files of their clusters unless that is deferred.

        `only` holds all clusters that there are, if others are to be left out. Raises `QuotaformError` if a file cannot
        be written.
        """
        with self._lock:
            for run in runs:
                self.samples = merge_run(self.samples, run)
                self._unwritten.append(run)
        if not self.is_deferred:
            self.write(only=only)

    def write(self, *, only: Collection[str] | None = None) -> None:
        """Write the files of the clusters that runs were taken up of since the last time.

        What a file says of other clusters stays, and of a cluster that could not be compared, too. Other processes may
        write the same file. `only` holds all clusters that there are, if others are to be left out. Raises
        `QuotaformError` if a file cannot be written.
        """
        with self._lock:
            runs, self._unwritten = self._unwritten, []
            files: dict[Path, list[RunFacts]] = {}
            for run in runs:
                path = self.path_of(run.cluster)
                if path is not None:
                    files.setdefault(path, []).append(run)
            for path, of_file in files.items():
                self._update(path, of_file, only)

    def clusters_in(self, paths: Iterable[Path]) -> frozenset[str]:
        """Return the clusters whose metrics stand in some files; a file that cannot be used has none."""
        from quotaform.notify.prometheus import parse_metrics

        found: set[str] = set()
        for path in paths:
            try:
                names = {labels[0] for _, labels in parse_metrics(read_text(path, _LIMIT))}
            except (FileReadError, ValueError):
                continue
            # A folder of node_exporter has files of other jobs, too.
            found |= {name for name in names if self.path_of(name) == path}
        return frozenset(found)

    def keep_only(self, clusters: Collection[str]) -> None:
        """Forget all clusters but some; files stay as they are."""
        with self._lock:
            self.samples = keep_clusters(self.samples, clusters)

    def _update(self, path: Path, runs: Iterable[RunFacts], only: Collection[str] | None) -> None:
        from quotaform.notify.prometheus import render_metrics

        with update_lock(path) as is_locked:
            if not is_locked:
                self.warn(FileNotLocked(str(path)))
            samples = self._read(path)
            for run in runs:
                samples = merge_run(samples, run)
            try:
                write_text_atomically(path, render_metrics(samples if only is None else keep_clusters(samples, only)))
            except OSError as error:
                raise QuotaformError(f"{path} cannot be written: {error.strerror or error}") from error

    def _read(self, path: Path) -> dict[Sample, float]:
        from quotaform.notify.prometheus import parse_metrics

        try:
            return parse_metrics(read_text(path, _LIMIT))
        except FileReadError as error:
            if not error.is_missing:
                self.warn(MetricsUnusable(str(path), error.reason, is_read=False))
        except ValueError as error:
            self.warn(MetricsUnusable(str(path), str(error), is_read=True))
        return {}
