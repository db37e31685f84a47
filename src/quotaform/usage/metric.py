"""From the name and the labels of a metric to the series that it measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from re import DOTALL
from re import compile as regex
from typing import Final, NamedTuple, TypeAlias

from quotaform.model.entity import IP, canonical_ip, desanitize
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import option_of, quote
from quotaform.usage.metric_name import LABELS, MetricName, Origin, first_label, fold, key_of_type, read_metric_name
from quotaform.usage.sample import Attribute, DropReason, Series, broker_window_s

# Object names of MBeans, as JMX writes them: `domain:key=value,key="quoted value"`.
#
# A value is plain or quoted. Kafka quotes the tags that hold anything but letters, digits, `_`, `-`, `%`, `.`, blank
# and tab; in quotes, `"`, `*`, `?` and `\` stand behind a backslash, and `\n` is a line end.
#
# Source: javax.management.ObjectName.quote, org.apache.kafka.common.utils.Sanitizer.jmxSanitize.

PROPERTY: Final = r'[^,=:"*?\n]+=(?:"(?:[^"\\\n]|\\["*?\\n])*"|[^,=:"\n]*)'
"""A property of an object name, as a regular expression; the value may be a pattern."""

_PROPERTIES = regex(rf"{PROPERTY}(?:,{PROPERTY})*").fullmatch
_EACH = regex(rf"({PROPERTY})(?:,|$)").findall
_QUOTED = regex(r'"(?:[^"\\\n]|\\["*?\\n])*"').fullmatch
_ESCAPE: Final = regex(r"\\(.)")


def parse_object_name(text: str) -> tuple[str, dict[str, str]] | None:
    """Return domain and properties of an object name, as they are written; `None` if the text is none."""
    domain, _, rest = text.partition(":")
    properties = parse_properties(rest)
    return None if properties is None else (domain.strip(), properties)


def parse_properties(text: str) -> dict[str, str] | None:
    """Return the properties of an object name, as they are written; `None` if the text is no list of properties."""
    if not _PROPERTIES(text):
        return None
    pairs = (each.partition("=") for each in _EACH(text))
    return {key.strip(): value for key, _, value in pairs}


def unquote(value: str) -> str:
    r"""Return a value without the quotes of JMX; as it is if it has none.

    >>> print(unquote('"a\\"b"'), unquote('"a"b"'), unquote("a"))
    a"b "a"b" a
    """
    if not value.startswith('"') or not _QUOTED(value):
        return value
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], value[1:-1])


# What the labels of a metric of client quotas say: of which quota it is, and the names of its bucket.
#
# Names are spelled in two ways, both undone here: Kafka percent-encodes the user of a bucket, and JMX quotes values
# with odd characters. A client-id is never percent-encoded.
#
# Source: org.apache.kafka.server.quota.ClientQuotaManager, org.apache.kafka.common.metrics.JmxReporter.

_KIP_714: Final = "software_name software_version instance_id source_address source_port address rack host ip port"
_NO_NAMES: Final = frozenset(map(fold, ("user_agent", *(f"client_{name}" for name in _KIP_714.split()))))
"""Labels that name no client, folded; most of them are of KIP-714."""
_NAME_HINTS: Final = {"user": ("user", "principal"), "client_id": ("client",)}
"""How names of labels begin or end which may name users, or client-ids."""

_SEPARATOR: Final = ", client-id="
"""What stands before the client-id where an exporter's rules see the name of an MBean."""


def _split_type(kind: str, labels: dict[str, str], origin: Origin) -> tuple[str, dict[str, str]]:
    """Return type and labels where the label of the type holds names, too: `Produce, user=alice`.

    A rule for client-ids that stands before the one for users with client-ids takes what is before for the type.
    """
    client_id = origin.value_of("client_id", labels)
    whole = parse_properties(f"type={kind}, client-id={client_id}") if client_id else None
    properties = whole or parse_properties(f"type={kind}")
    if properties is None:
        return kind, labels
    split = {fold(name): value for name, value in properties.items() if name != "type"}
    return properties["type"], labels | split


Names: TypeAlias = tuple[str | None, str | None, str | None]
"""User, client-id and ip of a bucket, decoded; `None` is one that it does not have."""


def names_of(key: str, user: str | None, client_id: str | None, ip: str | None) -> Names | str:
    """Return the names of a bucket of a quota key, which has either an ip or the others; or what is wrong."""
    if IP not in QUOTA_KEYS[key].entity_types:
        return user or None, client_id or None, None
    address = canonical_ip(ip) if ip else None
    return f"{quote(ip)} is not an IP address" if ip and address is None else (None, None, address)


