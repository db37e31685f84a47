"""What drift logs beside its result: one line for each warning and each event."""

from __future__ import annotations

from quotaform.core.drift.drift import Drift
from quotaform.core.drift.log_event import (
    AlertWarning,
    CheckFailed,
    ClusterCompared,
    FileNotLocked,
    FilesRecovered,
    FilesReloaded,
    FilesUnusable,
    MetricsNotWritten,
    MetricsUnusable,
    NotificationFailed,
    ReceiverRecovered,
    StateNotWritten,
    StateOfOtherCluster,
    StateUnusable,
    WatchEvent,
)
from quotaform.errors import InvalidFilesError, QuotaformError
from quotaform.model.entity import spell_name
from quotaform.views.drift.drift_text import summary_line


def warning_text(warning: AlertWarning) -> str:
    """Return a warning as a line, without `Warning:`."""
    match warning:
        case StateUnusable():
            return f"{_unusable(warning)}; notifications begin anew"
        case StateNotWritten():
            return f"{warning.path} cannot be written: {warning.reason}; notifications may be repeated"
        case StateOfOtherCluster():
            return (
                f"{spell_name(warning.cluster)}: what is remembered is of another cluster "
                f"({spell_name(warning.cluster_id)}); notifications about it begin anew"
            )
        case NotificationFailed():
            return f"{spell_name(warning.cluster)}: not notified: {warning.error}. The next run tries again"
        case ReceiverRecovered():
            return f"{warning.origin} is notified again"
        case MetricsUnusable():
            return f"{_unusable(warning)}; earlier metrics in it are lost"
        case FileNotLocked():
            return (
                f"{warning.path} is written without a lock, because another process keeps its folder locked; "
                "what other runs write to it at the same time may be lost"
            )


def event_text(event: WatchEvent) -> str:
    """Return an event of a watch as a line, without its time."""
    match event:
        case FilesReloaded():
            return "the files have changed and were read again"
        case FilesRecovered():
            return "the files can be used again"
        case FilesUnusable():
            return f"the files cannot be used: {_on_one_line(event.error)}"
        case ClusterCompared():
            return f"{spell_name(event.cluster)}: {_summary(event.drift)}"
        case CheckFailed():
            return f"{spell_name(event.cluster)}: {_on_one_line(event.reason)}"
        case MetricsNotWritten():
            return _on_one_line(event.error)


def _unusable(warning: StateUnusable | MetricsUnusable) -> str:
    return f"{warning.path} cannot be {'used' if warning.is_read else 'read'}: {warning.reason}"


def _summary(drift: Drift) -> str:
    return summary_line(drift.summary, drift.in_sync, pending=len(drift.pending), ignored=drift.ignored_entities)


def _on_one_line(reason: QuotaformError | str) -> str:
    """Return what is wrong as one line: of invalid files the first problem, and how many more there are."""
    if isinstance(reason, InvalidFilesError) and reason.problems:
        more = len(reason.problems) - 1
        return f"{reason.problems[0]}{f' (and {more:,} more)' if more else ''}"
    return "; ".join(str(reason).splitlines())
