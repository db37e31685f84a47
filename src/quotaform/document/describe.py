"""Quotas of one moment as machines read them."""

from __future__ import annotations

from json import dumps
from typing import Any, Final

from quotaform.core.document import values_document
from quotaform.model.entity import Entity
from quotaform.model.filter import EntityFilter
from quotaform.model.quotas import Quotas, Values

FORMAT_VERSION: Final = "1.0"
KIND: Final = "quotaform.describe"


def render_describe_json(
    quotas: Quotas,
    *,
    cluster_name: str,
    cluster_id: str,
    read_at: str,
    entity_filter: EntityFilter,
    quota_types: tuple[str, ...] = (),
) -> str:
    """Return quotas as JSON, sorted by address.

    Args:
        quotas: What was selected.
        cluster_name: What the cluster is called.
        cluster_id: The id that it gave itself.
        read_at: When it was read, as ISO 8601 in UTC.
        entity_filter: Which entities were asked for.
        quota_types: Which quota keys were asked for; all if empty.
    """
    components = [
        {"type": component.entity_type, "rule": component.rule.value, "match": component.match}
        for component in entity_filter.components
    ]
    document = {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "cluster": {"name": cluster_name, "id": cluster_id},
        "read_at": read_at,
        "filter": {
            "strict": entity_filter.is_strict,
            "components": components,
            "quota_types": list(quota_types) or None,
        },
        "quotas": [
            entry_document(entity, values)
            for entity, values in sorted(quotas.items(), key=lambda item: item[0].address)
        ],
    }
    return dumps(document, indent=2, allow_nan=False) + "\n"


def entry_document(entity: Entity, values: Values) -> dict[str, Any]:
    """Return one entity with its values as JSON holds them."""
    return {"address": entity.address, "entity": entity.names, "values": values_document(values)}
