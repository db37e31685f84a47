"""Resolving from Python, effects, files of requests, and `explain`: where values come from."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yaml import safe_dump

from quotaform.desired.loader import load_file
from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.plan.blast_radius import LimitDirection, Principals, make_blast_radius
from quotaform.resolve.effect import make_effects, value_text
from quotaform.resolve.explain import explain
from quotaform.resolve.index import QuotaIndex
from quotaform.resolve.quota_admin import QuotaAdmin
from quotaform.resolve.request_file import RequestFile
from quotaform.resolve.resolve import ResolveOptions, make_resolution
from tests.builder import CONNECTION, PRODUCER, REQUEST, plan_of
from tests.loading import files_of
from tests.scripted_gateway import ScriptedGateway

ALICE = Entity(user="alice")


def test_a_key_that_only_the_plan_removes_is_still_there() -> None:
    quotas = {ALICE: {"future_rate": 1.0}}
    rows = make_resolution(ALICE, QuotaIndex(quotas), QuotaIndex({}), ResolveOptions(keys=("future_rate",))).keys
    assert [(row.resolved.value, row.before and row.before.value) for row in rows] == [(None, 1.0)]


def test_one_is_resolved_as_many_are() -> None:
    admin = QuotaAdmin(ScriptedGateway({ALICE: {PRODUCER: 1.0}, Entity(user="alice", client_id=None): {PRODUCER: 3.0}}))
    found = admin.resolve(user="alice")
    assert found[PRODUCER].value == 3.0
    assert admin.resolve(user="alice", client_id="")[PRODUCER].value == 1.0
    assert admin.resolve_all([ALICE])[ALICE] == found


def test_names_whose_value_is_no_number_are_no_different_from_it() -> None:
    """NaN is not equal to itself, so that all of them were counted."""
    nan = {PRODUCER: float("nan")}
    quotas = {Entity(user="a"): nan, Entity(user="a", client_id="x"): {PRODUCER: float("nan")}, Entity(user="b"): nan}
    for entity in (Entity(user="a"), Entity(user=None)):
        ((effect,),) = make_effects(quotas, {entity: {PRODUCER: float("nan")}}, [(entity, (PRODUCER,))])
        assert effect.differs == {}


def test_a_value_of_an_unknown_key_is_a_plain_number() -> None:
    values = ("future_rate", 1e20), (REQUEST, 12.5), (PRODUCER, float("nan"))
    assert [value_text(*each) for each in values] == ["100000000000000000000", "12.5%", "NaN"]


def test_another_spelling_of_an_address_takes_the_place_of_an_entry_with_keys_that_do_not_change() -> None:
    """Only the keys of the changed entries were compared."""
    actual = {Entity(ip="::ffff:10.0.0.1"): {CONNECTION: 5.0}}
    changes = plan_of({Entity(ip="10.0.0.1"): {"future_rate": 1.0}}, actual).changes
    principals = Principals.of("list", [Entity(ip="10.0.0.1")])
    row, *_ = make_blast_radius(principals, actual, changes, file="all.csv")[1]()
    assert (row.key, row.direction) == (CONNECTION, LimitDirection.NO_LONGER_LIMITED)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"user\n" + b"x" * 200_000, "asked.csv:2: error: this is not CSV: a field is larger than 131,072 characters"),
        (b'{"user": ' + b"[" * 100_000, "asked.csv:1: error: this line is not a JSON object"),
        (None, r"absent.csv: error: it cannot be read: No such file"),
    ],
)
def test_what_cannot_be_read_or_is_too_much_is_said(tmp_path: Path, content: bytes | None, words: str) -> None:
    with pytest.raises(InvalidFilesError) as refused:
        RequestFile.read(tmp_path / "absent.csv") if content is None else RequestFile(content, "asked.csv")
    assert words in str(refused.value)


def test_a_million_bad_lines_have_a_hundred_problems() -> None:
    """Every line of a file of requests that was wrong was reported, however many there were."""
    with pytest.raises(InvalidFilesError) as refused:
        RequestFile(b"user\n" + b"a,b\n" * 1_000_000, "requests.csv")
    assert len(refused.value.problems) == 101
    assert "and more" in str(refused.value.problems[-1])


TODAY = date(2026, 12, 31)
PROFILES = {"gold": {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}}


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
            word = lines[found.line - 1][found.column - 1 :]
            is_given = entry.profile is not None and found == entry.profile.location
            assert word.startswith("profile: gold" if is_given else f"{key}:")


BOTH_PROFILES = {"gold": {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}, "silver": {"request_percentage": 7.0}}
ENTITY = Entity(user="a")


VALUES = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 9), min_size=1)
COMMON = st.fixed_dictionaries(
    {"values": VALUES},
    optional={
        "profile": st.sampled_from(list(BOTH_PROFILES)),
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
        given = {*common["values"], *BOTH_PROFILES.get(common.get("profile", ""), {})}
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
        BOTH_PROFILES,
        TODAY,
    )
    merged = files.desired("prod").get(ENTITY)
    explained = explain("prod", files.layers_of("prod", ENTITY), merged, BOTH_PROFILES, TODAY)
    values = {key.key: key.value for key in explained.keys if key.value is not None}
    assert values == (dict(merged.values) if merged else {})
    for key in explained.keys:
        found = merged.provenances().get(key.key) if merged else None
        assert found in (None, key.steps[-1].location)
    owners = [text.text for text in explained.texts if text.field == "owner" and not text.is_replaced]
    assert owners == ([merged.owner] if merged and merged.owner else [])
