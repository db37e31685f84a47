"""Definitions and fields that several schemas share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from quotaform.core.change import Action
from quotaform.core.check.rule import RULES
from quotaform.core.limit_change import LimitDirection
from quotaform.core.prune import PruneMode
from quotaform.model.approval import DELETE
from quotaform.model.document_kind import DocumentKind
from quotaform.model.entity import ENTITY_TYPES
from quotaform.model.finding import Severity
from quotaform.schema.node import Node, boolean, choice, count, items, mapping, maybe, maybe_text, record, ref, text

TIMESTAMP: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"
DAY: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
DIGEST: Final = "^sha256:[0-9a-f]{64}$"
IN_SYNC: Final = "Declared entities without differences."


def timestamp(description: str) -> Node:
    """Return the schema of a moment."""
    return text(f"{description}, as ISO 8601 in UTC.", pattern=TIMESTAMP)


def digest(description: str) -> Node:
    """Return the schema of a digest."""
    return text(description, pattern=DIGEST)


def document(kind: DocumentKind, description: str, fields: Mapping[str, Node], optional: Iterable[str] = ()) -> Node:
    """Return the schema of a document: its kind and version, and its own fields."""
    head = {
        "format_version": text("Minor versions only add fields.", pattern=rf"^{kind.major}\.[0-9]+$"),
        "kind": {"description": "The kind of this document.", "const": kind.kind},
    }
    return record(description, {**head, **fields}, optional)


def address(*examples: str) -> Node:
    """Return the schema of an entity on one line."""
    return text("The address of the entity: unique, and safe to print.", *examples, minLength=1)


def quota_key() -> Node:
    """Return the schema of the name of a quota key, which may be one that only the broker knows."""
    return text("The quota key.", "producer_byte_rate", minLength=1)


def radius_counts() -> dict[str, Node]:
    """Return the schemas of how many limits plans change for those who really connect."""
    limits = record(
        "How often limits change in this direction.",
        {
            "principals": count("Principals with such a limit; one can count in several directions."),
            "limits": count("Effective limits: one per principal and quota key."),
        },
    )
    return {
        "source": text("The list of principals: scram, or a file or table as given.", "principals.csv", "scram"),
        "principals": count("Principals in the list, each counted once."),
        "affected": count("Principals that get another effective limit."),
        "counts": record("One field per direction.", {direction.value: limits for direction in LimitDirection}),
    }


def source_fields() -> dict[str, Node]:
    """Return the schemas of where files came from."""
    return {
        "directory": text("The directory, as given.", "quotas.d"),
        "commit": maybe_text("The git commit, or null outside of git."),
        "dirty": {
            "description": "Whether the files differed from that commit; null outside of git.",
            "type": ["boolean", "null"],
        },
    }


def base() -> Node:
    """Return the schema of what files were compared with."""
    return {
        **record(
            "The revision that the files were compared with, or null.",
            {
                "ref": text("The git revision or the receipt, as given.", "origin/main"),
                "commit": maybe_text("The commit of the revision; null for a receipt without one."),
                "receipt": boolean("Whether it is a receipt; omitted for a git revision."),
            },
            optional=("receipt",),
        ),
        "type": ["object", "null"],
    }


def declared() -> Node:
    """Return the schema of the addresses that files declare."""
    return items(
        "The addresses of all entities that the files declare for the cluster, selected or not, sorted; tombstones and "
        "expired entries are not among them. Omitted before version 1.1.",
        ref("address"),
    )


def globs(description: str) -> Node:
    """Return the schema of globs over addresses."""
    return items(description, {"type": "string"})


def plan_options() -> Node:
    """Return the schema of what was asked for when a plan was made."""
    return record(
        "The options of the command.",
        {
            "prune": text("What happens to entities in scope that no file declares.", *PruneMode),
            "prune_given": boolean("Whether --prune was given; omitted if the mode is that of quotaform.yaml."),
            "select": globs("Globs of addresses to include; all entities if empty."),
            "exclude": globs("Globs of addresses to exclude."),
            "bootstrap_server": text(
                "The value of --bootstrap-server when it stands for the cluster, whose files are used; "
                "omitted otherwise."
            ),
            "revert": digest("The id of the plan that this plan reverts; omitted if it reverts none."),
            "guards": record(
                "The limits of quotaform.yaml that differ from the defaults; omitted if there are none.",
                {"delete": _count_limit(), "update": _count_limit(), "change_factor": count("The factor.")},
                optional=("delete", "update", "change_factor"),
            ),
            "protect": items(
                "The protected entities, by entity type: a glob, or null for the default; omitted if there are none.",
                mapping("A pattern.", {"type": ["string", "null"]}, {"user": "kafka-*"}),
            ),
        },
        optional=("prune_given", "bootstrap_server", "revert", "guards", "protect"),
    )


def _count_limit() -> Node:
    return record(
        "A number of entities.",
        {"count": count("At most so many."), "percent": count("At most this share, in percent.")},
    )


def ci_run() -> Node:
    """Return the schema of the job of a CI system."""
    return record(
        "The CI job that applied it, according to its environment; omitted outside CI.",
        {
            "system": text("The CI system.", "github", "gitlab"),
            "url": maybe_text("The URL of the job, or null."),
            "actor": maybe_text("The CI user who started it, or null."),
        },
    )


def _action() -> Node:
    return choice(
        "create: no value before; update: another value before; delete: no value after.",
        (action.value for action in Action),
    )


def _entity() -> Node:
    return mapping(
        f"Entity type ({', '.join(ENTITY_TYPES)} or one that only the broker knows) to name; null is the default of "
        "the type.",
        {"type": ["string", "null"]},
        {"user": "svc-orders"},
        {"user": None, "client-id": "etl"},
        minProperties=1,
    )


def _value() -> Node:
    return {
        "description": "The exact decimal of an IEEE-754 double; NaN and infinities are strings.",
        "anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}],
        "examples": [10485760, 12.5, 9223372036854775808, "NaN"],
    }


def _finding() -> Node:
    return record(
        "A finding about a file, an entity or a plan.",
        {
            "rule": text("The id of its rule; docs/rules.md lists them.", *RULES, minLength=1),
            "severity": choice("The severity; only errors stop the command.", (each.value for each in Severity)),
            "blocking": boolean("Whether it prevents a plan from being applied."),
            "address": maybe_text("The address of the entity, or null."),
            "key": maybe_text("The quota key, or null."),
            "message": text("The problem and its remedy."),
            "override": maybe_text("What allows it, or null: an option, or an approval."),
            "allowance": record(
                "The smallest allowance that allows it (--allow RULE or RULE=N); omitted if none does.",
                {
                    "rule": text("The id of the rule.", minLength=1),
                    "number": maybe({"type": "integer", "minimum": 0}, "The number, for a rule that counts."),
                },
            ),
            "value": ref("value", "The value or effective limit that an approval may be for; omitted if none."),
            "allowed_by": text("The option or the approval that allows it; omitted otherwise.", "--allow delete=8"),
            "location": ref("maybe_location"),
        },
        optional=("allowance", "value", "allowed_by"),
    )


def approvals() -> Node:
    """Return the schema of the approvals that lift blocks of a plan."""
    return items(
        "The approvals of approvals.yaml that the plan depends on; omitted if there are none.",
        record(
            "An approval for one rule and one entity, or the entities that a pattern matches.",
            {
                "rule": text("The rule that would block."),
                "address": ref("address"),
                "cluster": text("The cluster that it is for, or a glob; omitted if it is for any."),
                "reason": text("The reason."),
                "approver": text("The person who approved it."),
                "expires": text("The day (UTC) on which it expires.", "2026-12-31", pattern=DAY),
                "action": choice("The approved action if the entity is deleted; omitted otherwise.", [DELETE]),
                "to": ref("values", "The approved keys and values; omitted if the approval is for any."),
                "new": boolean(
                    "Whether it is new or changed compared with the base; omitted if not, or without a base."
                ),
            },
            optional=("cluster", "action", "to", "new"),
        ),
    )


def _cluster() -> Node:
    return record(
        "The cluster.",
        {
            "name": text("The name in quotaform.yaml, or the bootstrap servers."),
            "id": text("The cluster id."),
        },
    )


def _snapshot_file() -> Node:
    return record(
        "The snapshot that was read instead of a running cluster.",
        {
            "path": text("The file, as it was given.", "snapshots/lab.json"),
            "captured_at": text("When the cluster was read, as the snapshot says: ISO 8601 in UTC."),
        },
    )


def _location() -> Node:
    return record(
        "A location in the files.",
        {
            "file": text("The path, as given.", "quotas.d/teams.yaml"),
            "line": count("The line, from 1 on; 0 means the file as a whole."),
            "column": count("The column, from 1 on; 0 means the line as a whole."),
        },
    )


SHARED: Final[dict[str, Callable[[], Node]]] = {
    "cluster": _cluster,
    "snapshot_file": _snapshot_file,
    "action": _action,
    "address": lambda: address("user=svc-orders"),
    "entity": _entity,
    "value": _value,
    "maybe_value": lambda: maybe(ref("value"), "A value, or null if there is none."),
    "values": lambda: mapping(
        "Quota key to value.",
        ref("value"),
        {"producer_byte_rate": 10485760, "request_percentage": 150},
        minProperties=1,
    ),
    "maybe_values": lambda: maybe(ref("values"), "All values of an entity, or null if it does not exist."),
    "location": _location,
    "maybe_location": lambda: maybe(ref("location"), "A location in the files, or null."),
    "finding": _finding,
}
"""The shared definitions; a schema holds those that it refers to."""
