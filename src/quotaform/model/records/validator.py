"""Whether a document fits its schema: the one module that imports the JSON Schema libraries.

`gate` answers yes or no and takes next to no time; `explainer` says what is wrong where, and is needed only then.
`make_policy_gate` is for schemas that a repository brings along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quotaform.model.records.schema import Builder, make_schema

if TYPE_CHECKING:
    from jsonschema import Draft7Validator
    from jsonschema_rs import Draft7Validator as Gate
    from jsonschema_rs import Validator


class Refusal(NamedTuple):
    """One keyword that a document does not satisfy."""

    keyword: str
    details: Mapping[str, Any]  # what it asked for, as `jsonschema_rs.ValidationErrorKind.as_dict` names it
    path: Sequence[str | int]  # the place in the document
    value: Any
    schema_path: Sequence[str | int]  # the keyword in the file of the policy
    used_path: Sequence[str | int]  # the way to it, through references


_PATTERN_BYTES: Final = 1 << 18
"""How much memory a compiled pattern of a foreign schema may take."""


@cache
def gate(build: Builder, definition: str | None = None) -> Gate:
    """Return the validator that only says whether a document is valid, or a part of one.

    `definition` is one of the schema, for an item of a long list that is never in memory whole.
    """
    from jsonschema_rs import Draft7Validator as Gate

    schema = make_schema(build)
    if definition is None:
        return Gate(schema)
    return Gate({**schema["definitions"][definition], "definitions": schema["definitions"]})


@cache
def explainer(build: Builder) -> Draft7Validator:
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
    return explaining(make_schema(build))


class PolicySchemaError(Exception):
    """A foreign schema is none.

    `path`: the fields and indexes that lead to what is wrong in it. `reason`: what the validator says; it may quote the
    schema.
    """

    def __init__(self, path: Sequence[str | int], reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(reason)


class PolicyGate:
    """A foreign schema, ready to be asked."""

    __slots__ = ("_validator", "is_valid")

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self.is_valid = validator.is_valid

    def refusals(self, document: Any, most: int) -> list[Refusal]:
        """Return what a document does not satisfy, up to a number."""

        return [
            Refusal(
                keyword=error.kind.name,
                details=error.kind.as_dict(),
                path=error.instance_path,
                value=error.instance,
                schema_path=error.schema_path,
                used_path=error.evaluation_path,
            )
            for error in islice(self._validator.iter_errors(document), most)
        ]


def make_policy_gate(schema: dict[str, Any], *, is_old: bool) -> PolicyGate:
    """Compile a schema that nobody vouches for: nothing is fetched, and patterns are matched in linear time.

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
    return PolicyGate(validator)
