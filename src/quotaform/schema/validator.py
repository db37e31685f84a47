"""Whether a document fits its schema: the one module that imports the JSON Schema libraries.

`gate` answers yes or no and takes next to no time; `explainer` says what is wrong where, and is needed only then.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

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
    """Return the validator that says what is wrong and where.

    It does not collect why each alternative of an `anyOf` does not fit, which for a long list takes minutes.
    """
    from jsonschema import Draft7Validator, ValidationError
    from jsonschema.validators import extend

    def any_of(validator: Any, alternatives: list[Any], instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not any(validator.evolve(schema=alternative).is_valid(instance) for alternative in alternatives):
            yield ValidationError("no alternative fits")

    explaining: type[Draft7Validator] = extend(  # type: ignore[no-untyped-call]
        Draft7Validator, {"anyOf": any_of}
    )
    return explaining(load_schema(name))
