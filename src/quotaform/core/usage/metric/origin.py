"""Where a recording is from, as far as its metrics do not say so themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from re import compile as regex
from typing import Final

CLUSTER_LABELS: Final = (
    "kafka_cluster",
    "kafka_cluster_name",
    "strimzi_io_cluster",
    "label_strimzi_io_cluster",
    "cluster",
    "cluster_name",
    "kafka_cluster_id",
    "cluster_id",
)
"""The labels that name the cluster, the first one that a metric has: `cluster` may be that of Kubernetes."""

BROKER_LABELS: Final = (
    "broker",
    "broker_id",
    "kafka_broker",
    "kafka_broker_id",
    "kafka_node_id",
    "node_id",
    "pod",
    "kubernetes_pod_name",
    "pod_name",
    "k8s_pod_name",
    "exported_instance",
    "instance",
    "service_instance_id",
    "jolokia_agent_url",
    "net_host_name",
    "server_address",
    "hostname",
    "host_name",
    "host",
    "server",
    "node",
    "node_name",
)
"""The labels that name the broker, the first one that a metric has."""

TYPE_LABELS: Final = (
    "quota_type",
    "resource",
    "type",
    "quota",
    "request_type",
    "api",
    "operation",
    "bean_type",
    "kind",
)
"""The labels that say of which quota a metric is, the first one that names a type of quota."""

USER_LABELS: Final = ("exported_user", "user", "username", "principal", "kafka_user", "quota_user", "kafka_principal")
"""The labels that name the user, the first one that a metric has."""

CLIENT_ID_LABELS: Final = ("exported_client_id", "client_id", "client", "kafka_client_id", "quota_client_id")
"""The labels that name the client-id, the first one that a metric has."""

IP_LABELS: Final = ("ip", "client_ip", "source_ip", "address", "exported_ip")
"""The labels that name the address, the first one that a metric has."""

INSTANCE_LABELS: Final = ("client_instance_id", "instance", "service_instance_id", "pod")
"""The labels that tell clients of the same names apart that measure themselves, the first one that a metric has."""

_LONGEST_KNOWN: Final = 256
_LETTERS: Final = regex(r"[^a-z0-9]+")
_URL = regex(r"[a-z]+://(?:[^/?#@]*@)?([^/?#@]+)(?:[/?#].*)?").fullmatch


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a recording is from.

    Attributes:
        cluster: The cluster of metrics that have none of the labels; `None` if it is not known.
        broker: The same for the broker.
        cluster_labels: The labels that name the cluster; the first one that a metric has counts.
        broker_labels: The same for the broker.
        type_labels: The labels that say of which quota a metric is; the first one that names a type of quota counts.
        user_labels: The labels that name the user; the first one that a metric has counts.
        client_id_labels: The same for the client-id.
        ip_labels: The same for the address.
    """

    cluster: str | None = None
    broker: str | None = None
    cluster_labels: tuple[str, ...] = CLUSTER_LABELS
    broker_labels: tuple[str, ...] = BROKER_LABELS
    type_labels: tuple[str, ...] = TYPE_LABELS
    user_labels: tuple[str, ...] = USER_LABELS
    client_id_labels: tuple[str, ...] = CLIENT_ID_LABELS
    ip_labels: tuple[str, ...] = IP_LABELS

    def __hash__(self) -> int:
        """Return the hash, which each sample asks for; that of all labels would take as long as reading the sample."""
        return hash((self.cluster, self.broker))

    def cluster_of(self, labels: Mapping[str, str]) -> str | None:
        """Return the cluster of a metric with these labels, whose names are folded."""
        return first_label(labels, self.cluster_labels) or self.cluster

    def broker_of(self, labels: Mapping[str, str]) -> str | None:
        """Return the broker of a metric with these labels, whose names are folded."""
        name = first_label(labels, self.broker_labels)
        url = _URL(name) if name else None
        return url[1] if url else name or self.broker


def first_label(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return the value of the first of some labels that is there and not empty: to Prometheus an empty one is absent.

    `labels` are values by folded name. `names` are names of labels, as people write them.
    """
    for name in names:
        if value := labels.get(fold(name)):
            return value
    return None


def fold(name: str) -> str:
    """Return what all spellings of the name of a label have in common.

    >>> {fold(name) for name in ("client-id", "clientId", "client_id", "clientid")}
    {'clientid'}
    """
    return _known_fold(name) if len(name) <= _LONGEST_KNOWN else _LETTERS.sub("", name.lower())


@lru_cache(maxsize=4096)
def _known_fold(name: str) -> str:
    return _LETTERS.sub("", name.lower())
