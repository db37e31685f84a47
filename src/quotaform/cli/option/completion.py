"""What a shell completes option values to, from the tables that the values come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def complete_from(words: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a completion that offers those words that begin as typed."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def complete_quota_key(incomplete: str) -> list[str]:
    """Offer quota keys."""
    from quotaform.model.quota_key import QUOTA_KEYS

    return complete_from(QUOTA_KEYS)(incomplete)


def complete_quota_keys(incomplete: str) -> list[str]:
    """Offer quota keys for the last item of a list separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_quota_key(last)]


def complete_value(incomplete: str) -> list[str]:
    """Offer `key=` for the last item of a list of values separated by commas."""
    return [f"{name}=" for name in complete_quota_keys(incomplete)]


def complete_entity_type(incomplete: str) -> list[str]:
    """Offer entity types."""
    from quotaform.model.entity import ENTITY_TYPES

    return complete_from(ENTITY_TYPES)(incomplete)


def complete_name(incomplete: str) -> list[str]:
    """Offer `type=`; names are not known without asking a cluster."""
    return [f"{name}=" for name in complete_entity_type(incomplete)]


def complete_schema(incomplete: str) -> list[str]:
    """Offer the names of JSON Schemas."""
    from quotaform.schema.catalog import schema_names

    return complete_from(schema_names())(incomplete)
