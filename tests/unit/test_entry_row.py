"""Rows of a table of desired quotas: what they declare does not depend on their order, and bad data deletes nothing.

A value without a key, as an outer join leaves it, was taken for `state: absent`; owner, reason and expires came from
whichever row a shuffle delivered first; and expires was written into YAML as it was.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.core.check import rule
from quotaform.desired.entry_row import EntryRow, load_rows
from quotaform.desired.loaded_file import LoadedFile
from quotaform.desired.merge import conclude
from quotaform.model.address import parse_address
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause, LayerFile
from quotaform.model.finding import Severity
from tests.builder import CONSUMER, PRODUCER, REQUEST

TODAY = date(2026, 11, 22)
FILE = LayerFile("table t, cluster lab")
ALICE = "user=alice"


def loaded(*rows: EntryRow) -> LoadedFile:
    return load_rows(rows, FILE, TODAY)


def row(key: str | None = PRODUCER, value: float | str | None = 1.0, **texts: str | None) -> EntryRow:
    return EntryRow(**{"entity_key": ALICE, "key": key, "value": value, **texts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([row(None, 5.0)], "user=alice: a row has the value 5 and no key; add the key, or remove the row"),
        ([row(), row(None, 5.0)], "user=alice: a row has the value 5 and no key"),
        ([row(), row(None, None)], "user=alice: of its 2 rows 1 have no key, which means"),
        ([row(None, None), row(None, None)], "user=alice: there are 2 rows without a key; keep one of them"),
        ([row(value=1.0), row(value=2.0)], 'user=alice: "producer_byte_rate" is in 2 rows (value: 1, 2)'),
        ([row(value=1.0), row(value=1.0)], 'user=alice: "producer_byte_rate" is in 2 rows (value: 1)'),
        (
            [row(expires="2020-01-01"), row(CONSUMER)],
            'user=alice: the rows differ in expires ("2020-01-01", null); give all of them the same',
        ),
        ([row(owner="a"), row(CONSUMER, owner="b")], 'user=alice: the rows differ in owner ("a", "b")'),
        ([row(reason="a"), row(CONSUMER, reason="")], 'user=alice: the rows differ in reason ("", "a")'),
        ([row(entity_key=None)], 'there is a row without entity_key (key: "producer_byte_rate"); add the entity'),
        ([row(None, None, entity_key=None)] * 2, "there are 2 rows without entity_key (key: null)"),
        ([row(None, None, expires="2027-01-01")], 'must not exist, but it expires on "2027-01-01"; add the key'),
        ([row(None, None, expires="2020-01-01 # x")], 'must not exist, but it expires on "2020-01-01 # x"'),
        ([row(expires="2030-01-01 # x")], 'user=alice: expires: "2030-01-01 # x" is not a date'),
        ([row(expires="2030-01-01\n  - match: {user: m}\n    state: absent")], "user=alice: expires: "),
        ([row(value=float("nan"))], 'user=alice producer_byte_rate: "nan" is not a value'),
        ([row(value=float("inf"))], 'user=alice producer_byte_rate: "inf" is not a value'),
        ([row(value=-1.0)], "user=alice producer_byte_rate: "),
        ([row(value=0.5)], "user=alice producer_byte_rate: 0.5 is not a whole number"),
        ([row(value="9007199254740993")], "cannot be represented exactly as a double"),
        ([row(value="1, 2")], 'user=alice producer_byte_rate: "1, 2" is not in a unit'),
        ([row(value=None)], "user=alice producer_byte_rate: there is no value"),
        ([row("")], 'user=alice: unknown quota key ""'),
        ([row("producer_byte_rte")], 'user=alice: unknown quota key "producer_byte_rte"'),
        ([row(owner="")], "user=alice: owner must not be empty"),
        ([row(entity_key="alice")], 'entity_key: "alice" is not an address'),
        ([row(entity_key="")], "match must not be empty"),
        ([row(entity_key='user=""')], "empty name"),
        ([row(entity_key="team=a")], 'unknown entity type "team"'),
        ([row(entity_key="ip=10.0.0.0/8")], "ip=10.0.0.0/8: "),
        ([row(REQUEST, entity_key="ip=10.0.0.1")], "request_percentage is not valid for ip=10.0.0.1"),
    ],
)
def test_rows_that_cannot_be_meant_are_problems_and_delete_nothing(rows: list[EntryRow], problem: str) -> None:
    for given_rows in (rows, rows[::-1]):
        file = loaded(*given_rows)
        errors = [finding for finding in file.problems if finding.severity is Severity.ERROR]
        assert problem in " | ".join(finding.message for finding in errors)
        assert {str(finding.location) for finding in errors} == {FILE.name}
        assert [entry for entry in file.entries if entry.cause is Cause.TOMBSTONE] == []


def test_the_other_entities_are_declared() -> None:
    file = loaded(row(None, 5.0), row(entity_key="user=bob"), row(None, None, entity_key="user=carol"))
    assert [(entry.entity, entry.cause) for entry in file.entries] == [
        (Entity(user="bob"), Cause.ENTRY),
        (Entity(user="carol"), Cause.TOMBSTONE),
    ]
    assert [(finding.rule, finding.address) for finding in file.problems] == [(rule.TABLE_ROW.id, ALICE)]


def test_rows_are_what_a_file_with_the_same_entries_is() -> None:
    file = loaded(
        row(CONSUMER, "10MiB/s", entity_key="client-id=<default>,user=alice", owner="a", expires="2027-01-01"),
        row(PRODUCER, 2.0**63, entity_key="user=alice,client-id=<default>", owner="a", expires="2027-01-01"),
        row(REQUEST, 12.5, entity_key='user="<default>"', reason="a: b\n# c"),
        row(None, None, entity_key="user=bob", expires="2026-11-22"),
        row(CONSUMER, 5.0, entity_key="user=carol", expires="2026-11-22"),
    )
    desired, findings = conclude([file], TODAY)
    assert {finding.rule for finding in findings} <= {rule.EXPIRED.id, rule.ODD_NAME.id}
    both, named, bob, carol = (
        desired[entity]
        for entity in (
            Entity({"user": "alice", "client-id": None}),
            Entity(user="<default>"),
            Entity(user="bob"),
            Entity(user="carol"),
        )
    )
    assert both.values == {CONSUMER: 10.0 * 2**20, PRODUCER: 2.0**63}
    assert (both.owner, both.expires) == ("a", date(2027, 1, 1))
    assert (named.values, named.reason) == ({REQUEST: 12.5}, "a: b\n# c")
    assert (bob.absent, carol.absent) == ("state: absent", "expired 2026-11-22")


def test_of_very_many_problems_the_first_are_shown() -> None:
    file = loaded(*(row(None, 5.0, entity_key=f"user=u{number:04}") for number in range(500)))
    assert len(file.problems) == 101
    assert file.problems[-1].rule == rule.MORE_PROBLEMS.id


TEXTS = st.sampled_from([None, "a", "2020-01-01", "2030-01-01"])
ROWS = st.builds(
    EntryRow,
    entity_key=st.sampled_from([None, ALICE, "user=<default>", "user=a,client-id=b", "client-id=b,user=a", "bad"]),
    key=st.sampled_from([None, PRODUCER, CONSUMER, "x"]),
    value=st.sampled_from([None, 1.0, 5.0, float("nan"), "7"]),
    owner=TEXTS,
    reason=st.none(),
    expires=TEXTS,
)


@given(st.lists(ROWS, max_size=8).flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))))
def test_the_order_of_rows_does_not_matter(orders: tuple[list[EntryRow], list[EntryRow]]) -> None:
    first, second = (load_rows(rows, FILE, TODAY) for rows in orders)
    assert [str(finding) for finding in first.problems] == [str(finding) for finding in second.problems]
    assert first.entries == second.entries


@given(st.lists(ROWS, max_size=6))
def test_an_entity_is_absent_by_one_row_that_has_neither_key_nor_value(rows: list[EntryRow]) -> None:
    """Whatever else is wrong with rows, it deletes nothing."""
    known = [(parse_address(each.entity_key), each) for each in rows if each.entity_key and each.entity_key != "bad"]
    for entry in load_rows(rows, FILE, TODAY).entries:
        if entry.cause is Cause.TOMBSTONE:
            own = [(each.key, each.value) for entity, each in known if entity == entry.entity]
            assert own == [(None, None)]


def test_rows_have_the_columns_of_the_table() -> None:
    assert [each.name for each in fields(EntryRow)] == ["entity_key", "key", "value", "owner", "reason", "expires"]
