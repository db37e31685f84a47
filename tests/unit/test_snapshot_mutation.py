"""A snapshot that somebody changed is refused with its problems, or is a snapshot."""

from __future__ import annotations

from json import dumps, loads
from typing import Any

import pytest

from quotaform.cluster.snapshot import dump_snapshot, load_snapshot
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.quotas import Snapshot
from tests.builder import PRODUCER
from tests.unit.test_planfile_mutation import VALUES, Path, at, paths

DOCUMENT: dict[str, Any] = loads(
    dump_snapshot(
        Snapshot(
            cluster_name="lab",
            cluster_id="3JxQ0v7pT2a",
            captured_at="2026-11-20T09:12:44Z",
            quotas={Entity(user="alice"): {PRODUCER: 1.0}, Entity(user=None, client_id="b"): {PRODUCER: float("nan")}},
        )
    )
)


def require_harmless(text: str, what: str) -> None:
    """Load a snapshot: it is refused with messages of one line each, or can be written again."""
    try:
        snapshot = load_snapshot(text, "lab.json")
    except InvalidFilesError as refused:
        lines = str(refused).splitlines()
    else:
        lines = []
        assert load_snapshot(dump_snapshot(snapshot), "lab.json").cluster_id == snapshot.cluster_id, what
    assert all(line.isprintable() and len(line) < 400 for line in lines), (what, lines)


@pytest.mark.parametrize("path", [path for path in paths(DOCUMENT) if path], ids=lambda path: ".".join(map(str, path)))
def test_no_value_in_any_place_of_a_snapshot_is_an_internal_error(path: Path) -> None:
    """Plan files ended in internal errors where a value had another type; snapshots are read with the same care."""
    for value in VALUES:
        document = loads(dumps(DOCUMENT))
        at(document, path[:-1])[path[-1]] = value
        require_harmless(dumps(document), f"{path}: {value!r:.60}")
    document = loads(dumps(DOCUMENT))
    del at(document, path[:-1])[path[-1]]
    require_harmless(dumps(document), f"without {path}")
