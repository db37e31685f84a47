"""What drift logs beside its result, as values: `quotaform.views.drift.log_text` renders them.

Warnings are about alerting, and change the result of no run. Watch events are what a process logs that goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from quotaform.core.drift.drift import Drift
from quotaform.errors import QuotaformError


@dataclass(frozen=True, slots=True)
class StateUnusable:
    """The file of the notify state cannot be used, so that notifications begin anew.

    `is_read` says whether it could be read, and holds something else.
    """

    path: str
    reason: str
    is_read: bool


@dataclass(frozen=True, slots=True)
class StateNotWritten:
    """The file of the notify state cannot be written, so that notifications may be repeated."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class StateOfOtherCluster:
    """The notify state of a cluster is about another cluster, so that its notifications begin anew.

    `cluster_id` is the id of the other one.
    """

    cluster: str
    cluster_id: str


@dataclass(frozen=True, slots=True)
class NotificationFailed:
    """A receiver could not be notified about a cluster; the next run tries again."""

    cluster: str
    error: QuotaformError


@dataclass(frozen=True, slots=True)
class ReceiverRecovered:
    """A receiver that could not be notified was notified again.

    `origin` is its scheme, host and port: the path may be a secret.
    """

    origin: str


@dataclass(frozen=True, slots=True)
class MetricsUnusable:
    """A file of metrics cannot be used, so that earlier metrics in it are lost.

    `is_read` says whether it could be read, and holds something else.
    """

    path: str
    reason: str
    is_read: bool


@dataclass(frozen=True, slots=True)
class FileNotLocked:
    """Another process holds the lock of a file for too long, so that the file is written without it."""

    path: str


@dataclass(frozen=True, slots=True)
class FilesReloaded:
    """The files, or the baseline, have changed and were read again."""


@dataclass(frozen=True, slots=True)
class FilesRecovered:
    """The files could not be used, and now they can."""


@dataclass(frozen=True, slots=True)
class FilesUnusable:
    """The files cannot be used for any cluster."""

    error: QuotaformError


@dataclass(frozen=True, slots=True)
class ClusterCompared:
    """A cluster was compared, and what was found differs from before."""

    cluster: str
    drift: Drift


@dataclass(frozen=True, slots=True)
class CheckFailed:
    """A cluster could not be compared, for another reason than before, if it could not be then.

    `reason` is why: an error, or the message of a finding.
    """

    cluster: str
    reason: QuotaformError | str


@dataclass(frozen=True, slots=True)
class MetricsNotWritten:
    """The files of metrics cannot be written."""

    error: QuotaformError


AlertWarning: TypeAlias = (
    StateUnusable
    | StateNotWritten
    | StateOfOtherCluster
    | NotificationFailed
    | ReceiverRecovered
    | MetricsUnusable
    | FileNotLocked
)
WatchEvent: TypeAlias = (
    FilesReloaded | FilesRecovered | FilesUnusable | ClusterCompared | CheckFailed | MetricsNotWritten
)

Warn = Callable[[AlertWarning], None]
"""Called with each warning."""
Log = Callable[[WatchEvent], None]
"""Called with each event."""