def _labelled_names(key: str, labels: Mapping[str, str], origin: Origin) -> Names | str:
    user, client_id, ip = (origin.value_of(kind, labels) for kind in ("user", "client_id", "ip"))
    if user and _SEPARATOR in user:
        # A rule for users that stands before the one for users with client-ids takes both for the user; and any rule
        # splits at the last separator, of which a client-id may hold more.
        whole = user if client_id is None else f"{user}{_SEPARATOR}{client_id}"
        both = parse_properties(f"user={whole}")
        if both and both.keys() == {"user", "client-id"}:
            user, client_id = both["user"], both["client-id"]
    # The type of a principal: Kafka encodes the colon of a user that begins like that.
    user = desanitize(unquote(user.removeprefix("User:"))) if user else None
    return names_of(key, user, client_id and unquote(client_id), ip and unquote(ip))


def _hidden_name(user: str | None, client_id: str | None, labels: Mapping[str, str], origin: Origin) -> str | None:
    """Return that a bucket may have a name in a label which is not known; `None` if not.

    Such a label is that of another naming, or half a client-id with an equals sign, at which a rule split it. It is not
    asked for where it was said which label holds the name.
    """
    given = {"user": user, "client_id": client_id}
    missing = [kind for kind, name in given.items() if name is None and origin.labels[kind] == LABELS[kind]]
    known = {name for names in origin.labels.values() for name in names} | _NO_NAMES
    for label, value in labels.items():
        if value and fold(label) not in known and any(may_name(kind, label) for kind in missing):
            names = [kind.replace("_", "-") for kind in missing]
            options = " or ".join(option_of(f"{kind}_label") for kind in missing)
            return (
                f"it has no {' and no '.join(names)}, but a label {quote(label)}; if that names one, give it with "
                f"{options} of usage ingest, otherwise give the label that does"
            )
    return None


def may_name(kind: str, label: str) -> bool:
    """Whether a label or a column that is not known may name users, or client-ids, such as `sasl_principal`."""
    name, hints = fold(label), _NAME_HINTS[kind]
    return name not in _NO_NAMES and (name.startswith(hints) or name.endswith(hints))


LONGEST_NAME: Final = 32767
"""The limit on characters of a name: that of a string in Kafka's protocol."""

_PART_LABELS: Final = ("topic", "partition")
_ATTRIBUTE_LABELS: Final = ("attributename", "attribute", "attr")
_OBJECT_NAME_LABELS: Final = ("mbean", "objectname", "bean")
_STATISTIC_LABELS: Final = ("quantile", "le")
OTHER_LABELS: Final = (*_PART_LABELS, *_ATTRIBUTE_LABELS, *_OBJECT_NAME_LABELS, *_STATISTIC_LABELS)
"""What is read of a metric in addition to `LABELS`, folded."""
_URL = regex(r"[a-z]+://(?:[^/?#@]*@)?([^/?#@]+)(?:[/?#].*)?").fullmatch
_OBJECT_NAME = regex(r"([^<]+)<(.+)><>([^<>]+)", DOTALL).fullmatch

_SWALLOWED: Final = (
    "the names of the bucket are in the metric's name, in which they can't be told apart; "
    "put rules that keep labels before the catch-all rule of the exporter"
)
_OF_CLIENT_OR_BROKER: Final = (
    "a producer or consumer may have measured it, for one topic, or a broker for all; if it is a broker's, let the "
    "rules of the exporter begin its name with kafka_server"
)
_OTHER_UNIT: Final = (
    "its name ends in a unit into which the metric of a broker cannot be converted; record it without that unit"
)
_NO_TYPE: Final = (
    "neither the name nor a label says of which quota it is; let the rules of the exporter keep the type of the "
    f"MBean in a label quota_type, or name the label with {option_of('type_label')}"
)


class Measure(NamedTuple):
    """What the values of a metric are."""

    series: Series
    factor: float  # By what a value is multiplied to be in the unit of the series
    window_s: float  # How many seconds up to its time a value covers; 0 for a total


Read: TypeAlias = Measure | DropReason | str
"""What a metric measures, why it is not for the table of usage, or why it can't be read, and the remedy."""


def read_metric(name: str, labels: Mapping[str, str], origin: Origin) -> Read:
    """Return what a metric measures, or why it is not for the table of usage, or why it can't be read.

    >>> labels = {"resource": "Produce, user=CN%3Da", "clientId": "app", "instance": "b1:7071"}
    >>> read_metric("kafka_server_quota_byte_rate", labels, Origin("prod")).series[:5]
    ('prod', 'b1:7071', 'producer_byte_rate', 'CN=a', 'app')

    `name`: as Prometheus or OpenTelemetry has it. `origin`: what counts for a metric that has no such label.
    """
    return _read_metric(origin, name, *labels, *labels.values())


def remembered(read: Callable[..., Read]) -> Callable[..., Read]:
    """Let a function of an origin and texts know what it returned: the same metrics come with every poll.

    Long texts are not kept, so that hostile ones do not fill the memory.
    """
    known = lru_cache(maxsize=65536)(read)
    return lambda origin, *texts: (known if sum(map(len, texts)) <= 4096 else read)(origin, *texts)


