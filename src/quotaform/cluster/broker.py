"""What brokers do: differences by release, what they accept in one request, and what their error codes mean.

Why requests are split (measured on Kafka 4.3.1):

| limit | behaviour of a broker beyond it |
| --- | --- |
| 10,000 changed values in a request | POLICY_VIOLATION on every entity, nothing applied |
| 8 MiB of records in a request | the active controller resigns, and `validate_only` does not warn |
| 32,767 bytes in a name | hangs up |
| one entity twice in a request | applies the first and reports both as invalid |

Its release follows from the versions of requests that a broker offers (ApiVersions); one with ZooKeeper offers
UpdateMetadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import floor, isfinite
from re import search
from typing import Any, Final, TypeVar

from msgspec import Struct

from quotaform.cluster.records import ScramMechanism
from quotaform.cluster.wire.message import (
    FLOAT64,
    INT8,
    BrokerRequest,
    DescribeResponse,
    MalformedError,
    ResponseReader,
    Writer,
)
from quotaform.model.alteration import (
    CLUSTER_AUTHORIZATION_FAILED,
    ERRORS_BY_CODE,
    UNKNOWN_CODES,
    Alteration,
    AlterRow,
    Outcome,
)
from quotaform.model.entity import IP, MAX_NAME_BYTES, Entity, EntityPart, spell_name
from quotaform.model.errors import AuthorizationError, ClusterError, UnknownOutcomeError, UnsupportedError
from quotaform.model.filter import EntityFilter, FilterComponent, Rule
from quotaform.model.quota_key import LARGEST_LONG, QUOTA_KEYS
from quotaform.model.text import inert

_UPDATE_METADATA: Final = 6

_MARKS: Final = (
    ((4, 3), 35, 5), ((4, 2), 2, 11), ((4, 1), 0, 13), ((4, 0), 2, 10), ((3, 9), 1, 17), ((3, 8), 0, 11),
    ((3, 7), 1, 16), ((3, 6), 24, 4), ((3, 5), 1, 15), ((3, 4), 4, 7), ((3, 3), 35, 4), ((3, 2), 11, 9),
    ((3, 1), 1, 13), ((3, 0), 2, 7), ((2, 8), 0, 9), ((2, 7), 1, 12), ((2, 6), 48, 0), ((2, 5), 29, 2),
    ((2, 4), 0, 8), ((2, 3), 1, 11), ((2, 2), 2, 5), ((2, 1), 1, 10), ((2, 0), 1, 8), ((1, 1), 1, 7),
    ((1, 0), 3, 5), ((0, 11), 3, 4),
)  # fmt: skip
"""A release, and the API key with the version that came with it (`clients/src/main/resources/common/message`)."""


class BrokerRelease(Struct, frozen=True):
    """The release of a broker, as far as the requests tell it, and whether it keeps metadata in ZooKeeper."""

    number: tuple[int, int]  # such as (3, 9)
    has_zookeeper: bool = False

    @classmethod
    def of(cls, versions: Mapping[int, tuple[int, int]]) -> BrokerRelease:
        """Return the release of a broker that offers these versions by API key.

        Older than 0.11 is (0, 10); 3.4 with KRaft shows as 3.3, and what is newer than 4.3 as 4.3.
        """
        found = (number for number, key, version in _MARKS if key in versions and versions[key][1] >= version)
        return cls(next(found, (0, 10)), _UPDATE_METADATA in versions)

    def __str__(self) -> str:
        return f"{self.number[0]}.{self.number[1]}{' with ZooKeeper' if self.has_zookeeper else ''}"


NEEDS_CLIENT_QUOTAS: Final = "client quotas need Kafka 2.6 or later"
NEEDS_SCRAM: Final = "it needs Kafka 2.7 or later, and 3.5 with KRaft"
NEEDS_IPV6: Final = "quotas of IPv6 addresses need brokers with KRaft"
"""Remedies for brokers that are too old; `tools/broker_facts.py` has all that differs between releases."""

SERVICES: Final = (
    (
        "Confluent Cloud", r"\.confluent\.cloud$",
        "set them for service accounts and identity pools with its API kafka-quotas/v1 or `confluent kafka quota`",
    ),
    ("Aiven for Apache Kafka", r"\.aivencloud\.com$", "set them with `avn service quota create` or in its console"),
    (
        "Redpanda Cloud", r"\.cloud\.redpanda\.com$",
        "set them with `rpk cluster quotas alter` or its Data Plane API (/v1/quotas); Serverless has none",
    ),
    ("Amazon MSK Serverless", r"\.kafka-serverless\..*\.amazonaws\.com$", "it documents none, unlike provisioned MSK"),
    ("Azure Event Hubs", r"\.servicebus\.windows\.net$", "it has application groups instead"),
)  # fmt: skip
"""Services that keep client quotas themselves, by their documentation (none was tried): what they are called, the
pattern of their brokers' names, and where quotas are set."""


