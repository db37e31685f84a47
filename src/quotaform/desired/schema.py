"""The schemas of the files that people write, and of the resolved entry that policies are evaluated on."""

from __future__ import annotations

from functools import partial
from typing import Final

from quotaform.model.entity import DEFAULT_WORD, KNOWN_TYPES, MAX_NAME_BYTES
from quotaform.model.finding import CHANGE, DELETE, MOST_APPROVALS, MOST_DAYS
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.records.schema import DAY, Node, choice, closed, in_code, items, mapping, ref, text, titled
from quotaform.model.rule import APPROVABLE, LINTS
from quotaform.model.scope import MOST_PATTERNS
from quotaform.model.settings import (
    DEFAULT_GUARD_LIMITS,
    EXPIRES_WITHIN_DAYS,
    LEAST_MANAGED,
    MOST_HEADROOM,
    MOST_OUTLIER_DAYS,
    MOST_SOURCES,
    CountLimit,
    PruneMode,
    SizingSettings,
)
from quotaform.model.text import option_of
from quotaform.model.units import UNLIMITED, describe_key, unit_spellings

filled: Final = partial(text, minLength=1)
"""The schema of a text that is not empty."""
_NUMBER: Final = r"(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"


def values() -> Node:
    """Return the schema of values as people write them: one field per quota key."""
    fields = {
        key.name: {
            "description": describe_key(key),
            "type": ["string", "number"],
            "pattern": f"^({UNLIMITED}|{_NUMBER} ?({'|'.join(unit_spellings(key))})?)$",
            "exclusiveMinimum": 0,
            "examples": [*key.examples, UNLIMITED],
        }
        for key in QUOTA_KEYS.values()
    }
    schema = closed("Quota keys and their limits. An omitted key is inherited.", fields, minProperties=1)
    return in_code(schema, {"type": "object", "minProperties": 1})


