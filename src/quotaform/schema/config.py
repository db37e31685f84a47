"""The schema of quotaform.yaml."""

from __future__ import annotations

from quotaform.core.check.lint.setting import EXPIRES_WITHIN_DAYS
from quotaform.core.check.rule import LINTS
from quotaform.core.guard_limits import DEFAULT_GUARD_LIMITS, LEAST_MANAGED, CountLimit
from quotaform.core.prune import PruneMode
from quotaform.core.usage.sizing.recommendation import MOST_HEADROOM, MOST_OUTLIER_DAYS, SizingSettings
from quotaform.model.entity import DEFAULT_WORD, KNOWN_TYPES, EntityType
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.schema.node import Node, choice, closed, items, mapping, ref, text
from quotaform.schema.quotas import values


def config() -> tuple[Node, dict[str, Node]]:
    """Return the schema and its definitions."""
    patterns = ref("pattern")
    schema = closed(
        "quotaform.yaml: clusters, profiles, scope and checks. ${env:NAME} in bootstrap_servers and command_config is "
        "replaced by the environment variable NAME if QUOTAFORM_ENV lists it.",
        {
            "clusters": mapping(
                "The clusters by name, which is also the directory of their own entries in quotas.d.", ref("cluster")
            ),
            "profiles": mapping(
                "Named values, used by `profile: NAME` in quotas.d.",
                ref("values"),
                {"gold": {"producer_byte_rate": "50MiB/s"}},
            ),
            "scope": closed(
                "The entities managed here (default: all).",
                {
                    "include": items("Manage only these entities (default: all).", patterns, minItems=1),
                    "exclude": items("Do not manage these entities.", patterns, minItems=1),
                },
                minProperties=1,
            ),
            "protect": items(
                "Protected entities: deleting one of them, or reducing an effective limit to half or less, requires an "
                "approval in approvals.yaml.",
                patterns,
                examples=[[{"user": "<default>"}, {"user": "kafka-*"}]],
            ),
            "guards": closed(
                "The limits of a plan that can be applied without --allow.",
                {
                    "delete": _count_limit("Deleted entities", DEFAULT_GUARD_LIMITS.delete),
                    "update": _count_limit("Updated entities", DEFAULT_GUARD_LIMITS.update),
                    "change_factor": _whole(
                        "A value that changes by this factor or more, up or down, requires --allow change-factor.",
                        2,
                        1_000_000,
                    )
                    | {"default": DEFAULT_GUARD_LIMITS.change_factor},
                },
            ),
            "prune": choice(
                "What happens to live entities in scope that no file declares. report: they are listed. removed: those "
                "that the base (--base, or the last receipt) declares are deleted. scope: all of them are deleted.",
                PruneMode,
            )
            | {"default": "report"},
            "drift_ignore": items(
                "Drift to ignore in quotaform drift and its alerts. Plans are not affected.",
                ref("drift_ignore"),
            ),
            "policies": items(
                "JSON Schemas that each resolved entry must satisfy (see quotaform schema entry): paths or globs, "
                "relative to this file and within its directory.",
                text("A path or a glob.", "policies/*.schema.json", minLength=1),
                minItems=1,
            ),
            "roots": items(
                "Other quota repositories, relative to this file: in the same git work tree, or next to this "
                "repository. An entity that one of them declares for the same cluster is an error here.",
                text("The path of a quotas directory, or of its parent.", "../other-team", minLength=1),
                minItems=1,
            ),
            "lints": closed(
                "Settings of lints: warnings that block nothing.",
                {
                    "ignore": items("Accepted findings, which are not shown.", ref("lint_ignore")),
                    "expires_within_days": {
                        "description": "The number of days before the expiry of an entry from which to warn.",
                        "type": "integer",
                        "minimum": 0,
                        "maximum": 3650,
                        "default": EXPIRES_WITHIN_DAYS,
                    },
                },
                minProperties=1,
            ),
            "recommend": _recommend(),
            "principals": closed(
                "Users with a special role.",
                {
                    "brokers": items(
                        "The principals with which brokers authenticate to each other, as user names in quotas.",
                        text("A user name, without User:.", "kafka", "ANONYMOUS", minLength=1),
                        minItems=1,
                    )
                },
                minProperties=1,
            ),
        },
    )
    return schema, {
        "cluster": _cluster(),
        "drift_ignore": _drift_ignore(),
        "lint_ignore": _lint_ignore(),
        "pattern": _pattern(),
        "values": values(),
    }


