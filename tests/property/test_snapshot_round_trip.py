"""Whatever a broker can hold survives a snapshot."""

from __future__ import annotations

from dataclasses import replace
from json import loads

from hypothesis import given
from hypothesis import strategies as st

from quotaform.cluster.snapshot import dump_snapshot, load_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Snapshot, same_values

TEXT = st.text(max_size=12) | st.sampled_from(["<default>", "", "a,b=c", 'a"b', "\u2028", "é", "e\u0301", "\U0001f600"])
NAMES = st.dictionaries(st.sampled_from(["user", "client-id", "ip", "group", ""]), st.none() | TEXT, min_size=1)
VALUES = st.dictionaries(
    st.sampled_from(["producer_byte_rate", "request_percentage"]) | TEXT,
    st.floats() | st.integers(0, 2**63).map(float) | st.sampled_from([5e-324, 1e308, 0.1 + 0.2, 2.0**63]),
    min_size=1,
    max_size=4,
)
SNAPSHOTS = st.builds(
    Snapshot,
    cluster_name=TEXT,
    cluster_id=TEXT,
    captured_at=TEXT,
    quotas=st.dictionaries(NAMES.map(Entity), VALUES, max_size=6),
)


@given(SNAPSHOTS)
def test_a_snapshot_reads_back_as_it_was(snapshot: Snapshot) -> None:
    text = dump_snapshot(snapshot)
    read = load_snapshot(text, "f")
    assert (read.cluster_name, read.cluster_id) == (snapshot.cluster_name, snapshot.cluster_id)
    assert read.quotas.keys() == snapshot.quotas.keys()
    assert all(same_values(read.quotas[entity], values) for entity, values in snapshot.quotas.items())
    assert dump_snapshot(read) == text
    turned = {
        entity: dict(reversed(list(values.items()))) for entity, values in reversed(list(snapshot.quotas.items()))
    }
    assert dump_snapshot(replace(snapshot, quotas=turned)) == text, "neither order shows"


@given(SNAPSHOTS)
def test_a_snapshot_is_json_for_everybody_with_one_line_per_entity(snapshot: Snapshot) -> None:
    text = dump_snapshot(snapshot)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert len(loads(text, parse_constant=refuse)["quotas"]) == len(snapshot.quotas)
    assert len(text.splitlines()) == 7 + len(snapshot.quotas) + (1 if snapshot.quotas else 0)
