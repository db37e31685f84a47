"""`quotaform explain`, and that what it says is what is planned."""

from __future__ import annotations

from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from yaml import safe_dump

from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.resolve.explain import explain
from tests.loading import files_of

TODAY = date(2026, 12, 31)
PROFILES = {"gold": {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}, "silver": {"request_percentage": 7.0}}
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
ALICE = Entity(user="a")


VALUES = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 9), min_size=1)
COMMON = st.fixed_dictionaries(
    {"values": VALUES},
    optional={
        "profile": st.sampled_from(list(PROFILES)),
        "expires": st.sampled_from(["2026-01-01", "2027-01-01"]),
        "owner": st.sampled_from("xy"),
    },
) | st.just({"state": "absent"})


@given(COMMON | st.none(), COMMON | st.none(), st.lists(st.sampled_from(KEYS), unique=True, min_size=1) | st.none())
def test_the_last_step_of_each_key_is_what_is_declared(
    common: dict[str, Any] | None, above: dict[str, Any] | None, unset: list[str] | None
) -> None:
    items = {None: common, "prod": above}
    if unset and above and "state" not in above and common and "state" not in common:
        given = {*common["values"], *PROFILES.get(common.get("profile", ""), {})}
        unset = [key for key in unset if key in given and key not in above["values"]]
        items["prod"] = {**above, "unset": unset} if unset else above
    files = files_of(
        [
            SourceFile(
                f"{layer}.yaml", safe_dump({"quotas": [{"match": {"user": "a"}, **item}]}, sort_keys=False), layer
            )
            for layer, item in items.items()
            if item is not None
        ],
        PROFILES,
        TODAY,
    )
    merged = files.desired("prod").get(ALICE)
    explained = explain("prod", files.layers_of("prod", ALICE), merged, PROFILES, TODAY)
    values = {key.key: key.value for key in explained.keys if key.value is not None}
    assert values == (dict(merged.values) if merged else {})
    for key in explained.keys:
        found = merged.provenance(key.key) if merged else None
        last = key.steps[-1]
        assert found is None or (found.location, found.layer, found.profile) == (
            last.location,
            last.layer,
            last.profile,
        )
    owners = [text.text for text in explained.texts if text.field == "owner" and not text.is_replaced]
    assert owners == ([merged.owner] if merged and merged.owner else [])