@remembered
def _read_metric(origin: Origin, name: str, *labels: str) -> Read:
    said, half = read_metric_name(name), len(labels) // 2
    if said is None:
        return DropReason.OTHER_METRIC
    read = _read(said, dict(zip(labels[:half], labels[half:], strict=True)), origin)
    return said.problem if said.problem and isinstance(read, Measure) else read


def _read(said: MetricName, labels: Mapping[str, str], origin: Origin) -> Read:
    folded = {fold(label): value for label, value in labels.items()}
    if said.has_names:
        # The exporter adds the name of the MBean to metrics that would otherwise be the same.
        found = _OBJECT_NAME(labels.get("_objectname", ""))
        return read_object_name(f"{found[1]}:{found[2]}", found[3], origin, labels) if found else _SWALLOWED
    if whole := parse_object_name(first_label(folded, _OBJECT_NAME_LABELS) or ""):
        folded |= {fold(name): value for name, value in whole[1].items()}
    doubt = _OF_CLIENT_OR_BROKER if said.may_be_of_client else None
    if said.base:
        attribute = first_label(folded, _ATTRIBUTE_LABELS)
        completed = read_metric_name(f"{said.base}_{attribute}") if attribute else None
        if completed is None or completed.base or completed.has_names or completed.problem:
            return DropReason.OTHER_METRIC
        said = completed
    if first_label(folded, _PART_LABELS):
        return DropReason.OTHER_METRIC
    if said.attribute is None or first_label(folded, _STATISTIC_LABELS):
        return DropReason.OTHER_ATTRIBUTE
    # Other things have types, too.
    types = [] if said.is_of_client else [value for name in origin.labels["type"] if (value := folded.get(name))]
    kind = next((each for each in types if key_of_type(each.partition(",")[0])), types[0] if types else None)
    if kind and "=" in kind:
        kind, folded = _split_type(kind, folded, origin)
    key_of_label = key_of_type(kind) if kind else None
    key = said.keys[0] if len(said.keys) == 1 else key_of_label
    if key not in said.keys and kind:
        return DropReason.OTHER_METRIC
    read = _measure(said, said.attribute, key, folded, origin)
    user = client_id = None
    if isinstance(read, Measure):
        _, _, _, user, client_id, ip, *_ = read.series
        if ip or said.is_of_client:
            return read
        if doubt and user is None and key_of_label is None:
            return doubt
    elif read is not DropReason.BROKER_TOTAL:
        return read
    return _hidden_name(user, client_id, labels, origin) or read


def _measure(
    said: MetricName, attribute: Attribute, key: str | None, labels: Mapping[str, str], origin: Origin
) -> Read:
    if key is None:
        has_names = first_label(labels, (*origin.labels["user"], *origin.labels["client_id"]))
        return _NO_TYPE if has_names else DropReason.BROKER_TOTAL
    names = _labelled_names(key, labels, origin)
    if isinstance(names, str):
        return names
    broker = instance = None
    if said.is_of_client:
        instance = origin.value_of("instance", labels)
    else:
        name = origin.value_of("broker", labels)
        url = _URL(name) if name else None
        broker = url[1] if url else name or origin.broker
    series = check_series(
        Series(origin.value_of("cluster", labels) or origin.cluster, broker, key, *names, instance, attribute)
    )
    if not isinstance(series, Series):
        return series
    if said.factor is None:
        return _OTHER_UNIT
    # That of a client at most, with the defaults of `metrics.num.samples` and `metrics.sample.window.ms`.
    window = 60.0 if said.is_of_client else broker_window_s(key)
    return Measure(series, said.factor, 0.0 if attribute is Attribute.TOTAL else window)


def check_series(series: Series) -> Series | DropReason | str:
    """Return a series that the table of usage can hold as it is, or why it cannot be one."""
    if series.user is None and series.client_id is None and series.ip is None:
        return DropReason.BROKER_TOTAL
    names = [name for name in series if name is not None]
    if max(map(len, names)) > LONGEST_NAME:
        return f"a name is longer than {LONGEST_NAME:,} characters, which no name in Kafka is"
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return "a name is not UTF-8"
    return series


def read_object_name(object_name: str, attribute: str, origin: Origin, labels: Mapping[str, str] | None = None) -> Read:
    """Return what an attribute of an MBean measures, as `read_metric` does.

    `labels`: labels in addition to the name, which may say where it is from. `origin`: what counts without such labels.
    """
    parsed = parse_object_name(object_name)
    if parsed is None:
        return f"{quote(object_name)} is not the name of an MBean"
    domain, properties = parsed
    kind = properties.pop("type", "")
    return read_metric(f"{domain}_{kind}_{attribute}", {**(labels or {}), **properties}, origin)