def service_hint(hosts: Iterable[str]) -> str:
    """Return a sentence on where a service keeps quotas, if a host is a broker of it; else an empty string."""
    names = [host.lower().rstrip(".") for host in hosts]
    found = (each for each in SERVICES if any(search(each[1], name) for name in names))
    return next((f"{name} manages client quotas itself: {remedy}." for name, _, remedy in found), "")


_MOST_WORDS: Final = 1_000
_OF_A_SERVICE: Final = frozenset({35, 42})


def grant_remedy(right: str) -> str:
    """Return the remedy for a missing permission."""
    return f"grant it {right} on the Cluster resource (kafka-cluster)."


def with_alter_remedy(error: AuthorizationError) -> AuthorizationError:
    """Return the error of a read with the permission to alter as its remedy, which includes that to read."""
    if error.remedy and not error.remedy.startswith("grant "):
        # A service manages quotas itself.
        return error
    remedy = f"{grant_remedy('ALTER_CONFIGS').rstrip('.')}, which includes DESCRIBE_CONFIGS"
    return AuthorizationError(error.problem, remedy=remedy, code=error.code)


def require_success(answer: DescribeResponse[Any], *, subject: str, right: str, hint: str = "") -> None:
    """Raise the error of an answer to a read that has one.

    Code 31 comes without any words of the broker. `hint` is what to do instead, if the cluster is of a service that
    refuses such requests.
    """
    code, message, _ = answer
    if code == 0:
        return
    if code == CLUSTER_AUTHORIZATION_FAILED:
        raise AuthorizationError(
            f"The principal is not authorised to read {subject}", remedy=hint or grant_remedy(right), code=code
        )
    kind = ERRORS_BY_CODE.get(code, ClusterError)
    if kind is UnknownOutcomeError:
        # A read has no outcome that could be unknown.
        kind = ClusterError
    text = f"Cannot read {subject}; the broker responded with error code {code}"
    text = f"{text}: {inert(shorten_message(message))}" if message else text
    raise kind(text, remedy=hint if hint and code in _OF_A_SERVICE else None, code=code)


def shorten_message(message: str) -> str:
    """Return a broker's message, shortened to a readable length."""
    return message if len(message) <= _MOST_WORDS else f"{message[:_MOST_WORDS]}…"


MAX_OPS: Final = 4_000
"""Ops per request: larger requests are not faster per op, and brokers reject more than 10,000."""
MAX_BYTES: Final = 1 << 20
"""Encoded bytes per request, an eighth of the size at which a controller resigns."""

ALTER_ACL: Final = f"The principal is not authorised to alter client quotas; {grant_remedy('ALTER_CONFIGS')}"

AlteredEntity = tuple[Iterable[EntityPart], int, str | None]
"""A row of a response: the entity's parts in any order, the error code and the broker's message."""

ItemT = TypeVar("ItemT")


def cut(
    items: Sequence[ItemT], measure: Callable[[ItemT], tuple[int, int]], max_ops: int, max_bytes: int
) -> list[Sequence[ItemT]]:
    """Return the items of each request by the ops and bytes that `measure` finds; one over both limits goes alone."""
    chunks: list[Sequence[ItemT]] = []
    start = ops = size = 0
    for index, item in enumerate(items):
        own_ops, own_size = measure(item)
        if index > start and (ops + own_ops > max_ops or size + own_size > max_bytes):
            chunks.append(items[start:index])
            start, ops, size = index, 0, 0
        ops += own_ops
        size += own_size
    return [*chunks, items[start:]] if items else []


