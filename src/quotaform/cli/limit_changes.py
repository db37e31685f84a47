"""The files of `--principals-out`: every change of an effective limit, one file per cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from quotaform.app.rendering import FORMATS, Document, render
from quotaform.cli.cluster_path import PLACEHOLDER, cluster_paths
from quotaform.cli.console import Console, remove_earlier, require_writable, write_file
from quotaform.cli.usage import one_of, shorten
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import UsageError

T = TypeVar("T")

_OPTION: Final = "--principals-out"
_SUBJECT: Final = "limit-changes"
PARQUET: Final = "parquet"
"""The format of a folder that Spark writes."""
_SUFFIXES: Final = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def read_changes_path(text: str) -> tuple[str, Path]:
    """Read the value of `--principals-out`: FORMAT=PATH, or a path whose suffix says the format.

    >>> read_changes_path("changed.csv")[0], read_changes_path("jsonl=changed.txt")[0]
    ('csv', 'jsonl')
    """
    name, separator, path = text.partition("=")
    if not (separator and name in (*FORMATS[_SUBJECT], PARQUET)):
        path = text
        name = _SUFFIXES.get(Path(path).suffix.lower(), "")
    if not name:
        raise UsageError(
            f"{_OPTION} {shorten(text)}: the name must end in {one_of(_SUFFIXES)}, or begin with "
            f"{one_of(f'{each}=' for each in (*FORMATS[_SUBJECT], PARQUET))}"
        )
    if path in ("", "-"):
        raise UsageError(f"{_OPTION} {shorten(text)}: a path is missing; write for example {_OPTION} changed.csv")
    return name, Path(path)


class LimitChangeFiles:
    """Writes the changes of limits of each cluster, if that was asked for."""

    def __init__(self, console: Console, text: str | None, clusters: Sequence[str]) -> None:
        """Read the value of `--principals-out`.

        Raises `UsageError` if it cannot be read, or several clusters would share one file.
        """
        self._console = console
        self._format, self._paths = "", dict[str, Path]()
        self._folder: str | None = None
        if text is None:
            return
        self._format, path = read_changes_path(text)
        if self._format == PARQUET:
            if os.path.lexists(path):
                raise UsageError(f"{_OPTION} {shorten(text)}: there is such a file or folder already; name a new one")
            self._folder = text.partition("=")[2]
            return
        paths: Mapping[str, Path] = cluster_paths(_OPTION, path, clusters, example=f"changed/{PLACEHOLDER}.csv")
        for each in paths.values():
            require_writable(each)
        self._paths.update(paths)

    @property
    def names(self) -> Mapping[str, str]:
        """Cluster to its file, as plans name it."""
        return {cluster: path.as_posix() for cluster, path in self._paths.items()}

    @property
    def folder(self) -> str | None:
        """The folder of all changes as Parquet, if that is what was asked for."""
        return self._folder

    @property
    def documents(self) -> tuple[Document, ...]:
        """What is to be rendered of each plan."""
        return (Document(_SUBJECT, self._format, {}, _SUBJECT),) if self._paths else ()

    def write(self, outcomes: Iterable[ClusterOutcome[T]]) -> None:
        """Write the changes of each plan.

        The file of a cluster that failed is removed, so that an earlier one is not taken for its result.
        """
        for outcome in outcomes if self._paths else ():
            path = self._paths[outcome.cluster]
            if outcome.error is None:
                write_file(path, render(_SUBJECT, self._format, outcome.require(), document=_SUBJECT))
            else:
                remove_earlier(self._console, path)

    def remove(self) -> None:
        """Remove the files of an earlier run, so that they are not taken for the result of this one."""
        for path in self._paths.values():
            remove_earlier(self._console, path)
