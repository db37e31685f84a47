"""`quotaform explain`, and that what it says is what is planned."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yaml import safe_dump

from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError, UndeclaredError
from quotaform.repository.repository import Repository
from quotaform.resolve.explain import explain
from quotaform.resolve.report import render_explained
from quotaform.resolve.run import explain_entity
from tests.loading import files_of

TODAY = date(2026, 12, 31)
PROFILES = {"gold": {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}, "silver": {"request_percentage": 7.0}}
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
ALICE = Entity(user="a")


def write(folder: Path, **files: str) -> Repository:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Repository.at(folder / "quotas.d", None)


ENTRY = "quotas:\n  - match: {user: %s}\n    values: {producer_byte_rate: 1}\n"
CLUSTERS = "clusters:\n  lab: {bootstrap_servers: [b:9092]}\n  prod: {bootstrap_servers: [b:9092]}\n"


def test_an_entity_that_no_file_declares_names_the_nearest_that_are(tmp_path: Path) -> None:
    repository = write(tmp_path, quotas_d="", **{"quotas.d__a": ENTRY % "[svc-orders, etl]"})
    with pytest.raises(UndeclaredError, match=r"^no file declares user=svc-ordres; did you mean user=svc-orders\?$"):
        explain_entity(repository, Entity(user="svc-ordres"), (), TODAY)


def test_nothing_near_is_guessed_at(tmp_path: Path) -> None:
    repository = write(tmp_path, **{"quotas.d__a": ENTRY % "a"})
    with pytest.raises(UndeclaredError, match=r"^no file declares ip=10\.0\.0\.1$"):
        explain_entity(repository, Entity(ip="10.0.0.1"), (), TODAY)
    (tmp_path / "etl").mkdir()
    etl = write(tmp_path / "etl", **{"quotas.d__a": ENTRY % "svc-etl"})
    with pytest.raises(UndeclaredError, match=r"^no file declares user=svc-nope$"):
        explain_entity(etl, Entity(user="svc-nope"), (), TODAY)
    (tmp_path / "batch").mkdir()
    batch = write(tmp_path / "batch", **{"quotas.d__a": ENTRY % "orders-batch"})
    with pytest.raises(UndeclaredError, match=r"^no file declares user=nosuch$"):
        explain_entity(batch, Entity(user="nosuch"), (), TODAY)


def test_every_cluster_has_its_section_and_may_be_chosen(tmp_path: Path) -> None:
    repository = write(tmp_path, quotaform=CLUSTERS, **{"quotas.d__prod__a": ENTRY % "a"})
    assert [(one.cluster, one.cause) for one in explain_entity(repository, ALICE, (), TODAY).clusters] == [
        ("lab", "undeclared"),
        ("prod", "entry"),
    ]
    assert [one.cluster for one in explain_entity(repository, ALICE, ["p*"], TODAY).clusters] == ["prod"]
    with pytest.raises(UndeclaredError):
        explain_entity(repository, ALICE, ["lab"], TODAY)


def test_invalid_files_are_not_explained(tmp_path: Path) -> None:
    repository = write(tmp_path, quotaform=CLUSTERS, **{"quotas.d__a": ENTRY % "a", "quotas.d__lab__a": ENTRY % "007"})
    with pytest.raises(InvalidFilesError, match="1 problem found"):
        explain_entity(repository, ALICE, ["lab"], TODAY)
    assert len(explain_entity(repository, ALICE, ["prod"], TODAY).clusters) == 1


def test_invalid_files_of_one_cluster_do_not_hide_the_others(tmp_path: Path) -> None:
    """One invalid file of one cluster made the whole command fail."""
    repository = write(tmp_path, quotaform=CLUSTERS, **{"quotas.d__a": ENTRY % "a", "quotas.d__lab__a": ENTRY % "007"})
    explained = explain_entity(repository, ALICE, (), TODAY)
    assert [one.cluster for one in explained.clusters] == ["prod"]
    assert [(one.cluster, type(one.error)) for one in explained.failed] == [("lab", InvalidFilesError)]


def test_an_entity_that_may_be_in_invalid_files_is_not_called_undeclared(tmp_path: Path) -> None:
    repository = write(tmp_path, quotaform=CLUSTERS, **{"quotas.d__a": ENTRY % "b", "quotas.d__lab__a": ENTRY % "007"})
    with pytest.raises(InvalidFilesError, match="1 problem found"):
        explain_entity(repository, ALICE, (), TODAY)


def test_a_problem_of_the_common_files_is_named_once(tmp_path: Path) -> None:
    repository = write(tmp_path, quotaform=CLUSTERS, **{"quotas.d__a": ENTRY % "007", "quotas.d__lab__a": ENTRY % "a"})
    with pytest.raises(InvalidFilesError, match="1 problem found"):
        explain_entity(repository, ALICE, (), TODAY)


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
    explained = explain("prod", ALICE, files.layers_of("prod", ALICE), merged, PROFILES, TODAY)
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


def test_a_tombstone_of_the_common_layer_is_listed_where_a_cluster_declares_values(tmp_path: Path) -> None:
    """Nothing told that the common files want the entity to be absent, as no key had been named before."""
    absent = "quotas:\n  - match: {user: a}\n    state: absent\n"
    repository = write(tmp_path, quotaform=CLUSTERS, **{"quotas.d__a": absent, "quotas.d__lab__a": ENTRY % "a"})
    lab, prod = explain_entity(repository, ALICE, (), TODAY).clusters
    (key,) = lab.keys
    assert [(step.giver, step.layer, step.value) for step in key.steps] == [
        ("tombstone", None, None),
        ("values", "lab", 1.0),
    ]
    assert (prod.absent, prod.keys) == ("state: absent", ())


def test_a_coming_expiry_is_shown_and_a_past_one_is_a_step(tmp_path: Path) -> None:
    """The day on which an entry would end was nowhere to be seen before it came."""
    coming = ENTRY % "a" + "    expires: 2027-01-31\n"
    repository = write(tmp_path, **{"quotas.d__a": coming})
    (section,) = explain_entity(repository, ALICE, (), TODAY).clusters
    (text,) = section.texts
    assert (text.field, text.text, str(text.location), text.is_replaced) == (
        "expires", "2027-01-31", f"{(tmp_path / 'quotas.d/a.yaml').as_posix()}:2:5", False,
    )  # fmt: skip
    rendered = render_explained(explain_entity(repository, ALICE, (), TODAY))
    assert "    expires 2027-01-31   (common, " in rendered
    (section,) = explain_entity(repository, ALICE, (), date(2027, 1, 31)).clusters
    assert (section.absent, section.texts) == ("expired 2027-01-31", ())
