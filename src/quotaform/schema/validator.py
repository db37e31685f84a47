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
def gate(name: str, definition: str | None = None) -> Gate:
    """Return the validator that only says whether a document is valid, or a part of one.

    Args:
        name: The name of the schema.
        definition: One of its definitions, for an item of a long list that is never in memory whole.
    """
    from jsonschema_rs import Draft7Validator as Gate

    schema = load_schema(name)
    if definition is None:
        return Gate(schema)
    return Gate({**schema["definitions"][definition], "definitions": schema["definitions"]})


@cache
def explainer(name: str) -> Draft7Validator:
    """Return the validator that says what is wrong and where."""
    from jsonschema import Draft7Validator

    return Draft7Validator(load_schema(name))