def split_alterations(
    alterations: Sequence[Alteration], *, max_ops: int = MAX_OPS, max_bytes: int = MAX_BYTES
) -> list[Sequence[Alteration]]:
    """Return the alterations of each request, after checking that a broker can take every one.

    An alteration without ops counts as one. Raises `ValueError` for one entity twice, and for what a broker could not
    read or must not be sent.
    """
    seen: set[Entity] = set()
    for alteration in alterations:
        if alteration.entity in seen:
            raise ValueError(
                f"{alteration.entity.address} is altered twice in one call; merge its ops into one alteration"
            )
        seen.add(alteration.entity)
    return cut(alterations, _measure, max_ops, max_bytes)


def _measure(alteration: Alteration) -> tuple[int, int]:
    """Return how many ops an alteration has, and an upper bound of its bytes: those of a request of its own."""
    entity, ops = alteration.entity, alteration.ops
    if len(entity.parts) > 1 and len(dict(entity.parts)) < len(entity.parts):
        raise ValueError(f"{entity.address} names an entity type twice")
    texts = [*ops]
    for text in chain.from_iterable(entity.parts):
        if isinstance(text, str):
            texts.append(text)
        elif text is not None:  # `Entity.of` does not look.
            raise ValueError(f"{entity!r:.200}: the name {text!r:.100} is not a string")
    size = sum(map(len, texts)) + 16 * (len(texts) + 1)
    try:
        for key, value in ops.items():
            if value is not None:
                _check_value(key, value)
        if size > MAX_NAME_BYTES or not all(map(str.isascii, texts)):  # Whether all can be sent, encoding says.
            size = len(AlterClientQuotas([alteration]).encode(AlterClientQuotas.VERSIONS[-1]))
        return len(ops) or 1, size
    except ValueError as error:
        address = entity.address
        if len(address) > 120:
            address = f"{address[:100]}… ({len(address):,} characters)"
        raise ValueError(f"{address}: {error}") from None


def _check_value(key: str, value: float) -> None:
    try:
        finite = isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise ValueError(f"{spell_name(key)} is not a finite number; a quota must be one")
    if float(value) != value:
        raise ValueError(
            f"{spell_name(key)} is {value}, which a double cannot represent exactly; the nearest is {int(float(value))}"
        )


def match_rows(chunk: Sequence[Alteration], answer: Iterable[AlteredEntity], hint: str = "") -> tuple[AlterRow, ...]:
    """Return one row per alteration of a request, in its order.

    The rows of a response and the parts within a row are in any order. An outcome follows from the code alone,
    since the words differ between versions:

    | the answer says | outcome |
    | --- | --- |
    | 0 | ok |
    | -1 or 7 | unknown |
    | nothing about the entity, or something twice | unknown |
    | any other code | refused |
    """
    answers: dict[tuple[EntityPart, ...], list[tuple[int, str | None]]] = {}
    for parts, code, message in answer:
        answers.setdefault(Entity.of(parts).parts, []).append((code, message))
    rows: list[AlterRow] = []
    for each in chunk:
        found = answers.get(each.entity.parts, [])
        if len(found) == 1:
            rows.append(AlterRow(each.entity, *outcome_of(*found[0], denied=ALTER_ACL, hint=hint)))
            continue
        number, last = ("more than one", found[-1][0]) if found else ("no", None)
        words = f"The response of the broker has {number} row for this entity."
        rows.append(AlterRow(each.entity, Outcome.UNKNOWN, last, words))
    return tuple(rows)


def outcome_of(code: int, message: str | None, *, denied: str, hint: str = "") -> tuple[Outcome, int, str]:
    """Return what became of an alteration, the code, and the broker's words.

    Code 31 comes with a dump of the broker's request object, which `denied` replaces. `hint` is what to do instead, if
    the cluster is of a service that refuses such requests.
    """
    if code == 0:
        return Outcome.OK, code, ""
    if hint and ERRORS_BY_CODE.get(code) in {AuthorizationError, UnsupportedError}:
        return Outcome.REFUSED, code, hint
    words = denied if code == CLUSTER_AUTHORIZATION_FAILED else shorten_message(message or "")
    if code in UNKNOWN_CODES:
        return Outcome.UNKNOWN, code, words or f"The broker answered with error code {code}."
    return Outcome.REFUSED, code, words or f"The broker rejected it with error code {code}."


