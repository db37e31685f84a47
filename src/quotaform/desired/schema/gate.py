"""The JSON Schemas of all file formats, which are package data."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from json import loads
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema import Draft7Validator
    from jsonschema_rs import Draft7Validator as Gate

_SUFFIX = ".schema.json"


def schema_names() -> tuple[str, ...]:
    """The names of all schemas, sorted, e.g. `quotas`."""
    names = (item.name for item in files("quotaform").joinpath("schemas").iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


def schema_text(name: str) -> str:
    """Return a schema as it is written, by its name in `schema_names()`.

    Raises:
        KeyError: There is no such schema.
    """
    if name not in schema_names():
        raise KeyError(name)
    return files("quotaform").joinpath("schemas", name + _SUFFIX).read_text(encoding="utf-8")


@cache
def load_schema(name: str) -> dict[str, Any]:
    """Return a schema by its name in `schema_names()`; do not change it.

    Raises:
        KeyError: There is no such schema.
    """
    schema: dict[str, Any] = loads(schema_text(name))
    return schema


@cache
def gate(name: str) -> Gate:
    """Return the validator that only says yes or no, in no time."""
    from jsonschema_rs import Draft7Validator as Gate

    return Gate(load_schema(name))


@cache
def explainer(name: str) -> Draft7Validator:
    """Return the validator that says what is wrong."""
    from jsonschema import Draft7Validator

    return Draft7Validator(load_schema(name))
