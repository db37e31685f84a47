"""Whether a document fits its schema: the one module that imports the JSON Schema libraries.

`gate` answers yes or no and takes next to no time; `explainer` says what is wrong where, and is needed only then.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from quotaform.schema.catalog import load_schema

if TYPE_CHECKING:
    from jsonschema import Draft7Validator
    from jsonschema_rs import Draft7Validator as Gate


@cache
def gate(name: str) -> Gate:
    """Return the validator that only says whether a document is valid."""
    from jsonschema_rs import Draft7Validator as Gate

    return Gate(load_schema(name))


@cache
def explainer(name: str) -> Draft7Validator:
    """Return the validator that says what is wrong and where."""
    from jsonschema import Draft7Validator

    return Draft7Validator(load_schema(name))
