"""JSON Schemas: they agree with the code that they describe, and what machines are given is what they say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from jsonschema import Draft7Validator
from msgspec import structs

from quotaform.drift.drift import make_drift
from quotaform.drift.records import dump_drift
from quotaform.model.entity import Entity
from quotaform.model.finding import Allowance, Finding, Location, Severity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Base, Desired, Quotas
from quotaform.model.records.record import ClusterRecord, Record, dump_record
from quotaform.model.records.schema import record_definitions, render_schema
from quotaform.model.units import _FACTORS, UNLIMITED, parse_value
from quotaform.plan.difference import diff, make_plan
from quotaform.plan.plan import PlanOptions
from quotaform.plan.receipt import Result
from quotaform.plan.validate import DeclaredEntities, Validation
from quotaform.report.format import SCHEMAS, schema_builder
from tests import builder
from tests.builder import dumped_plan, dumped_receipt, receipt_of
from tests.loading import load_schema
from tests.strategies import desired, quotas

GOLDEN = Path(__file__).parents[1] / "golden"
VALUES = load_schema("quotas")["definitions"]["values"]["properties"]
NAMES = ("plan", "drift", "receipt", "resolve", "validation", "explain", "fleet-report", "doctor")
HEADER = structs.replace(
    builder.HEADER,
    source=structs.replace(builder.HEADER.source, base=Base(ref="origin/main", commit="a91be02")),
    options=PlanOptions(exclude=("user=svc-*",)),
)

ALLOWANCES = (Allowance("delete", 12), Allowance("to-unlimited"))


PROBLEM = Finding(rule="unknown-key", message="no", location=Location("quotas.d/a.yaml", 3, 5))
WARNING = Finding(rule="ip-alias", message="two", severity=Severity.WARNING, address="ip=::1", key="k", override="--x")
VALIDATED = Validation(
    directory="quotas.d",
    files=2,
    entities=(DeclaredEntities(cluster="prod-eu", count=3), DeclaredEntities(cluster=None, count=1)),
    problems=(PROBLEM, WARNING),
)


def validator(name: str) -> Draft7Validator:
    return Draft7Validator(load_schema(name))


def example(name: str) -> dict[str, Any]:
    """A document with everything in it: the golden file, or for a validation a report that is written here."""
    is_golden = name != "validation"
    document: dict[str, Any] = loads(
        (GOLDEN / f"{name}.json").read_text("utf-8") if is_golden else dump_record(VALIDATED)
    )
    if name == "plan":
        document["blast_radius"] = loads((GOLDEN / "plan-principals.json").read_text("utf-8"))["blast_radius"]
    return document


def resolved(schema: dict[str, Any], root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas that it refers to."""
    yield schema
    if "$ref" in schema:
        yield from resolved(root["definitions"][schema["$ref"].rpartition("/")[2]], root)
    for part in (*schema.get("allOf", ()), *schema.get("anyOf", ())):
        yield from resolved(part, root)


def objects(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield every object of a document with the schema that lists its fields."""
    for part in resolved(schema, root):
        if isinstance(value, dict) and "properties" in part:
            yield value, part
            for name, child in value.items():
                if name in part["properties"]:
                    yield from objects(child, part["properties"][name], root)
        elif isinstance(value, list) and "items" in part:
            for child in value:
                yield from objects(child, part["items"], root)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_with_everything_in_it_is_valid(name: str) -> None:
    assert [error.message for error in validator(name).iter_errors(example(name))] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_field_that_is_written_is_described_and_required(name: str) -> None:
    schema = load_schema(name)
    seen = list(objects(example(name), schema, schema))
    added = {
        "plan": {"declared", "blast_radius"},
        "receipt": {"declared"},
        "fleet-report": {"blast_radius"},
    }  # in 1.1 or later
    optional = {"differs"} | added.get(name, set())
    assert seen
    for value, part in seen:
        assert value.keys() - optional == set(part["required"])
        assert value.keys() <= part["properties"].keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_newer_minor_version_with_more_fields_is_valid(name: str) -> None:
    schema = load_schema(name)
    document = example(name)
    for value, _ in list(objects(document, schema, schema)):
        value["added_later"] = {"any": "thing"}
    assert validator(name).is_valid(document | {"format_version": document["format_version"].partition(".")[0] + ".7"})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("more", [{"format_version": "3.0"}, {"kind": "quotaform.other"}])
def test_another_major_version_or_kind_is_not_valid(name: str, more: dict[str, str]) -> None:
    assert not validator(name).is_valid(example(name) | more)


def test_drift_with_a_baseline_is_valid() -> None:
    validator("drift").validate(loads((GOLDEN / "drift-baseline.json").read_text("utf-8")))


@given(desired(), quotas())
@settings(deadline=None, derandomize=True, max_examples=15)
def test_generated_plans_their_drift_and_their_receipts_are_valid(files: Desired, actual: Quotas) -> None:
    plan = replace(
        make_plan(diff(files, actual), files, actual, HEADER, allowances=ALLOWANCES), findings=(PROBLEM, WARNING)
    )
    validator("plan").validate(loads(dumped_plan(plan)))
    validator("drift").validate(loads(dump_drift(make_drift(plan))))
    validator("receipt").validate(loads(dumped_receipt(receipt_of(plan, *Result, interrupted_by="SIGTERM"))))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 2.0**63, 1e308, 5e-324, -1.0])
def test_any_double_that_a_broker_shows_is_valid(value: float) -> None:
    entity, other = Entity(user="a"), Entity({"group": "g", "user": None})
    actual = {entity: {"producer_byte_rate": value, "future_rate": value}, other: {"future_rate": value}}
    plan = builder.plan_of({entity: {"consumer_byte_rate": 1.0}}, actual)
    validator("plan").validate(loads(dumped_plan(plan)))
    validator("drift").validate(loads(dump_drift(make_drift(plan))))


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_and_described_for_editors(name: str) -> None:
    schema = load_schema(name)
    Draft7Validator.check_schema(schema)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert loads(render_schema(schema_builder(name))) == schema
    for properties in all_properties(schema):
        for field, described in properties.items():
            assert any(each.keys() & {"description", "const"} for each in resolved(described, schema)), field


def all_properties(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [found for item in node for found in all_properties(item)]
    if not isinstance(node, dict):
        return []
    own = [node["properties"]] if node.get("type") == "object" and "properties" in node else []
    return own + [found for item in node.values() for found in all_properties(item)]


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


def test_every_kind_of_document_and_of_file_has_a_schema() -> None:
    schemas = {name: load_schema(name) for name in SCHEMAS}
    kinds = {
        get_args(get_args(each.__annotations__["kind"])[0])[0].removeprefix("quotaform.")
        for each in Record.__subclasses__()
        if "kind" in each.__annotations__ and each.__module__.startswith("quotaform.")
    }
    internal = {"notify-state"}
    assert set(SCHEMAS) == kinds - internal | {"quotas", "config", "entry", "approvals", "usage-mapping"}
    for name in kinds - internal:
        assert schemas[name]["properties"]["kind"]["const"] == f"quotaform.{name}"


class OtherNames:
    """Records that are called as others are."""

    class ClusterRecord(Record, omit_defaults=True):
        """A record of which a field is left out that the other one of its name does not have."""

        name: str | None = None


def test_the_schema_of_a_record_does_not_depend_on_another_of_its_name() -> None:
    # The fields that may be left out were kept by the name of the class.
    assert record_definitions(ClusterRecord)["cluster"]["required"] == ["name", "id"]
    assert record_definitions(OtherNames.ClusterRecord)["cluster"]["required"] == []
