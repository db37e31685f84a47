"""The schemas of what describe, alter, scram and validate print, and of snapshots."""

from __future__ import annotations

from quotaform.model.alteration import Outcome
from quotaform.model.document_kind import ALTER, DESCRIBE, OUTCOMES, SCRAM, SCRAM_RESULT, SNAPSHOT, VALIDATION
from quotaform.model.filter import Rule
from quotaform.schema.definition import address, document, quota_key
from quotaform.schema.node import Node, boolean, choice, count, items, mapping, maybe, maybe_text, record, ref, text


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
        "What is asked of one entity type.",
        {
            "type": text("The entity type, which the entity must have."),
            "rule": choice("How its name must match.", (rule.value for rule in Rule)),
            "match": maybe_text("The text of exact, prefix and not; null for the others."),
        },
    )
    schema = document(
        DESCRIBE,
        "Live client quotas of a Kafka cluster, as quotaform describe --format json prints them.",
        {
            "cluster": ref("cluster"),
            "read_at": text("When it was read, as ISO 8601 in UTC."),
            "filter": record(
                "What was asked for.",
                {
                    "strict": boolean("Whether entities with other types than those of the components are left out."),
                    "components": items("What is asked of an entity; all of it.", component),
                    "quota_types": {
                        "description": "The quota keys that were asked for; null for all.",
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
        "One quota key that is not what it was.",
        {
            "key": quota_key(),
            "before": ref("maybe_value", "The value before; null for none."),
            "after": ref("maybe_value", "The value now; null for none."),
        },
    )
    schema = document(
        ALTER,
        "What quotaform alter --format json did to one entity.",
        {
            "cluster": ref("cluster"),
            "read_at": text("When it was read, as ISO 8601 in UTC."),
            "validate_only": boolean("Whether nothing was changed and the values are what would be."),
            "address": address(),
            "entity": ref("entity"),
            "values": mapping(
                "Quota key to value: what the entity holds, freshly read; empty when it is gone.", ref("value")
            ),
            "changes": items("The keys that are not what they were.", change),
        },
    )
    return schema, {}


def validation() -> tuple[Node, dict[str, Node]]:
    """Return the schema of validations and its definitions."""
    entities = record(
        "The entities of one cluster.",
        {
            "cluster": maybe_text("The cluster's name, or null when quotaform.yaml names none."),
            "count": count("How many entities it has."),
        },
    )
    schema = document(
        VALIDATION,
        "What came of checking the files, as quotaform validate writes it.",
        {
            "valid": boolean("Whether nothing is wrong; warnings are not."),
            "directory": text("The quotas directory, as it was given."),
            "files": count("How many files were read."),
            "entities": items("How many entities the files declare, per cluster.", entities),
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
            "iterations": {"description": "Rounds of hashing.", "type": "integer"},
        },
    )
    error = record(
        "Why the user could not be described.",
        {
            "code": {"description": "Kafka's error code.", "type": "integer"},
            "message": text("The broker's words."),
        },
    )
    user = record(
        "One user.",
        {
            "user": text("The user's name."),
            "credentials": items("The user's credentials.", credential),
            "error": maybe(error, "Why the user could not be described; null when nothing went wrong."),
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
        "What became of one credential.",
        {
            "user": text("The user's name."),
            "mechanism": text("The SCRAM mechanism.", "SCRAM-SHA-512"),
            "iterations": {
                "description": "Rounds of hashing; null for a deletion.",
                "type": ["integer", "null"],
            },
            "outcome": choice("What became of it.", (outcome.value for outcome in Outcome)),
            "code": {"description": "Kafka's error code; 0 when nothing went wrong.", "type": ["integer", "null"]},
            "message": maybe_text("The broker's words."),
        },
    )
    schema = document(
        SCRAM_RESULT,
        "What became of changing SCRAM credentials; nothing of any password is in it.",
        {"cluster": ref("maybe_cluster"), "results": items("One item per credential, as they were asked for.", row)},
    )
    return schema, {"maybe_cluster": _maybe_cluster()}


def outcomes() -> tuple[Node, dict[str, Node]]:
    """Return the schema of the results for several clusters and its definitions."""
    error = record(
        "Why there is no result.",
        {
            "exit_code": {"description": "The exit code that this error alone would end with.", "type": "integer"},
            "message": text("What went wrong and what to do."),
        },
    )
    result = mapping("The document of the cluster: a plan, a drift or a receipt.", {})
    outcome = record(
        "What became of one cluster.",
        {
            "cluster": text("The name of the cluster.", "prod-eu"),
            "error": maybe(error, "Why there is no result; null when there is one."),
            "result": maybe(result, "The document of the cluster; null after an error."),
        },
    )
    schema = document(
        OUTCOMES,
        "What became of several clusters, as plan, drift and apply print it with --format json.",
        {"outcomes": items("One item per cluster.", outcome)},
    )
    return schema, {}


def _maybe_cluster() -> Node:
    return record(
        "The cluster.",
        {
            "name": text("As in quotaform.yaml, or its bootstrap servers."),
            "id": maybe_text("The id that the cluster gave itself; null when it is not known."),
        },
    )
