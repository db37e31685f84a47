"""A new quota key is a new row of one table: everything else follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from json import loads

import pytest
from msgspec.structs import replace

from quotaform.cli.command.cluster import complete_quota_key, complete_value
from quotaform.cluster.report import render_quotas_text
from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.quota_key import PRODUCER_BYTE_RATE, QUOTA_KEYS
from quotaform.model.records.schema import gate, make_schema
from quotaform.plan.records import load_plan
from quotaform.plan.report import render_plan
from quotaform.report.format import schema_builder
from tests import builder
from tests.builder import dumped_plan
from tests.loading import load, load_schema
from tools.key_table import render_table

NAME = "fetch_scan_rate"
ALICE = Entity(user="alice")


@pytest.fixture(autouse=True)
def new_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The table with one more row."""
    row = replace(
        PRODUCER_BYTE_RATE, name=NAME, limits="Bytes per second that fetches may read from disk", examples=("3MiB/s",)
    )
    monkeypatch.setitem(QUOTA_KEYS, NAME, row)
    caches = (make_schema, gate)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def declared(values: str) -> dict[Entity, dict[str, float]]:
    text = f"quotas:\n  - match: {{user: alice}}\n    values: {{{values}}}\n"
    entries = load([SourceFile("a.yaml", text)], {}, date(2026, 11, 20))
    return {entity: dict(entry.values) for entity, entry in entries.items()}


def test_files_may_hold_it_in_units_and_what_is_none_of_it_is_refused_in_its_words() -> None:
    assert declared(f"{NAME}: 2MiB/s") == {ALICE: {NAME: 2097152.0}}
    assert declared(f"{NAME}: unlimited") == {ALICE: {NAME: 2.0**63}}
    with pytest.raises(InvalidFilesError, match="not a whole number of bytes per second"):
        declared(f"{NAME}: 0.3B/s")
    with pytest.raises(InvalidFilesError, match="did you mean fetch_scan_rate"):
        declared("fetch_scan_rat: 1")


def test_it_is_planned_shown_with_its_unit_and_read_back() -> None:
    plan = builder.plan_of({ALICE: {NAME: 2097152.0}}, {ALICE: {NAME: 1048576.0}, Entity(user="b"): {NAME: 5.0}})
    text = "".join(render_plan(plan, shows_unmanaged=True))
    assert f"~ {NAME} = 1 MiB/s -> 2 MiB/s" in text
    assert f"{NAME} = 5 B/s" in text
    written = dumped_plan(plan)
    assert gate(schema_builder("plan")).is_valid(loads(written))
    assert load_plan(written, "plan.json").changes == plan.changes


def test_a_key_that_files_no_longer_hold_is_removed() -> None:
    [change] = builder.plan_of({ALICE: {"producer_byte_rate": 1.0}}, {ALICE: {NAME: 1.0}}).changes
    assert [(row.key, row.after) for row in change.changes] == [("producer_byte_rate", 1.0), (NAME, None)]


def test_it_is_resolved_and_described() -> None:
    quotas = {Entity(user=None): {NAME: 1048576.0}}
    request = Entity(user="alice", client_id="x")
    found = builder.resolve_entities(quotas, [request])[request][NAME]
    assert (found.value, found.source) == (1048576.0, Entity(user=None))
    assert f"{NAME}" in render_quotas_text(builder.described(quotas))
    assert "1 MiB/s" in render_quotas_text(builder.described(quotas))


@pytest.mark.parametrize("name", ["quotas", "config"])
def test_editors_complete_and_check_it(name: str) -> None:
    described = load_schema(name)["definitions"]["values"]["properties"][NAME]
    assert described["description"].startswith("Bytes per second that fetches may read from disk, per broker (KIP-13).")
    assert described["examples"] == ["3MiB/s", "unlimited"]
    document = {"quotas": [{"match": {"user": "a"}, "values": {NAME: "5 apples"}}]}
    assert not gate(schema_builder("quotas")).is_valid(document)


def test_the_docs_list_it_and_shells_complete_it() -> None:
    assert complete_quota_key("fetch") == [NAME]
    assert complete_value("producer_byte_rate=1,fetch") == [f"producer_byte_rate=1,{NAME}="]
    assert f"| `{NAME}` | `3MiB/s` | Bytes per second that fetches may read from disk | broker |" in render_table()
