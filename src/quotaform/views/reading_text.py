"""Which cluster was read and when: the parts of a header that several views share."""

from __future__ import annotations

from quotaform.model.entity import spell_name
from quotaform.model.snapshot import SnapshotFile
from quotaform.model.text import inert
from quotaform.views.style import PLAIN, Style


def cluster_line(cluster: str, style: Style = PLAIN) -> str:
    """Return the line that begins what is about a cluster."""
    return f"Cluster  {style.paint(spell_name(cluster), 'bold')}"


def cluster_text(name: str, cluster_id: str, server: str | None, style: Style = PLAIN) -> str:
    """Return which cluster was read, and whose files it was compared with when an address stood for a cluster.

    >>> cluster_text("lab", "3JxQ", None), cluster_text("lab", "3JxQ", "b:9092")
    ('lab (id 3JxQ)', 'b:9092 (id 3JxQ, files of lab)')

    Args:
        name: What the files call the cluster.
        server: The address, if one was given that stands for the cluster.
    """
    shown = style.paint(spell_name(name) if server is None else inert(server), "bold")
    files = "" if server is None else f", files of {spell_name(name)}"
    return f"{shown} (id {spell_name(cluster_id)}{files})"


def reading_text(read_at: str, snapshot: SnapshotFile | None) -> str:
    """Return how old the values are. `read_at` is when the cluster or the snapshot was read.

    >>> reading_text("2026-11-21T19:36:59Z", None)
    'Live state read 2026-11-21T19:36:59Z'
    >>> reading_text("2026-11-21T19:36:59Z", SnapshotFile("snapshots/a.json", "2026-11-20T09:12:44Z"))
    'Snapshot snapshots/a.json, captured 2026-11-20T09:12:44Z'
    """
    if snapshot is None:
        return f"Live state read {inert(read_at)}"
    path = f"{inert(snapshot.path)}, " if snapshot.path else ""
    return f"Snapshot {path}captured {inert(snapshot.captured_at) or 'at an unknown time'}"