def rows_of(chunk: Iterable[Alteration], outcome: Outcome, reason: str) -> tuple[AlterRow, ...]:
    """Return the same row for each alteration, for requests without a response."""
    return tuple(AlterRow(alteration.entity, outcome, None, reason) for alteration in chunk)


_SCRAM_KEYS: Final = frozenset(ScramMechanism)
"""What Kafka 4 refuses as quota keys: in the configuration of a user they are credentials."""


def refusal_of(alteration: Alteration, release: BrokerRelease) -> str | None:
    """Return why an alteration must not be sent, in the words of Kafka 4; `None` if it may be, or brokers refuse it."""
    if release.has_zookeeper and ":" in (address := alteration.entity.names.get(IP) or ""):
        return f"{address} is an IPv6 address; {NEEDS_IPV6}."
    types = alteration.entity.types
    # How far above a whole number a value of a LONG or INT key may be (`ClientQuotaControlManager`, Kafka 4).
    tolerance = 0.0 if release.has_zookeeper else 1e-6
    for key, value in alteration.ops.items():
        if value is None:
            continue
        if key in _SCRAM_KEYS:
            return f"Invalid configuration key {key}"
        known = QUOTA_KEYS.get(key)
        if known is None or not known.entity_types.issuperset(types):
            continue
        if value <= 0:
            return f"Quota {key} must be greater than 0"
        if known.is_whole and value > known.maximum:
            kind = "a LONG" if known.maximum == LARGEST_LONG else "an INT"
            return f"Proposed value for {key} is too large for {kind}."
        if known.is_whole and value - floor(value) > tolerance:
            return f"{key} cannot be a fractional value."
    return None


_MATCH_TYPES: Final = {Rule.EXACT: 0, Rule.DEFAULT: 1, Rule.ANY: 2}

_MAX_ENTITIES: Final = 3_000_000
_MAX_PARTS: Final = 16
_MAX_KEYS: Final = 1_000
"""What an answer may hold: of an entity that takes hundreds of bytes here, a few bytes are enough on the wire."""

_MOST_LENGTHS: Final = 8
"""For how many lengths the bytes of values are kept while an answer is read."""
_LONGEST_KNOWN: Final = 512
"""The longest bytes that are kept: they are compared at each entity, and those of all keys of Kafka are shorter."""

RawQuotas = dict[Entity, dict[str, float]]
"""Every entity with every name and value as it came."""


@dataclass(frozen=True, slots=True)
class DescribeClientQuotas(BrokerRequest[DescribeResponse[RawQuotas]]):
    """Ask for the quotas of the entities that a filter selects, which must be one that brokers evaluate."""

    API_KEY = 48
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1
    MAX_RESPONSE = 256 << 20
    NEEDS = NEEDS_CLIENT_QUOTAS

    entity_filter: EntityFilter

    def _write(self, writer: Writer, version: int) -> None:
        def component(asked: FilterComponent) -> None:
            writer.string(asked.entity_type)
            writer.number(INT8, _MATCH_TYPES[asked.rule])
            writer.nullable_string(asked.match)

        writer.array(self.entity_filter.components, component)
        writer.boolean(self.entity_filter.is_strict)

    def _read(self, reader: ResponseReader, version: int) -> DescribeResponse[RawQuotas]:
        error_code, error_message = reader.int16(), reader.nullable_string()
        count = reader.count(_MAX_ENTITIES, "entities")
        quotas: RawQuotas = {}
        known: dict[int, dict[bytes, dict[str, float]]] = {}
        for _ in range(count):
            entity = Entity.of(_read_parts(reader))
            quotas[entity] = _read_values(reader, known)
        if len(quotas) != count:
            raise MalformedError("it names an entity twice")
        return DescribeResponse(error_code, error_message, quotas)


