"""Every declared value knows the place, the layer and the profile that it comes from."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.desired.quotas_file import load_file
from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.quotas import Entry
from tests.loading import load

TODAY = date(2026, 12, 31)
PROFILES = {"gold": {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}}
BROKEN = "  - match: {user: 007}\n    values: {producer_byte_rate: 1}\n"
"""With this the file is read a second time, with all details."""


def origins(entry: Entry) -> dict[str, tuple[str, str | None, str | None]]:
    return {key: (str(found.location), found.layer, found.profile) for key, found in entry.provenances().items()}


def entries(text: str, layer: str | None = None) -> dict[Entity, Entry]:
    file = load_file(SourceFile("a.yaml", text, layer), PROFILES)
    return {entry.entity: entry for entry in file.entries}


@pytest.mark.parametrize("more", ["", BROKEN], ids=["read quickly", "read with details"])
def test_a_value_is_where_its_key_is(more: str) -> None:
    text = f"""\
quotas:
  - match: {{user: [a, b]}}
    values:
      consumer_byte_rate: 2
      producer_byte_rate: 1
{more}"""
    both = entries(text, "prod")
    expected = {"consumer_byte_rate": ("a.yaml:4:7", "prod", None), "producer_byte_rate": ("a.yaml:5:7", "prod", None)}
    assert origins(both[Entity(user="a")]) == origins(both[Entity(user="b")]) == expected


@pytest.mark.parametrize("more", ["", BROKEN], ids=["read quickly", "read with details"])
def test_a_value_of_a_profile_is_where_the_profile_is_named(more: str) -> None:
    text = f"quotas:\n  - match: {{user: a}}\n    profile: gold\n    values: {{producer_byte_rate: 1}}\n{more}"
    assert origins(entries(text)[Entity(user="a")]) == {
        "producer_byte_rate": ("a.yaml:4:14", None, None),
        "consumer_byte_rate": ("a.yaml:3:5", None, "gold"),
    }


@pytest.mark.parametrize("more", ["", BROKEN], ids=["read quickly", "read with details"])
def test_what_is_merged_or_aliased_is_where_it_is_written(more: str) -> None:
    text = f"""\
quotas:
  - match: {{user: a}}
    values: &small {{producer_byte_rate: 1}}
  - match: {{user: b}}
    values: *small
  - match: {{user: c}}
    values: {{<<: [{{request_percentage: 1}}, *small], consumer_byte_rate: 3}}
  - &entry
    match: {{user: d}}
    profile: gold
  - <<: *entry
    match: {{user: e}}
{more}"""
    found = {entity.address: origins(entry) for entity, entry in entries(text).items()}
    assert found["user=b"] == found["user=a"] == {"producer_byte_rate": ("a.yaml:3:21", None, None)}
    assert found["user=c"] == {
        "consumer_byte_rate": ("a.yaml:7:53", None, None),
        "request_percentage": ("a.yaml:7:20", None, None),
        "producer_byte_rate": ("a.yaml:3:21", None, None),
    }
    assert found["user=e"] == found["user=d"]
    assert found["user=e"]["producer_byte_rate"] == ("a.yaml:10:5", None, "gold")


def test_layers_keep_where_each_value_comes_from() -> None:
    common = "quotas:\n  - match: {user: a}\n    profile: gold\n    values: {request_percentage: 1}\n"
    above = "quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 2}\n"
    desired = load([SourceFile("a.yaml", common), SourceFile("prod/b.yaml", above, "prod")], PROFILES, TODAY)
    assert origins(desired[Entity(user="a")]) == {
        "producer_byte_rate": ("prod/b.yaml:3:14", "prod", None),
        "consumer_byte_rate": ("a.yaml:3:5", None, "gold"),
        "request_percentage": ("a.yaml:4:14", None, None),
    }


KEYS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage"]
ITEMS = st.fixed_dictionaries(
    {"values": st.dictionaries(st.sampled_from(KEYS), st.integers(1, 9), min_size=1, max_size=3)},
    optional={"profile": st.just("gold"), "owner": st.just("x")},
)


@given(st.lists(ITEMS, max_size=5), st.booleans())
def test_at_the_place_of_a_value_stands_its_key_or_profile(items: list[dict[str, Any]], is_broken: bool) -> None:
    text = "quotas:\n"
    for number, item in enumerate(items):
        text += f"  - match: {{user: u{number}}}\n"
        for field, value in item.items():
            written = "".join(f"\n      {key}: {one}" for key, one in value.items()) if field == "values" else value
            text += f"    {field}: {written}\n"
    lines = text.splitlines()
    for entry in entries(text + (BROKEN if is_broken else "")).values():
        assert entry.provenances().keys() == entry.values.keys()
        for key, found in entry.provenances().items():
            word = lines[found.location.line - 1][found.location.column - 1 :]
            assert word.startswith("profile: gold" if found.profile else f"{key}:")
