"""The schema of quotaform.yaml."""

from __future__ import annotations

from quotaform.model.entity import DEFAULT_WORD, KNOWN_TYPES, EntityType
from quotaform.schema.node import Node, choice, closed, items, mapping, ref, text
from quotaform.schema.quotas import values


def config() -> tuple[Node, dict[str, Node]]:
    """Return the schema and its definitions."""
    patterns = ref("pattern")
    schema = closed(
        "quotaform.yaml: clusters, profiles and scope. ${env:NAME} in a value is replaced by that environment "
        "variable.",
        {
            "clusters": mapping(
                "The clusters by name; a name is also the folder of its own entries in quotas.d.", ref("cluster")
            ),
            "profiles": mapping(
                "Named values, used by `profile: NAME` in quotas.d.",
                ref("values"),
                {"gold": {"producer_byte_rate": "50MiB/s"}},
            ),
            "scope": closed(
                "The entities that these files speak for; everything if left out.",
                {
                    "include": items("Only these; everything if left out.", patterns, minItems=1),
                    "exclude": items("Not these.", patterns, minItems=1),
                },
                minProperties=1,
            ),
            "prune": choice(
                "What happens to entities in scope that no file declares: report lists them and leaves them alone.",
                ("report",),
            )
            | {"default": "report"},
        },
    )
    return schema, {"cluster": _cluster(), "pattern": _pattern(), "values": values()}


def _cluster() -> Node:
    server = {"type": "string", "minLength": 1, "examples": ["broker-1:9092"]}
    return closed(
        "One cluster: bootstrap_servers for a running one, or snapshot for a file.",
        {
            "bootstrap_servers": items("Brokers to ask first, as HOST:PORT.", server, minItems=1),
            "command_config": text(
                "A file of Java client properties (security.protocol, sasl.*, ssl.*), relative to this file.",
                "client-prod.properties",
                minLength=1,
            ),
            "cluster_id": text("The cluster's own id, checked before anything is written.", minLength=1),
            "confirm": choice("name: the cluster's name must be typed to apply by hand.", ("name",)),
            "snapshot": text(
                "A file written by quotaform snapshot, relative to this file: plans without a cluster.",
                "snapshots/lab.json",
                minLength=1,
            ),
        },
        oneOf=[{"required": ["bootstrap_servers"]}, {"required": ["snapshot"]}],
    )


def _pattern() -> Node:
    return closed(
        "Selects entities by type: every listed type must be there and match. Names are globs; <default> is the "
        "default entity, which no glob matches.",
        {row.name: _glob(row) for row in KNOWN_TYPES.values()},
        minProperties=1,
    )


def _glob(row: EntityType) -> Node:
    return text(f"A glob over {row.name} names, or {DEFAULT_WORD}.", row.glob, DEFAULT_WORD, minLength=1)
