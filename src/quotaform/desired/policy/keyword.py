"""The keywords supported in policies: those of JSON Schema, and two of quotaform.

JSON Schema ignores unknown keywords, so a policy with a misspelt keyword or field would never reject anything. Unknown
keywords and fields are therefore errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

MATCH: Final = "x-match"
"""The patterns of the entities that a policy applies to; only at the root."""
MESSAGE: Final = "x-message"
"""The message for a violation of a schema or a subschema."""


class Draft(Enum):
    """A version of JSON Schema."""

    DRAFT_7 = "draft-07"
    DRAFT_2020 = "draft 2020-12"


DRAFTS: Final = {
    "http://json-schema.org/draft-07/schema": Draft.DRAFT_7,
    "https://json-schema.org/draft/2020-12/schema": Draft.DRAFT_2020,
}
"""What `$schema` may say, with or without `#` behind it."""


class Holds(Enum):
    """What the value of a keyword is, as far as it holds schemas."""

    NO_SCHEMA = "no schema"
    SCHEMA = "a schema for the same value"
    SCHEMAS = "a list of schemas for the same value"
    NAMED = "a schema for the same value per field"
    FIELD_NAMES = "a list of fields"
    NAMED_LISTS = "a list of fields per field"
    NAMED_PARTS = "a schema per field, for that field"
    PART = "a schema for parts of the value"
    PARTS = "a list of schemas for parts of the value"
    PATTERNED = "a schema per pattern, for the fields that match it"
    LIBRARY = "schemas by name, which count where they are referred to"


class Keyword(NamedTuple):
    """A keyword.

    Attributes:
        drafts: The versions of JSON Schema that know it.
    """

    holds: Holds
    drafts: frozenset[Draft]


_BOTH: Final = frozenset(Draft)
_OLD: Final = frozenset({Draft.DRAFT_7})
_NEW: Final = frozenset({Draft.DRAFT_2020})

_ROWS: Final = (
    (Holds.NO_SCHEMA, _BOTH, "$ref $comment title description default examples deprecated readOnly writeOnly"),
    (Holds.NO_SCHEMA, _BOTH, "type enum const format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
    (Holds.NO_SCHEMA, _BOTH, "minLength maxLength pattern minItems maxItems uniqueItems minProperties maxProperties"),
    (Holds.NO_SCHEMA, _BOTH, MESSAGE),
    (Holds.NO_SCHEMA, _NEW, "$anchor minContains maxContains"),
    (Holds.SCHEMA, _BOTH, "not if then else"),
    (Holds.SCHEMAS, _BOTH, "allOf anyOf oneOf"),
    (Holds.NAMED, _OLD, "dependencies"),
    (Holds.NAMED, _NEW, "dependentSchemas"),
    (Holds.FIELD_NAMES, _BOTH, "required"),
    (Holds.NAMED_LISTS, _NEW, "dependentRequired"),
    (Holds.NAMED_PARTS, _BOTH, "properties"),
    (Holds.PART, _BOTH, "additionalProperties propertyNames contains items"),
    (Holds.PART, _NEW, "unevaluatedProperties unevaluatedItems"),
    (Holds.PART, _OLD, "additionalItems"),
    (Holds.PARTS, _NEW, "prefixItems"),
    (Holds.PATTERNED, _BOTH, "patternProperties"),
    (Holds.LIBRARY, _BOTH, "$defs definitions"),
)

KEYWORDS: Final[Mapping[str, Keyword]] = {
    name: Keyword(holds, drafts) for holds, drafts, names in _ROWS for name in names.split()
}
"""The keywords allowed in any subschema of a policy."""

ROOT_KEYWORDS: Final = frozenset({"$schema", "$id", MATCH})
"""The keywords allowed only at the root."""

ANNOTATIONS: Final = frozenset(
    {"$comment", "title", "description", "default", "examples", "$defs", "definitions", MESSAGE}
)
"""The keywords that are not constraints."""
