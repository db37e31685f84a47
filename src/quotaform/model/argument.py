"""Type checks for the arguments of the Python API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def require_type(value: object, kinds: type[Any] | tuple[type[Any], ...], argument: str, expected: str) -> None:
    """Make sure that an argument has one of some types; a bool is not a number.

    >>> require_type(5, str, "user", "a string")
    Traceback (most recent call last):
    TypeError: user must be a string, not int

    Args:
        value: The argument, which is not quoted in the message: it may be a secret.
        argument: What the message calls the argument.
        expected: What it calls the types.

    Raises:
        TypeError: It has another type.
    """
    is_wrong_bool = isinstance(value, bool) and kinds is not bool
    if is_wrong_bool or not isinstance(value, kinds):
        raise TypeError(f"{argument} must be {expected}, not {spell_type(value)}")


def require_names(names: object, caller: str) -> None:
    """Raise `TypeError` unless an argument is a mapping of entity types, which are strings, or `None` for none."""
    if names is None:
        return
    require_type(names, Mapping, f"the argument of {caller}", "a mapping of entity type to name")
    for entity_type in names:  # type: ignore[attr-defined]
        require_type(entity_type, str, f"an entity type in {caller}", "a string")


def spell_type(value: object) -> str:
    """Return what messages call the type of a value.

    >>> spell_type(None), spell_type([]), spell_type(str)
    ('None', 'list', 'the class str')
    """
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