def _read_values(reader: ResponseReader, known: dict[int, dict[bytes, dict[str, float]]]) -> dict[str, float]:
    """Return the values of an entity. `known`: by length, the bytes that were read of others: many have the same."""
    start = reader.position
    for size, read in known.items():
        if (values := read.get(reader.data[start : start + size])) is not None:
            reader.position += size
            return values.copy()
    number = reader.count(_MAX_KEYS, "quota keys")
    values = {}
    for _ in range(number):
        key = reader.string()
        values[key] = reader.float64()
        reader.tags()
    reader.tags()
    if len(values) != number:
        raise MalformedError("it names a quota key of an entity twice")
    size = reader.position - start
    if size <= _LONGEST_KNOWN and (size in known or len(known) < _MOST_LENGTHS):
        read = known.setdefault(size, {})
        if len(read) < _MAX_KEYS:
            read[reader.data[start : reader.position]] = values
    return values


def _read_parts(reader: ResponseReader) -> list[EntityPart]:
    parts: list[EntityPart] = []
    for _ in range(reader.count(_MAX_PARTS, "entity types")):
        parts.append((reader.string(), reader.nullable_string()))
        reader.tags()
    if len(parts) > 1 and len(dict(parts)) < len(parts):
        raise MalformedError("it names an entity type of an entity twice")
    return parts


@dataclass(frozen=True, slots=True)
class AlterClientQuotas(BrokerRequest[Sequence[AlteredEntity]]):
    """Alter quotas, which must be what `split_alterations` lets pass; its answer has a row for each, in any order."""

    API_KEY = 49
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1
    MAX_RESPONSE = 16 << 20
    NEEDS = NEEDS_CLIENT_QUOTAS

    alterations: Sequence[Alteration]
    validate_only: bool = False

    def _write(self, writer: Writer, version: int) -> None:
        def part(item: EntityPart) -> None:
            writer.string(item[0])
            writer.nullable_string(item[1])

        def op(item: tuple[str, float | None]) -> None:
            key, value = item
            writer.string(key)
            # The broker ignores the value of a removal; Kafka's own client sends 0.
            writer.number(FLOAT64, 0.0 if value is None else value)
            writer.boolean(value is None)

        def entry(alteration: Alteration) -> None:
            writer.array(alteration.entity.parts, part)
            writer.array(alteration.ops.items(), op)

        writer.array(self.alterations, entry)
        writer.boolean(self.validate_only)

    def _read(self, reader: ResponseReader, version: int) -> Sequence[AlteredEntity]:
        def row() -> AlteredEntity:
            error_code, error_message = reader.int16(), reader.nullable_string()
            return _read_parts(reader), error_code, error_message

        rows = reader.array(row)
        if len(rows) > len(self.alterations):
            raise MalformedError(f"it has {len(rows):,} rows for {len(self.alterations):,} entities")
        return rows


@dataclass(frozen=True, slots=True)
class DescribeBrokerConfig(BrokerRequest[DescribeResponse[str | None]]):
    """Ask a broker for one of its configuration values, which only that broker answers; get `None` for none."""

    API_KEY = 32
    VERSIONS = range(1, 5)
    FLEXIBLE_FROM = 4

    node_id: int
    name: str

    def _write(self, writer: Writer, version: int) -> None:
        def resource(node_id: int) -> None:
            writer.number(INT8, 4)  # ConfigResource.Type.BROKER
            writer.string(str(node_id))
            writer.array([self.name], writer.string, is_tagged=False)

        writer.array([self.node_id], resource)
        writer.boolean(False)  # no synonyms
        if version >= 3:
            writer.boolean(False)  # no documentation

    def _read(self, reader: ResponseReader, version: int) -> DescribeResponse[str | None]:
        def config() -> tuple[str, str | None]:
            found = reader.string(), reader.nullable_string()
            for _ in ("read-only", "source", "sensitive"):
                reader.int8()
            reader.array(lambda: (reader.string(), reader.nullable_string(), reader.int8()))  # synonyms
            if version >= 3:
                reader.int8()  # its type
                reader.nullable_string()  # its documentation
            return found

        def result() -> DescribeResponse[str | None]:
            code, message = reader.int16(), reader.nullable_string()
            reader.int8()
            reader.string()
            return DescribeResponse(code, message, dict(reader.array(config)).get(self.name) or None)

        results = reader.array(result)
        if len(results) != 1:
            raise MalformedError("it has not one result for one resource")
        return results[0]
