"""All JSON Schemas by name, built on demand from the tables of the model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from json import dumps
from typing import Any, Final

from quotaform.schema.node import Node

_BUILDERS: Final = {
    "alter": "result",
    "approvals": "approvals",
    "audit": "audit",
    "config": "config",
    "describe": "result",
    "doctor": "result",
    "drift": "drift",
    "entry": "entry",
    "explain": "explain",
    "fleet-report": "fleet_report",
    "history": "history",
    "history-append": "history",
    "history-diff": "history",
    "notification": "drift",
    "outcomes": "result",
    "plan": "plan",
    "quotas": "quotas",
    "receipt": "receipt",
    "resolve": "resolve",
    "scram": "result",
    "scram-result": "result",
    "snapshot": "result",
    "top": "usage_live",
    "usage-backtest": "usage_backtest",
    "usage-headroom": "usage_headroom",
    "usage-ingest": "usage_ingest",
    "usage-mapping": "usage_mapping",
    "usage-recommend": "usage_recommend",
    "usage-record": "usage_live",
    "usage-stream": "usage_ingest",
    "validation": "result",
}
"""The module of this package that builds a schema, in a function of the schema's name."""

_TITLES: Final = {
    "quotas": "Kafka client quotas",
    "config": "configuration",
    "entry": "resolved entry",
    "approvals": "approvals of blocked changes",
    "fleet-report": "fleet report",
    "usage-mapping": "columns of a table with usage",
}


def schema_names() -> tuple[str, ...]:
    """The names of all schemas, sorted, e.g. `quotas`."""
    return tuple(_BUILDERS)


@cache
def load_schema(name: str) -> dict[str, Any]:
    """Return a schema by its name in `schema_names()`; do not change it.

    Raises `KeyError` if there is no such schema.
    """
    build = getattr(import_module(f"quotaform.schema.{_BUILDERS[name]}"), name.replace("-", "_"))
    schema, definitions = build()
    head = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"quotaform: {_TITLES.get(name, name)}",
    }
    return {**head, **schema, "definitions": _used(schema, definitions)}


def schema_text(name: str) -> str:
    """Return a schema as files hold it, by its name in `schema_names()`.

    Raises `KeyError` if there is no such schema.
    """
    return dumps(load_schema(name), indent=2) + "\n"


def _used(schema: Node, own: Mapping[str, Node]) -> dict[str, Node]:
    """Return the definitions that a schema refers to, its own and shared ones, in the order of their first use."""
    used: dict[str, Node] = {}
    todo: list[Any] = [schema]
    while todo:
        item = todo.pop(0)
        if isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            name = str(item.get("$ref", "")).rpartition("/")[2]
            if name and name not in used:
                used[name] = own[name] if name in own else _shared(name)
                todo.append(used[name])
            todo += item.values()
    return used


def _shared(name: str) -> Node:
    from quotaform.schema.definition import SHARED

    return SHARED[name]()
