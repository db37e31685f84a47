"""Every declared value knows the place, the layer and the profile that it comes from."""

from __future__ import annotations

from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quotaform.desired.quotas_file import load_file
from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.quotas import Entry
from tests.loading import load

TODAY = date(2026, 12, 31)
PROFILES = {"gold": {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}}


def origins(entry: Entry) -> dict[str, tuple[str, str | None, str | None]]:
    return {key: (str(found.location), found.layer, found.profile) for key, found in entry.provenances().items()}


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


@given(st.lists(ITEMS, max_size=5))
def test_at_the_place_of_a_value_stands_its_key_or_profile(items: list[dict[str, Any]]) -> None:
    text = "quotas:\n"
    for number, item in enumerate(items):
        text += f"  - match: {{user: u{number}}}\n"
        for field, value in item.items():
            written = "".join(f"\n      {key}: {one}" for key, one in value.items()) if field == "values" else value
            text += f"    {field}: {written}\n"
    lines = text.splitlines()
    for entry in load_file(SourceFile("a.yaml", text), PROFILES).entries:
        assert entry.provenances().keys() == entry.values.keys()
        for key, found in entry.provenances().items():
            word = lines[found.location.line - 1][found.location.column - 1 :]
            assert word.startswith("profile: gold" if found.profile else f"{key}:")
