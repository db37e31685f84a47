"""Every field of quotaform.yaml and quotas.d with values of every wrong type: a problem with its place.

`prune: [report]` was an internal error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from quotaform.desired.config_reader import read_config
from quotaform.desired.loader import conclude
from quotaform.desired.quotas_file import load_file
from quotaform.desired.tree import SourceFile
from quotaform.model.finding import Finding
from tests.loading import load_schema

pytestmark = pytest.mark.exhaustive

WRONG = (
    "[report]", "[]", "[[a]]", "[{a: [b]}]", "{a: b}", "{}", "{5: a}", "{null: a}", "{[a]: b}", "{true: a}", "null", "",
    '""', "true", "5", "-1", "1.5", "1e999", "0x1f", "1:30", ".nan", "2026-12-31", "2026-12-31T10:00:00Z", "a",
    "!!binary aGk=", "!!set {a}", "!!timestamp 2026-12-31", "!x a", "*nobody", "&a [*a]", "{<<: 5}", "{<<: [a]}",
)  # fmt: skip


def templates(name: str, node: Any) -> Iterator[str]:
    """The text of a file for each field of a schema, with an @ where its value is."""
    yield "@"
    for part in (*node.get("allOf", ()), *node.get("anyOf", ())):
        yield from templates(name, part)
    if "$ref" in node:
        yield from templates(name, load_schema(name)["definitions"][node["$ref"].rpartition("/")[2]])
    for key, field in node.get("properties", {}).items():
        yield from (f"{{{key}: {inner}}}" for inner in templates(name, field))
    if isinstance(node.get("additionalProperties"), dict):
        yield from (f"{{x: {inner}}}" for inner in templates(name, node["additionalProperties"]))
    if isinstance(node.get("items"), dict):
        yield from (f"[{inner}]" for inner in templates(name, node["items"]))


CONFIG = sorted(set(templates("config", load_schema("config"))))
QUOTAS = sorted(set(templates("quotas", load_schema("quotas"))))


def check_quotas(text: str) -> list[Finding]:
    return conclude([load_file(SourceFile("f.yaml", text, "lab"), {})], date(2026, 6, 1))[1]


def check_config(text: str) -> list[Finding]:
    return list(read_config(SourceFile("f.yaml", text), Path())[1])


@pytest.mark.parametrize(
    ("check", "template"),
    [*((check_config, template) for template in CONFIG), *((check_quotas, template) for template in QUOTAS)],
)
def test_a_field_with_a_value_of_a_wrong_type_is_a_problem_with_its_place(
    check: Callable[[str], list[Finding]], template: str
) -> None:
    for value in WRONG:
        text = template.replace("@", value) + "\n"
        for finding in check(text):
            assert finding.location is not None, text
            assert finding.location.file == "f.yaml", text
            assert min(finding.location.line, finding.location.column) > 0, text


def test_the_templates_cover_every_field() -> None:
    assert {"{prune: @}", "{clusters: {x: {confirm: @}}}", "{scope: {include: [{user: @}]}}"} <= set(CONFIG)
    assert {"{quotas: [{expires: @}]}", "{quotas: [{match: {user: [{name: @}]}}]}"} <= set(QUOTAS)