def _recommend() -> Node:
    default = SizingSettings()
    return closed(
        "How quotaform usage recommend sizes quotas; its options come first.",
        {
            "percentile": text("The percentile of each day on which a value rests (default: p99).", "p99.9"),
            "outlier_days": _whole(
                "How many of the highest days of each weekday are left out; the last one of a weekday never is.",
                0,
                MOST_OUTLIER_DAYS,
            )
            | {"default": default.outlier_days},
            "headroom": {
                "description": "What it is multiplied by.",
                "type": "number",
                "minimum": 1,
                "maximum": MOST_HEADROOM,
                "default": default.headroom,
            },
            "floor": ref("values", "No value is proposed below these."),
            "cap": ref("values", "No value is proposed above these."),
            "min_history": text("How much must be recorded of an entity (default: 14d).", "7d"),
            "min_samples": _whole("How many samples it must have.", 1, 1_000_000_000)
            | {"default": default.min_samples},
            "unused_after": text("After how long without use a value is proposed for removal (default: 30d).", "90d"),
        },
        minProperties=1,
    )


def _lint_ignore() -> Node:
    return closed(
        "Findings of a lint that are not shown: all of them, or those about one entity or about entities that match.",
        {
            "rule": choice("The lint.", LINTS),
            "address": text("The address of the entity, as shown in findings.", "client-id=etl", minLength=1),
            "match": ref("pattern"),
            "reason": text("Why it is accepted.", "agreed with team-etl until the migration", minLength=1),
            "expires": text(
                "Has no effect from this date (UTC) on.", "2026-12-31", pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
            ),
        },
        required=["rule", "reason"],
    )


def _count_limit(what: str, default: CountLimit) -> Node:
    return closed(
        f"{what}: more than this requires --allow.",
        {
            "count": _whole(f"{what}, at most.", 0, 1_000_000) | {"default": default.count},
            "percent": _whole(
                f"{what} in percent of the managed entities, at most; applies if at least {LEAST_MANAGED} are managed.",
                0,
                100,
            )
            | {"default": default.percent},
        },
    )


def _whole(description: str, least: int, most: int) -> Node:
    return {"description": description, "type": "integer", "minimum": least, "maximum": most}


def _cluster() -> Node:
    server = {"type": "string", "minLength": 1, "examples": ["broker-1:9092"]}
    return closed(
        "A cluster: either bootstrap_servers, or snapshot for a file.",
        {
            "bootstrap_servers": items("Bootstrap servers, as HOST:PORT.", server, minItems=1),
            "command_config": text(
                "Java client properties file (security.protocol, sasl.*, ssl.*), relative to this file.",
                "client-prod.properties",
                minLength=1,
            ),
            "cluster_id": text("The expected cluster id; any other cluster is rejected.", minLength=1),
            "confirm": choice("name: interactive applies require typing the cluster name.", ("name",)),
            "snapshot": text(
                "Snapshot file to plan against offline, relative to this file.",
                "snapshots/lab.json",
                minLength=1,
            ),
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


def _metrics() -> Node:
    return closed(
        "Where quotaform top and quotaform usage record read the measurements of the brokers.",
        {
            "brokers": items(
                "One source per broker: BROKER=URL of an exporter, or BROKER=jmx:HOST:PORT.",
                {"type": "string", "minLength": 1, "examples": ["1=http://broker-1:7071/metrics"]},
                minItems=1,
            ),
            "prometheus": text(
                "The URL of a Prometheus that has them, for quotaform top.", "http://prometheus:9090", minLength=1
            ),
            "labels": mapping(
                "Labels that choose the series of the cluster in Prometheus.",
                {"type": "string", "minLength": 1},
                {"cluster": "prod-eu"},
                minProperties=1,
            ),
        },
        minProperties=1,
    )


def _drift_ignore() -> Node:
    key = {"type": "string", "examples": list(QUOTA_KEYS)}
    return closed(
        "Entities whose drift is ignored until a date.",
        {
            "match": ref("pattern"),
            "keys": items("Only these quota keys (default: all).", key, minItems=1),
            "reason": text("Why it is ignored.", "load test of the new brokers", minLength=1),
            "expires": text("The date (UTC) from which it counts again.", "2026-12-31", minLength=1),
        },
        required=["match", "reason", "expires"],
    )


def _pattern() -> Node:
    return closed(
        "Selects entities by type: every listed type must be present and match. Names are globs; <default> is the "
        "default entity, which no glob matches.",
        {row.name: _glob(row) for row in KNOWN_TYPES.values()},
        minProperties=1,
    )


def _glob(row: EntityType) -> Node:
    return text(f"A glob of {row.name} names, or {DEFAULT_WORD}.", row.glob, DEFAULT_WORD, minLength=1)
