"""The JSON of altered quotas."""

from __future__ import annotations

from quotaform.core.canonical import json_number
from quotaform.core.result import Altered
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_cluster, dump_entity, dump_values
from quotaform.model.document_kind import ALTER
from quotaform.model.quota_key import key_order


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
