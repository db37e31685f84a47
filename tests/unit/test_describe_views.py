"""Quotas as text, JSON, CSV and the lines of KIP-546: equal input gives equal bytes, and no name forges a line."""

from __future__ import annotations

from json import loads
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from quotaform.cli.client_quotas import render_described
from quotaform.cluster.gateway import dump_snapshot
from quotaform.cluster.records import dump_described
from quotaform.cluster.report import render_quotas_csv, render_quotas_text
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, Snapshot
from quotaform.report.text import Style
from tests.builder import described
from tests.loading import load_schema

pytestmark = pytest.mark.exhaustive

TEXT = st.text(max_size=6)
ANYTHING = st.dictionaries(
    st.dictionaries(st.one_of(st.sampled_from(["user", "client-id", "ip"]), TEXT), st.none() | TEXT, min_size=1).map(
        Entity
    ),
    st.dictionaries(st.sampled_from(["producer_byte_rate", "request_percentage"]) | TEXT, st.floats(), min_size=1),
    max_size=5,
)
"""Whatever a broker may answer, and more."""


def views(quotas: Quotas) -> list[str]:
    of_cluster = (render_quotas_text, render_quotas_csv, dump_described)
    return [render_described(quotas), *(view(described(quotas)) for view in of_cluster)]


@given(ANYTHING)
def test_every_view_is_inert_and_does_not_depend_on_the_order(quotas: Quotas) -> None:
    again = dict(reversed(list(quotas.items())))
    found = views(quotas)
    assert found == views(again)
    assert all(line.isprintable() for text in found for line in text.split("\n"))
    values = sum(map(len, quotas.values()))
    assert render_quotas_csv(described(quotas)).count("\n") == 1 + values
    assert render_described(quotas).count("\n") == len(quotas)


@given(ANYTHING)
def test_json_is_always_as_its_schema_says_and_holds_what_a_snapshot_holds(quotas: Quotas) -> None:
    document = loads(dump_described(described(quotas)))
    Draft7Validator(load_schema("describe")).validate(document)
    snapshot = Snapshot(cluster_name="lab", cluster_id="id", captured_at="", quotas=quotas)
    kept = [{"entity": item["entity"], "values": item["values"]} for item in document["quotas"]]
    assert kept == loads(dump_snapshot(snapshot))["quotas"]


def test_the_schemas_are_valid_and_describe_every_field() -> None:
    for name in ("describe", "alter"):
        schema = load_schema(name)
        Draft7Validator.check_schema(schema)
        assert all(field.keys() & {"description", "$ref"} for field in schema["properties"].values())
        assert set(schema["required"]) == set(schema["properties"])


def test_odd_values_and_unknown_keys_are_shown_as_they_are() -> None:
    quotas = {Entity(user="a"): {"future_rate": 0.5, "producer_byte_rate": nan, "request_percentage": inf}}
    assert render_quotas_text(described(quotas), Style(True)) == (
        "\x1b[1muser=a\x1b[0m\n"
        "  producer_byte_rate        NaN\n"
        "  request_percentage        Infinity\n"
        "  future_rate               0.5\n"
        "\n"
        "1 entity, 3 values. Limits are per broker.\n"
    )


def test_the_scope_is_told_of_the_keys_that_are_there() -> None:
    mutation = {Entity(user="a"): {"controller_mutation_rate": 1.0}}
    both = {**mutation, Entity(user="b"): {"producer_byte_rate": 1.0}}
    unknown = {Entity(user="a"): {"future_rate": 1.0}}
    assert render_quotas_text(described(mutation)).endswith("1 entity, 1 value. Limits are per cluster.\n")
    assert render_quotas_text(described(both)).endswith(
        "2 entities, 2 values. Limits are per broker, controller_mutation_rate per cluster.\n"
    )
    assert render_quotas_text(described(unknown)).endswith("1 entity, 1 value.\n")
    assert render_quotas_text(described({})) == "There are no quotas.\n"