def quotas() -> Node:
    """Return the schema."""
    schema = closed(
        "A file of quotas.d. A declaration covers all quota keys of its entity.",
        {"quotas": items("The entries; each entity at most once per layer.", ref("entry"))},
        required=["quotas"],
    )
    literal = closed(
        "A literal name, for names with a special meaning.",
        {"name": filled("The name, taken literally.")},
        required=["name"],
        examples=[{"name": DEFAULT_WORD}],
    )
    names = [{"type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES}, ref("literal")]
    match = closed(
        "The entity of the entry: a user, a client-id, both, or an ip. <default> is the default entity; a list "
        "stands for one entity per name.",
        {
            row.name: {
                "description": row.description,
                "anyOf": [*names, {"type": "array", "minItems": 1, "items": {"anyOf": names}}],
                "examples": list(row.examples),
            }
            for row in KNOWN_TYPES.values()
        },
        minProperties=1,
        dependencies={row.name: {"maxProperties": 1} for row in KNOWN_TYPES.values() if not row.combines_with},
        examples=[{"user": "svc-orders"}, {"user": DEFAULT_WORD, "client-id": "etl"}],
    )
    shape = in_code(match, {"type": "object", "minProperties": 1})
    return titled("Kafka client quotas", schema, literal=literal, match=shape, values=values(), entry=_entry())


def _entry() -> Node:
    first = next(iter(QUOTA_KEYS))
    schema = closed(
        "The quotas of one or several entities.",
        {
            "match": ref("match"),
            "values": in_code(ref("values"), {"type": "object", "minProperties": 0}),
            "profile": filled(
                "The name of a profile in quotaform.yaml; values next to it override it key by key.", "gold"
            ),
            "unset": items(
                "Keys of the common entry to remove for this cluster; only in the directory of a cluster.",
                {"type": "string", "minLength": 1, "examples": [first]},
                minItems=1,
                examples=[[first]],
            ),
            "owner": filled("The owner; shown in plans.", "team-orders"),
            "reason": filled("The reason; shown in plans.", "checkout traffic"),
            "expires": _day("Treated as absent from this date (UTC)."),
            "state": choice("absent: the entity must not have any quotas.", ("present", "absent"))
            | {"default": "present"},
        },
        required=["match"],
        anyOf=[
            {"required": ["values"]},
            {"required": ["profile"]},
            {"required": ["unset"]},
            {"required": ["state"], "properties": {"state": {"const": "absent"}}},
        ],
    )
    return _without(schema, "anyOf")


def _day(description: str) -> Node:
    return in_code(text(description, "2026-12-31", pattern=DAY), {"type": "string"})


def _without(schema: Node, keyword: str) -> Node:
    """Return a schema of which code checks one keyword, and whether it is empty."""
    left = {name: value for name, value in schema.items() if name != keyword}
    return in_code(schema, {**left, "minProperties": 0})


def approvals() -> Node:
    """Return the schema."""
    schema: Node = {
        "description": "approvals.yaml, next to quotaform.yaml: approvals that lift a blocking rule for entities.",
        "type": "array",
        "items": ref("approval"),
        "maxItems": MOST_APPROVALS,
    }
    fields = {
        "rule": in_code(choice("The rule that blocks.", APPROVABLE), {"type": "string"}),
        "address": filled(
            "The address of the entity, as printed in plans, or one with globs (*, ?, [...]) as names, for entities of "
            "the same types; only <default> matches a default.",
            "user=<default>",
            "user=svc-*,client-id=etl",
        ),
        "reason": filled("The reason.", "moves to the new cluster"),
        "approver": filled("The person who approves it.", "alice@example.com"),
        "expires": _day(f"The day (UTC) on which the approval expires, at most {MOST_DAYS} days ahead."),
    }
    optional = {
        "action": choice(f"The approved action; {CHANGE} if omitted.", (CHANGE, DELETE)),
        "to": ref(
            "values",
            "Limits the approval to these keys, each with its only approved value, written as in quotas; any if "
            "omitted.",
        ),
        "cluster": filled("The cluster in quotaform.yaml, or a glob over names; any if omitted.", "prod-*"),
    }
    approval = closed(
        "An approval for one rule, and one entity or the entities that a pattern matches.",
        {**fields, **optional},
        required=list(fields),
    )
    return titled("approvals of blocked changes", schema, approval=approval, values=values())


def config() -> Node:
    """Return the schema."""
    patterns, some = ref("pattern"), {"minItems": 1, "maxItems": MOST_PATTERNS}
    schema = closed(
        "quotaform.yaml: clusters, profiles, scope and checks. ${env:NAME} in bootstrap_servers and command_config is "
        "replaced by the environment variable NAME if QUOTAFORM_ENV lists it.",
        {
            "clusters": mapping(
                "The clusters by name, which is also the directory of their own entries in quotas.d.",
                ref("cluster"),
                maxProperties=20_000,
            ),
            "profiles": mapping(
                "Named values, used by `profile: NAME` in quotas.d.",
                ref("values"),
                examples=[{"gold": {"producer_byte_rate": "50MiB/s"}}],
                maxProperties=1000,
            ),
            "scope": closed(
                "The entities managed here (default: all).",
                {
                    "include": items("Manage only these entities (default: all).", patterns, **some),
                    "exclude": items("Do not manage these entities.", patterns, **some),
                },
                minProperties=1,
            ),
            "protect": items(
                "Protected entities: deleting one of them, or reducing an effective limit to half or less, requires an "
                "approval in approvals.yaml.",
                patterns,
                maxItems=MOST_PATTERNS,
                examples=[[{"user": "<default>"}, {"user": "kafka-*"}]],
            ),
            "guards": closed(
                f"The limits of a plan that can be applied without {option_of('allow')}.",
                {
                    "delete": _count_limit("Deleted entities", DEFAULT_GUARD_LIMITS.delete),
                    "update": _count_limit("Updated entities", DEFAULT_GUARD_LIMITS.update),
                    "change_factor": _number(
                        "A value that changes by this factor or more, up or down, requires "
                        f"{option_of('allow')} change-factor.",
                        (2, 1_000_000, DEFAULT_GUARD_LIMITS.change_factor),
                    ),
                },
            ),
            "prune": choice(
                "What happens to live entities in scope that no file declares. report: they are listed. removed: those "
                f"that the base ({option_of('base')}, or the last receipt) declares are deleted. scope: all of them "
                "are deleted.",
                PruneMode,
            )
            | {"default": "report"},
            "drift_ignore": items(
                "Drift to ignore in quotaform drift and its alerts. Plans are not affected.",
                ref("drift_ignore"),
                maxItems=1000,
            ),
            "policies": items(
                "JSON Schemas that each resolved entry must satisfy (see quotaform schema entry): paths or globs, "
                "relative to this file and within its directory.",
                filled("A path or a glob.", "policies/*.schema.json"),
                minItems=1,
                maxItems=100,
            ),
            "roots": items(
                "Other quota repositories, relative to this file: in the same git work tree, or next to this "
                "repository. An entity that one of them declares for the same cluster is an error here.",
                filled("The path of a quotas directory, or of its parent.", "../other-team"),
                minItems=1,
                maxItems=100,
            ),
            "lints": closed(
                "Settings of lints: warnings that block nothing.",
                {
                    "ignore": items("Accepted findings, which are not shown.", ref("lint_ignore"), maxItems=200),
                    "expires_within_days": _number(
                        "The number of days before the expiry of an entry from which to warn.",
                        (0, 3650, EXPIRES_WITHIN_DAYS),
                    ),
                },
                minProperties=1,
            ),
            "recommend": _recommend(),
            "principals": closed(
                "Users with a special role.",
                {
                    "brokers": items(
                        "The principals with which brokers authenticate to each other, as user names in quotas.",
                        filled("A user name, without User:.", "kafka", "ANONYMOUS"),
                        minItems=1,
                        maxItems=100,
                    )
                },
                minProperties=1,
            ),
        },
    )
    pattern = closed(
        "Selects entities by type: every listed type must be present and match. Names are globs; <default> is the "
        "default entity, which no glob matches.",
        {
            row.name: filled(f"A glob of {row.name} names, or {DEFAULT_WORD}.", row.glob, DEFAULT_WORD)
            for row in KNOWN_TYPES.values()
        },
        minProperties=1,
    )
    return titled(
        "configuration",
        schema,
        cluster=_cluster(),
        drift_ignore=_drift_ignore(),
        lint_ignore=_lint_ignore(),
        pattern=pattern,
        values=values(),
    )


def _recommend() -> Node:
    default = SizingSettings()
    return closed(
        "How quotaform usage recommend sizes quotas; its options come first.",
        {
            "percentile": text("The percentile of each day on which a value rests (default: p99).", "p99.9"),
            "outlier_days": _number(
                "How many of the highest days of each weekday are left out; the last one of a weekday never is.",
                (0, MOST_OUTLIER_DAYS, default.outlier_days),
            ),
            "headroom": _number("What it is multiplied by.", (1, MOST_HEADROOM, default.headroom), "number"),
            "floor": ref("values", "No value is proposed below these."),
            "cap": ref("values", "No value is proposed above these."),
            "min_history": text("How much must be recorded of an entity (default: 14d).", "7d"),
            "min_samples": _number("How many samples it must have.", (1, 1_000_000_000, default.min_samples)),
            "unused_after": text("After how long without use a value is proposed for removal (default: 30d).", "90d"),
        },
        minProperties=1,
    )


def _lint_ignore() -> Node:
    return closed(
        "Findings of a lint that are not shown: all of them, or those about one entity or about entities that match.",
        {
            "rule": choice("The lint.", LINTS),
            "address": filled("The address of the entity, as shown in findings.", "client-id=etl"),
            "match": ref("pattern"),
            "reason": filled("Why it is accepted.", "agreed with team-etl until the migration"),
            "expires": _day("Has no effect from this date (UTC) on."),
        },
        required=["rule", "reason"],
    )


def _count_limit(what: str, default: CountLimit) -> Node:
    return closed(
        f"{what}: more than this requires {option_of('allow')}.",
        {
            "count": _number(f"{what}, at most.", (0, 1_000_000, default.count)),
            "percent": _number(
                f"{what} in percent of the managed entities, at most; applies if at least {LEAST_MANAGED} are managed.",
                (0, 100, default.percent),
            ),
        },
    )


def _number(description: str, bounds: tuple[float, float, float], kind: str = "integer") -> Node:
    """Return the schema of a number; `bounds`: the least, the most and the default."""
    least, most, default = bounds
    return {"description": description, "type": kind, "minimum": least, "maximum": most, "default": default}


def _cluster() -> Node:
    server = {"type": "string", "minLength": 1, "examples": ["broker-1:9092"]}
    schema = closed(
        "A cluster: either bootstrap_servers, or snapshot for a file.",
        {
            "bootstrap_servers": items("Bootstrap servers, as HOST:PORT.", server, minItems=1, maxItems=100),
            "command_config": filled(
                "Java client properties file (security.protocol, sasl.*, ssl.*), relative to this file.",
                "client-prod.properties",
            ),
            "cluster_id": filled("The expected cluster id; any other cluster is rejected."),
            "confirm": choice("name: interactive applies require typing the cluster name.", ("name",)),
            "snapshot": filled("Snapshot file to plan against offline, relative to this file.", "snapshots/lab.json"),
            "capacity": {
                "allOf": [ref("values")],
                "description": "The capacity of one broker (of the cluster for keys per cluster). There is a warning "
                "if the declared limits add up to more.",
                "examples": [{"producer_byte_rate": "500MiB/s"}],
            },
            "metrics": _metrics(),
        },
        oneOf=[{"required": ["bootstrap_servers"]}, {"required": ["snapshot"]}],
    )
    return _without(schema, "oneOf")


def _metrics() -> Node:
    return closed(
        "Where quotaform top and quotaform usage record read the measurements of the brokers.",
        {
            "brokers": items(
                "One source per broker: BROKER=URL of an exporter, or BROKER=jmx:HOST:PORT.",
                {"type": "string", "minLength": 1, "examples": ["1=http://broker-1:7071/metrics"]},
                minItems=1,
                maxItems=MOST_SOURCES,
            ),
            "prometheus": filled("The URL of a Prometheus that has them, for quotaform top.", "http://prometheus:9090"),
            "labels": mapping(
                "Labels that choose the series of the cluster in Prometheus.",
                {"type": "string", "minLength": 1},
                examples=[{"cluster": "prod-eu"}],
                minProperties=1,
                maxProperties=100,
            ),
        },
        minProperties=1,
    )


def _drift_ignore() -> Node:
    return closed(
        "Entities whose drift is ignored until a date.",
        {
            "match": ref("pattern"),
            "keys": items(
                "Only these quota keys (default: all).", {"type": "string", "examples": list(QUOTA_KEYS)}, minItems=1
            ),
            "reason": filled("Why it is ignored.", "load test of the new brokers"),
            "expires": _day("The date (UTC) from which it counts again."),
        },
        required=["match", "reason", "expires"],
    )


ENTITY: Final = "entity"
VALUES: Final = "values"


def entry() -> Node:
    """Return the schema."""
    keys = ((key, f"{key.limits}, per {key.per}; {UNLIMITED} is {int(key.maximum)}.") for key in QUOTA_KEYS.values())
    schema = closed(
        "A resolved entry: what the files declare for one entity on one cluster, profiles and layers included. "
        "Policies are evaluated against it. Fields without a value are omitted.",
        {
            "address": text("The entity on one line.", "user=svc-orders", f"user={DEFAULT_WORD},client-id=etl"),
            ENTITY: closed(
                "Entity type to name; null is the default.",
                {
                    row.name: {
                        "description": f"The {row.name}; null is the default.",
                        "type": ["string", "null"],
                        "examples": [each for each in row.examples if isinstance(each, str) and each != DEFAULT_WORD],
                    }
                    for row in KNOWN_TYPES.values()
                },
                minProperties=1,
            ),
            VALUES: closed(
                "Quota key to its value, in the unit of the key; inherited keys are omitted.",
                {key.name: {"description": about, "type": "number", "exclusiveMinimum": 0} for key, about in keys},
                minProperties=1,
            ),
            "unlimited": items(
                f"The keys whose value is {UNLIMITED}.", {"enum": list(QUOTA_KEYS)}, examples=[["producer_byte_rate"]]
            ),
            "owner": text("The owner.", "team-orders"),
            "reason": text("The reason.", "checkout traffic"),
            "expires": text("The date (UTC) from which the entry is treated as absent.", "2026-12-31"),
            "profile": text("The profile that the entry names.", "gold"),
            "cluster": text("The name of the cluster in quotaform.yaml.", "prod-eu"),
        },
        required=["address", ENTITY, VALUES, "unlimited"],
    )
    return titled("resolved entry", schema)
