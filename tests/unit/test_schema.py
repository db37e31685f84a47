"""The JSON Schemas agree with the code that they describe."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft7Validator

from quotaform.desired.schema import quotas
from quotaform.model.entity import ENTITY_TYPES
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.records import document as documents
from quotaform.model.records.document import DocumentKind
from quotaform.model.records.schema import render_schema
from quotaform.model.records.validator import explainer, gate
from quotaform.model.rule import RULES
from quotaform.model.units import _FACTORS, UNLIMITED, parse_value
from quotaform.report.format import schema_builder, schema_names
from tests.loading import load_schema

VALUES = load_schema("quotas")["definitions"]["values"]["properties"]


@pytest.mark.parametrize("name", schema_names())
def test_a_schema_is_valid_and_described_for_editors(name: str) -> None:
    schema = load_schema(name)
    Draft7Validator.check_schema(schema)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert json.loads(render_schema(schema_builder(name))) == schema
    for properties in all_properties(schema):
        for field, described in properties.items():
            assert described.keys() & {"description", "$ref", "const"}, field


def all_properties(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [found for item in node for found in all_properties(item)]
    if not isinstance(node, dict):
        return []
    own = [node["properties"]] if node.get("type") == "object" and "properties" in node else []
    return own + [found for item in node.values() for found in all_properties(item)]


def test_the_quota_keys_are_those_of_the_model() -> None:
    assert list(VALUES) == list(QUOTA_KEYS)
    assert load_schema("config")["definitions"]["values"] == load_schema("quotas")["definitions"]["values"]


def test_the_entity_types_are_those_of_the_model() -> None:
    assert list(load_schema("quotas")["definitions"]["match"]["properties"]) == list(ENTITY_TYPES)
    assert list(load_schema("config")["definitions"]["pattern"]["properties"]) == list(ENTITY_TYPES)


@pytest.mark.parametrize("key", QUOTA_KEYS.values(), ids=lambda key: key.name)
def test_the_units_are_those_of_the_model(key: Any) -> None:
    validator = Draft7Validator(VALUES[key.name])
    every_unit = {unit for units in _FACTORS.values() for unit in units}
    for unit in sorted(every_unit):
        assert validator.is_valid(f"5{unit}") == (unit in _FACTORS[key.unit]), unit
    assert validator.is_valid(UNLIMITED)


@pytest.mark.parametrize("key", QUOTA_KEYS.values(), ids=lambda key: key.name)
def test_the_examples_of_a_key_are_values_of_it(key: Any) -> None:
    for example in VALUES[key.name]["examples"]:
        assert parse_value(key, str(example)) > 0
        assert Draft7Validator(VALUES[key.name]).is_valid(example)


def test_both_validators_see_one_schema() -> None:
    documents: list[dict[str, Any]] = [
        {"quotas": []},
        {"quotas": [{}]},
        {},
        {"quotas": [{"match": {"user": "a"}, "profile": "gold"}]},
    ]
    for document in documents:
        assert gate(quotas).is_valid(document) == explainer(quotas).is_valid(document)


def test_every_kind_of_document_and_of_file_has_a_schema() -> None:
    kinds = {each.name: each for each in vars(documents).values() if isinstance(each, DocumentKind)}
    internal = {"history-table", "notify-state", "usage-checkpoint"}
    assert set(schema_names()) == kinds.keys() - internal | {"quotas", "config", "entry", "approvals", "usage-mapping"}
    for name in kinds.keys() - internal:
        assert load_schema(name)["properties"]["kind"]["const"] == kinds[name].kind


def test_the_rules_that_a_finding_names_are_those_of_the_table() -> None:
    rule = load_schema("plan")["definitions"]["finding"]["properties"]["rule"]
    assert rule["examples"] == list(RULES)
