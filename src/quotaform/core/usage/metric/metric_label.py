"""What the labels of a metric of client quotas say: of which quota it is, and the names of its bucket.

Names are spelled in two ways, both undone here: Kafka percent-encodes the user of a bucket, and JMX quotes values with
odd characters. A client-id is never percent-encoded.

Source: org.apache.kafka.server.quota.ClientQuotaManager, org.apache.kafka.common.metrics.JmxReporter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from quotaform.core.usage.metric.metric_name import key_of_type
from quotaform.core.usage.metric.object_name import parse_properties, unquote
from quotaform.core.usage.metric.origin import CLIENT_ID_LABELS, USER_LABELS, Origin, first_label, fold
from quotaform.core.usage.sample.sample import Unreadable
from quotaform.model.ip import canonical_ip
from quotaform.model.quota_key import CONNECTION_CREATION_RATE
from quotaform.model.sanitizer import desanitize
from quotaform.model.text import quote

_USER_TYPE: Final = "User:"
_HINTS: Final = ("user", "client", "principal")
"""What is in the name of a label which may name somebody."""
_NO_NAMES: Final = (
    "client_software_name",
    "client_software_version",
    "client_instance_id",
    "client_source_address",
    "client_source_port",
    "client_address",
    "client_rack",
    "client_host",
    "client_ip",
    "client_port",
    "user_agent",
)
"""Labels that name nobody; most of them are of KIP-714."""
_FOLDED_NO_NAMES: Final = frozenset(map(fold, _NO_NAMES))
_USER_HINTS: Final = ("user", "principal")
_CLIENT_HINTS: Final = ("client",)
"""How names of labels begin or end which may name users, or client-ids."""

_SEPARATOR: Final = ", client-id="
"""What stands before the client-id where an exporter's rules see the name of an MBean."""


class Names(NamedTuple):
    """The names of a bucket, decoded; `None` is one that it does not have."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


def type_of(labels: Mapping[str, str], origin: Origin) -> str | None:
    """Return the label that names a type of quota, or the first one that may, as other things have types, too."""
    found = [value for name in origin.type_labels if (value := labels.get(fold(name)))]
    return next((value for value in found if key_of_type(value.partition(",")[0])), found[0] if found else None)


def split_type(kind: str, labels: Mapping[str, str], origin: Origin) -> tuple[str, dict[str, str]]:
    """Return type and labels where the label of the type holds names, too: `Produce, user=alice`.

    A rule for client-ids that stands before the one for users with client-ids takes what is before for the type.
    """
    client_id = first_label(labels, origin.client_id_labels)
    whole = parse_properties(f"type={kind}, client-id={client_id}") if client_id else None
    properties = whole or parse_properties(f"type={kind}")
    if properties is None:
        return kind, dict(labels)
    split = {fold(name): value for name, value in properties.items() if name != "type"}
    return properties["type"], {**labels, **split}


def names_of(key: str, labels: Mapping[str, str], origin: Origin) -> Names | Unreadable:
    """Return the user, client-id and ip of a bucket of a quota key."""
    if key == CONNECTION_CREATION_RATE.name:
        ip = first_label(labels, origin.ip_labels)
        address = canonical_ip(unquote(ip)) if ip else None
        return Unreadable(f"{quote(ip)} is not an IP address") if ip and address is None else Names(ip=address)
    user, client_id = first_label(labels, origin.user_labels), first_label(labels, origin.client_id_labels)
    if user and _SEPARATOR in user:
        user, client_id = _split_user(user, client_id)
    # The type of a principal: Kafka encodes the colon of a user that begins like that.
    user = user.removeprefix(_USER_TYPE) if user else None
    return Names(
        (desanitize(unquote(user)) or None) if user else None,
        (unquote(client_id) or None) if client_id else None,
    )


def hidden_name(labels: Mapping[str, str], origin: Origin) -> Unreadable | None:
    """Return that a metric may have names in labels which are not known; `None` if it has no such label."""
    known = {fold(name) for name in (*_NO_NAMES, *origin.user_labels, *origin.client_id_labels)}
    for label, value in labels.items():
        name = fold(label)
        if value and name not in known and any(hint in name for hint in _HINTS):
            return Unreadable(
                f"it has no user and no client-id, but a label {quote(label)}; if that names one of them, give it with "
                "--user-label or --client-id-label of usage ingest, or call it user or client_id in the exporter"
            )
    return None


def other_name(user: str | None, client_id: str | None, labels: Mapping[str, str], origin: Origin) -> Unreadable | None:
    """Return that a bucket with one name may have the other one in a label which is not known; `None` if not.

    Such a label is that of another naming, or half a client-id with an equals sign, at which a rule split it. Where it
    was said which label holds the name, others are not asked.

    >>> other_name("alice", None, {"user": "alice", "client_name": "app"}, Origin()) is None
    False
    """
    if user is None and client_id is not None and origin.user_labels == USER_LABELS:
        return _other_name(_USER_HINTS, "user", labels, origin)
    if client_id is None and user is not None and origin.client_id_labels == CLIENT_ID_LABELS:
        return _other_name(_CLIENT_HINTS, "client-id", labels, origin)
    return None


def may_name_user(label: str) -> bool:
    """Whether a label or a column that is not known may name users.

    >>> may_name_user("sasl_principal"), may_name_user("listener")
    (True, False)
    """
    return _ends_in(fold(label), _USER_HINTS)


def may_name_client(label: str) -> bool:
    """Whether a label or a column that is not known may name client-ids.

    >>> may_name_client("clientName"), may_name_client("client_software_name")
    (True, False)
    """
    return _ends_in(fold(label), _CLIENT_HINTS)


def _ends_in(name: str, hints: tuple[str, ...]) -> bool:
    return name not in _FOLDED_NO_NAMES and (name.startswith(hints) or name.endswith(hints))


def _other_name(hints: tuple[str, ...], what: str, labels: Mapping[str, str], origin: Origin) -> Unreadable | None:
    known = {fold(name) for name in (*origin.user_labels, *origin.client_id_labels, *origin.ip_labels)}
    known |= {fold(name) for name in (*origin.cluster_labels, *origin.broker_labels, *origin.type_labels)}
    for label, value in labels.items():
        if value and fold(label) not in known and _ends_in(fold(label), hints):
            option = f"--{what}-label"
            return Unreadable(
                f"it has no {what}, but a label {quote(label)}; if that names one, give it with {option} of usage "
                f"ingest, otherwise say that {what.replace('-', '_')} does: {option} {what.replace('-', '_')}"
            )
    return None


def _split_user(user: str, client_id: str | None) -> tuple[str, str | None]:
    """Return user and client-id where the label of the user holds both, or the beginning of the client-id, too.

    A rule for users that stands before the one for users with client-ids takes both for the user; and any rule splits
    at the last separator, of which a client-id may hold more.
    """
    whole = user if client_id is None else f"{user}{_SEPARATOR}{client_id}"
    both = parse_properties(f"user={whole}")
    return (both["user"], both["client-id"]) if both and both.keys() == {"user", "client-id"} else (user, client_id)
