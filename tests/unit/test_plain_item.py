"""Plain items: what is read quickly is what is read in full."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from quotaform.desired.declaration import TRACKED, EntryReader, PlainItemReader
from quotaform.desired.report import FileReport
from quotaform.desired.shape import has_shape
from quotaform.desired.yaml.reader import read_document
from quotaform.model.entry import Entry, LayerFile

FILE = LayerFile("quotas.d/a.yaml", "lab")
PROFILES = {"gold": {"producer_byte_rate": 5.0}}

NAMES = ["svc-a", "CN=a b,O=c", "<default>", "User:a", " a", "a ", "a*", "10.0.0.1", "Å", "${env:A}", "a\n", "a" * 300]
RAW = ["1MiB/s", "5%", "1", "1.0", "unlimited", "0", "1Mb/s", "007", "1:30", "", 1, 1.0, 1.5, 0, 5]
KEYS = ["producer_byte_rate", "request_percentage", "connection_creation_rate", "no_such_key"]
EXTRAS = {
    "owner": "team",
    "reason": "why",
    "profile": "gold",
    "state": "present",
    "expires": "2027-01-01",
    "unset": ["consumer_byte_rate"],
}
MATCHES = [
    *({entity_type: name} for entity_type in ("user", "client-id", "ip") for name in NAMES),
    *({"user": "a", "client-id": name} for name in NAMES),
    *({"client-id": name, "user": "<default>"} for name in NAMES),
    {"user": ["a"]},
    {"user": {"name": "<default>"}},
]
VALUES = [{"producer_byte_rate": "5", key: raw} for key in KEYS for raw in RAW]
ITEMS: list[dict[str, Any]] = [
    *({"match": match, "values": {"producer_byte_rate": "5"}} for match in MATCHES),
    *({"match": {"user": "a"}, "values": values} for values in VALUES),
    *({"match": {"user": "a"}, "values": {"producer_byte_rate": "5"}, name: text} for name, text in EXTRAS.items()),
    {"match": {"user": "a"}, "values": {}},
]


def read_quickly(text: str) -> list[list[Entry] | None] | None:
    """The entries of each item, `None` for one that is not plain; `None` when no item may be."""
    document = read_document(FILE.name, text, tracked=TRACKED)
    if document.odd or not has_shape("quotas", document):
        return None
    root: Any = document.root
    reader = PlainItemReader(lambda values: values)
    starts = document.starts[id(root["quotas"])]
    found = [reader.read(item, document, FILE, at) for item, at in zip(root["quotas"], starts, strict=True)]
    return [None if entry is None else [entry] for entry in found]


def read_in_full(text: str) -> list[list[Entry]]:
    """The entries of each item; none of one with a problem or a warning."""
    document = read_document(FILE.name, text, detailed=True, tracked=TRACKED)
    root: Any = document.root
    starts = document.starts[id(root["quotas"])]
    result = []
    for index, item in enumerate(root["quotas"]):
        report, entries = FileReport(document), list[Entry]()
        EntryReader(PROFILES).read_item(item, report.at("quotas", index), FILE, starts[index], entries)
        result.append([] if report.findings.all() else entries)
    return result


@pytest.mark.parametrize("item", ITEMS, ids=str)
def test_a_plain_item_is_the_entry_that_reading_it_in_full_makes(item: dict[str, Any]) -> None:
    text = yaml.safe_dump({"quotas": [item]}, sort_keys=False, allow_unicode=True)
    (quick,) = read_quickly(text) or [None]
    assert quick is None or [quick] == read_in_full(text)


def test_values_that_are_equal_and_not_the_same_are_read_apart() -> None:
    """1 and 1.0 are equal, and so are texts and numbers that were read before them."""
    items = [{"match": {"user": "a"}, "values": {"producer_byte_rate": raw}} for raw in (1, 1.0, 1, "1", "1.0", 1.0)]
    text = yaml.safe_dump({"quotas": items}, sort_keys=False)
    found = [(quick, full) for quick, full in zip(read_quickly(text) or (), read_in_full(text), strict=True) if quick]
    assert found
    assert all(quick == full for quick, full in found)


def test_what_nearly_every_file_holds_is_plain() -> None:
    values = {"producer_byte_rate": "1MiB/s", "request_percentage": 25}
    matches: list[dict[str, Any]] = [
        {"user": "svc-a"},
        {"client-id": "<default>"},
        {"client-id": "etl", "user": "CN=a,O=b c"},
    ]
    text = yaml.safe_dump({"quotas": [{"match": match, "values": values, "owner": "team"} for match in matches]})
    quick = read_quickly(text)
    assert quick == read_in_full(text)
