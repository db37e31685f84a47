"""A validation error of a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Refusal(NamedTuple):
    """One keyword that a document does not satisfy.

    Attributes:
        details: What it asked for, as `jsonschema_rs.ValidationErrorKind.as_dict` names it.
        path: The place in the document.
        schema_path: The keyword in the file of the policy.
        used_path: The way to it, through references.
    """

    keyword: str
    details: Mapping[str, Any]
    path: Sequence[str | int]
    value: Any
    schema_path: Sequence[str | int]
    used_path: Sequence[str | int]
