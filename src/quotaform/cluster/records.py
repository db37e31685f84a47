"""The JSON of described and altered quotas, SCRAM credentials and checkups, and its schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from quotaform.cluster.checkup import Checkup, Step, StepStatus
from quotaform.cluster.scram_credential import ScramResult, ScramRow, ScramUpsertion, ScramUser
from quotaform.model.alteration import Altered, Outcome
from quotaform.model.filter import EntityFilter, Rule
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import Quotas, SnapshotFile
from quotaform.model.records.document import (
    ALTER,
    DESCRIBE,
    DOCTOR,
    OUTCOMES,
    SCRAM,
    SCRAM_RESULT,
    SNAPSHOT,
    VALIDATION,
    envelope,
    indented,
    json_number,
)
from quotaform.model.records.field import dump_cluster, dump_entity, dump_snapshot_file, dump_values
from quotaform.model.records.schema import (
    Node,
    address,
    boolean,
    choice,
    count,
    document,
    items,
    mapping,
    maybe,
    maybe_text,
    quota_key,
    record,
    ref,
    text,
    timestamp,
)


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

    Without `quota_types` all keys were asked for. `read_at` is as ISO 8601 in UTC.
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


def dump_checkup(checkup: Checkup) -> str:
    """Return the steps as JSON."""
    head = {"cluster": dump_cluster(checkup.cluster_name, checkup.cluster_id), "checked_at": checkup.checked_at}
    steps = [asdict(step) for step in checkup.steps]
    return indented(envelope(DOCTOR, {**head, "healthy": checkup.is_healthy, "steps": steps}))


def dump_scram(users: Sequence[ScramUser], cluster_name: str, cluster_id: str | None) -> str:
    """Return credentials as JSON, by user; a user who could not be described has an error."""
    return indented(
        envelope(SCRAM, {"cluster": dump_cluster(cluster_name, cluster_id), "users": list(map(_user, users))})
    )


def dump_scram_result(result: ScramResult, cluster_name: str, cluster_id: str | None) -> str:
    """Return what became of each credential as JSON; nothing of any password is in it."""
    fields = {"cluster": dump_cluster(cluster_name, cluster_id), "results": list(map(_row, result))}
    return indented(envelope(SCRAM_RESULT, fields))


def _user(found: ScramUser) -> dict[str, Any]:
    return {
        "user": found.user,
        "credentials": [{"mechanism": each.mechanism, "iterations": each.iterations} for each in found.credentials],
        "error": {"code": found.code, "message": found.message} if found.code else None,
    }


def _row(row: ScramRow) -> dict[str, Any]:
    alteration = row.alteration
    return {
        "user": alteration.user,
        "mechanism": str(alteration.mechanism),
        "iterations": alteration.iterations if isinstance(alteration, ScramUpsertion) else None,
        "outcome": str(row.outcome),
        "code": row.code,
        "message": row.message,
    }


def snapshot() -> tuple[Node, dict[str, Node]]:
    """Return the schema of snapshots and its definitions."""
    schema = document(
        SNAPSHOT,
        "All client quotas of a Kafka cluster at one moment, as quotaform snapshot writes them.",
        {
            "cluster": ref("cluster"),
            "captured_at": text("When it was read, as ISO 8601 in UTC."),
            "quotas": items("One item per entity, sorted by address.", ref("item")),
        },
    )
    return schema, {"item": record("The quotas of one entity.", {"entity": ref("entity"), "values": ref("values")})}


def describe() -> tuple[Node, dict[str, Node]]:
    """Return the schema of described quotas and its definitions."""
    component = record(
        "The filter of one entity type.",
        {
            "type": text("The entity type."),
            "rule": choice("How the name is matched.", (rule.value for rule in Rule)),
            "match": maybe_text("The name or prefix; null for default and any."),
        },
    )
    schema = document(
        DESCRIBE,
        "Live client quotas of a Kafka cluster, as quotaform describe --format json prints them.",
        {
            "cluster": ref("cluster"),
            "read_at": text("When it or its snapshot was read, as ISO 8601 in UTC."),
            "snapshot": maybe(
                ref("snapshot_file"),
                "The snapshot that was read instead of a running cluster; null if there is none.",
            ),
            "filter": record(
                "The filter of the command.",
                {
                    "strict": boolean("Whether entities with further entity types are excluded."),
                    "components": items("The filters per entity type, combined with AND.", component),
                    "quota_types": {
                        "description": "The selected quota keys; null for all.",
                        "type": ["array", "null"],
                        "items": {"type": "string"},
                    },
                },
            ),
            "quotas": items("One item per entity, sorted by address.", ref("item")),
        },
    )
    item = record("The quotas of one entity.", {"address": address(), "entity": ref("entity"), "values": ref("values")})
    return schema, {"item": item}


def alter() -> tuple[Node, dict[str, Node]]:
    """Return the schema of what was altered and its definitions."""
    change = record(
        "A changed quota key.",
        {
            "key": quota_key(),
            "before": ref("maybe_value", "The value before; null for none."),
            "after": ref("maybe_value", "The value now; null for none."),
        },
    )
    schema = document(
        ALTER,
        "The result of quotaform alter --format json.",
        {
            "cluster": ref("cluster"),
            "read_at": text("When it was read, as ISO 8601 in UTC."),
            "validate_only": boolean("Whether the change was only validated; the values are then the expected ones."),
            "address": address(),
            "entity": ref("entity"),
            "values": mapping(
                "Quota key to value, read back from the cluster; empty if the entity was deleted.", ref("value")
            ),
            "changes": items("The changed keys.", change),
        },
    )
    return schema, {}


def validation() -> tuple[Node, dict[str, Node]]:
    """Return the schema of validations and its definitions."""
    entities = record(
        "The entities of one cluster.",
        {
            "cluster": maybe_text("The cluster name, or null if quotaform.yaml has no clusters."),
            "count": count("The number of entities."),
        },
    )
    schema = document(
        VALIDATION,
        "The result of validating the files, as quotaform validate writes it.",
        {
            "valid": boolean("Whether there are no errors."),
            "directory": text("The quotas directory, as given."),
            "files": count("The number of files."),
            "entities": items("The number of declared entities per cluster.", entities),
            "problems": items("All problems and warnings of all files.", ref("finding")),
        },
    )
    return schema, {}


def scram() -> tuple[Node, dict[str, Node]]:
    """Return the schema of described SCRAM credentials and its definitions."""
    credential = record(
        "One credential.",
        {
            "mechanism": text("The SCRAM mechanism.", "SCRAM-SHA-512"),
            "iterations": {"description": "Iterations of hashing.", "type": "integer"},
        },
    )
    error = record(
        "Why the user could not be described.",
        {
            "code": {"description": "Kafka's error code.", "type": "integer"},
            "message": text("The message of the broker."),
        },
    )
    user = record(
        "One user.",
        {
            "user": text("The user's name."),
            "credentials": items("The user's credentials.", credential),
            "error": maybe(error, "Why the user could not be described; null on success."),
        },
    )
    schema = document(
        SCRAM,
        "SCRAM credentials of users, as quotaform scram describe --format json prints them.",
        {"cluster": ref("maybe_cluster"), "users": items("One item per user, by name.", user)},
    )
    return schema, {"maybe_cluster": _maybe_cluster()}


def scram_result() -> tuple[Node, dict[str, Node]]:
    """Return the schema of changed SCRAM credentials and its definitions."""
    row = record(
        "The result for one credential.",
        {
            "user": text("The user's name."),
            "mechanism": text("The SCRAM mechanism.", "SCRAM-SHA-512"),
            "iterations": {
                "description": "Iterations of hashing; null for a deletion.",
                "type": ["integer", "null"],
            },
            "outcome": choice("The result.", (outcome.value for outcome in Outcome)),
            "code": {"description": "Kafka's error code; 0 on success.", "type": ["integer", "null"]},
            "message": maybe_text("The message of the broker."),
        },
    )
    schema = document(
        SCRAM_RESULT,
        "The result of changing SCRAM credentials; contains no passwords.",
        {"cluster": ref("maybe_cluster"), "results": items("One item per credential, in the requested order.", row)},
    )
    return schema, {"maybe_cluster": _maybe_cluster()}


def doctor() -> tuple[Node, dict[str, Node]]:
    """Return the schema of the steps of using a cluster and its definitions."""
    step = record(
        "One step; nothing in it is secret.",
        {
            "step": choice("Which step.", Step),
            "server": maybe_text("The bootstrap server; null for the client properties and for rights."),
            "status": choice("How it ended; not-reached after an earlier step failed.", StepStatus),
            "facts": mapping("What it showed, by name.", {"type": "string"}, {"version": "TLSv1.3"}),
            "problem": maybe_text("Why it failed and what to change; null if it did not."),
        },
    )
    fields = {
        "cluster": ref("maybe_cluster"),
        "checked_at": timestamp("When they were taken"),
        "healthy": boolean("Whether all steps succeeded."),
        "steps": items("The steps, in their order.", ref("step"), minItems=1),
    }
    description = "The steps of using a Kafka cluster, as quotaform doctor --format json prints them."
    return document(DOCTOR, description, fields), {"maybe_cluster": _maybe_cluster(), "step": step}


def outcomes() -> tuple[Node, dict[str, Node]]:
    """Return the schema of the results for several clusters and its definitions."""
    error = record(
        "Why there is no result.",
        {
            "exit_code": {"description": "The exit code of this error alone.", "type": "integer"},
            "message": text("The error and its remedy."),
        },
    )
    result = mapping("The document of the cluster: a plan, a drift or a receipt.", {})
    outcome = record(
        "The result for one cluster.",
        {
            "cluster": text("The name of the cluster.", "prod-eu"),
            "error": maybe(error, "Why there is no result; null if there is one."),
            "result": maybe(result, "The document of the cluster; null after an error."),
        },
    )
    schema = document(
        OUTCOMES,
        "The results for several clusters, as plan, drift and apply print them with --format json.",
        {"outcomes": items("One item per cluster.", outcome)},
    )
    return schema, {}


def _maybe_cluster() -> Node:
    return record(
        "The cluster.",
        {
            "name": text("The name in quotaform.yaml, or the bootstrap servers."),
            "id": maybe_text("The cluster id; null if unknown."),
        },
    )
