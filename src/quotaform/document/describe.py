"""The JSON of quotas that were described or altered."""

from __future__ import annotations

from quotaform.core.canonical import json_number
from quotaform.core.result import Altered
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_cluster, dump_entity, dump_snapshot_file, dump_values
from quotaform.model.document_kind import ALTER, DESCRIBE
from quotaform.model.filter import EntityFilter
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import Quotas
from quotaform.model.snapshot import SnapshotFile


def dump_described(
    quotas: Quotas,
    *,
    cluster_name: str,
    cluster_id: str,
    read_at: str,
    snapshot: SnapshotFile | None = None,
    entity_filter: EntityFilter,
    quota_types: tuple[str, ...] = (),
) -> str:
    """Return quotas as JSON, sorted by address.

    Args:
        cluster_name: What the cluster is called.
        read_at: When it was read, as ISO 8601 in UTC.
        snapshot: The snapshot that was read in its place.
        entity_filter: Which entities were asked for.
        quota_types: Which quota keys were asked for; all if empty.
    """
    components = [
        {"type": component.entity_type, "rule": component.rule.value, "match": component.match}
        for component in entity_filter.components
    ]
    fields = {
        "cluster": dump_cluster(cluster_name, cluster_id),
        "read_at": read_at,
        "snapshot": None,
        **dump_snapshot_file(snapshot),
        "filter": {
            "strict": entity_filter.is_strict,
            "components": components,
            "quota_types": list(quota_types) or None,
        },
        "quotas": [
            {**dump_entity(entity), "values": dump_values(values)}
            for entity, values in sorted(quotas.items(), key=lambda item: item[0].address)
        ],
    }
    return indented(envelope(DESCRIBE, fields))


def dump_altered(done: Altered, *, cluster_name: str, cluster_id: str, read_at: str) -> str:
    """Return an alteration as JSON.

    `cluster_name` is what the cluster is called. `read_at` is when the values were read, as ISO 8601 in UTC.
    """
    changed = [key for key in sorted(done.ops, key=key_order) if done.has_changed(key)]
    fields = {
        "cluster": dump_cluster(cluster_name, cluster_id),
        "read_at": read_at,
        "validate_only": done.is_validation,
        **dump_entity(done.entity),
        "values": dump_values(done.after),
        "changes": [
            {"key": key, "before": json_number(done.before.get(key)), "after": json_number(done.after.get(key))}
            for key in changed
        ],
    }
    return indented(envelope(ALTER, fields))
