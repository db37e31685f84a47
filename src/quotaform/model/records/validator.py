"""Whether a document fits its schema, and why not: the one module that imports the JSON Schema library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quotaform.model.records.schema import Builder, make_schema

if TYPE_CHECKING:
    from jsonschema_rs import Validator


class Refusal(NamedTuple):
    """One keyword that a document does not satisfy."""

    keyword: str
    details: Mapping[str, Any]  # what it asked for, as `jsonschema_rs.ValidationErrorKind.as_dict` names it
    path: Sequence[str | int]  # the place in the document
    value: Any
    schema_path: Sequence[str | int]  # the keyword in the schema
    used_path: Sequence[str | int]  # the way to it, through references


_PATTERN_BYTES: Final = 1 << 18
"""How much memory a compiled pattern of a foreign schema may take."""
_MOST_REFUSALS: Final = 10_000


class Gate:
    """A compiled schema."""

    __slots__ = ("_validator", "is_valid")

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self.is_valid = validator.is_valid

    def refusals(self, document: Any, most: int = _MOST_REFUSALS) -> list[Refusal]:
        """Return what a document does not satisfy, up to a number."""
        return [
            Refusal(
                keyword=error.kind.name,
                details=error.kind.as_dict(),
                path=_place(document, error.instance_path, error.instance),
                value=error.instance,
                schema_path=error.schema_path,
                used_path=error.evaluation_path,
            )
            for error in islice(self._validator.iter_errors(document), most)
        ]


def _place(document: Any, steps: Sequence[str | int], value: Any) -> list[str | int]:
    """Return where a value is: the library takes a key of digits for an index, and leaves out an empty one."""
    here = document
    path: list[str | int] = []
    for step in steps:
        if isinstance(here, dict) and step not in here:
            if isinstance(step, int):
                step = next((key for key in here if key.isascii() and key.isdigit() and int(key) == step), "")
            elif "" in here:
                path.append("")
                here = here[""]
        path.append(step)
        here = here[step]
    if isinstance(here, dict) and here.get("") == value != here:
        path.append("")
    return path


@cache
def gate(build: Builder, *, is_shape: bool = False) -> Gate:
    """Return a schema of our own, compiled; see `make_schema`."""
    from jsonschema_rs import Draft7Validator

    return Gate(Draft7Validator(make_schema(build, is_shape=is_shape)))


class PolicySchemaError(Exception):
    """A schema that users wrote is invalid.

    `path`: the fields and indexes that lead to what is wrong in it. `reason`: what the validator says; it may quote the
    schema.
    """

    def __init__(self, path: Sequence[str | int], reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(reason)


def make_policy_gate(schema: dict[str, Any], *, is_old: bool) -> Gate:
    """Compile a schema from an untrusted source: nothing is fetched, and patterns are matched in linear time.

    `is_old` says whether it is one of draft-07; else it is one of draft 2020-12. Raises `PolicySchemaError` if it is no
    schema, or refers to something outside of itself.
    """
    from jsonschema_rs import Draft7Validator, Draft202012Validator, RegexOptions, ValidationError

    make = Draft7Validator if is_old else Draft202012Validator
    options = RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    try:
        validator = make(
            schema, pattern_options=options, offline=True, validate_formats=True, ignore_unknown_formats=False
        )
    except ValidationError as error:
        raise PolicySchemaError(error.instance_path, error.message) from None
    except ValueError as error:
        raise PolicySchemaError((), str(error)) from None
    return Gate(validator)
