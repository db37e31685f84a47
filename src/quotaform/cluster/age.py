"""What brokers do differently by their release and by where they keep metadata: one table for code, docs and tests.

The release follows from the versions of requests that a broker offers (ApiVersions); a broker with ZooKeeper is the one
that offers UpdateMetadata. `tests/kafka/test_age.py` measures each fact on the releases that the sandbox runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from re import search
from typing import Final

Number = tuple[int, int]
"""A release, such as (3, 9)."""

_UPDATE_METADATA: Final = 6

_MARKS: Final = (
    ((4, 3), 35, 5), ((4, 2), 2, 11), ((4, 1), 0, 13), ((4, 0), 2, 10), ((3, 9), 1, 17), ((3, 8), 0, 11),
    ((3, 7), 1, 16), ((3, 6), 24, 4), ((3, 5), 1, 15), ((3, 4), 4, 7), ((3, 3), 35, 4), ((3, 2), 11, 9),
    ((3, 1), 1, 13), ((3, 0), 2, 7), ((2, 8), 0, 9), ((2, 7), 1, 12), ((2, 6), 48, 0), ((2, 5), 29, 2),
    ((2, 4), 0, 8), ((2, 3), 1, 11), ((2, 2), 2, 5), ((2, 1), 1, 10), ((2, 0), 1, 8), ((1, 1), 1, 7),
    ((1, 0), 3, 5), ((0, 11), 3, 4),
)  # fmt: skip
"""A release, and the API key with the version that came with it (`clients/src/main/resources/common/message`)."""


@dataclass(frozen=True, slots=True)
class Age:
    """The release of a broker, as far as the requests tell it, and whether it keeps metadata in ZooKeeper."""

    number: Number
    has_zookeeper: bool = False

    @classmethod
    def of(cls, versions: Mapping[int, tuple[int, int]]) -> Age:
        """Return the age of a broker that offers these versions by API key.

        Older than 0.11 is (0, 10); 3.4 with KRaft shows as 3.3, and what is newer than 4.3 as 4.3.

        >>> print(Age.of({29: (0, 2), 6: (0, 5)}))
        2.5 with ZooKeeper
        """
        found = (number for number, key, version in _MARKS if key in versions and versions[key][1] >= version)
        return cls(next(found, (0, 10)), _UPDATE_METADATA in versions)

    def __str__(self) -> str:
        return f"{self.number[0]}.{self.number[1]}{' with ZooKeeper' if self.has_zookeeper else ''}"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that not all brokers do.

    Attributes:
        what: What the newest brokers do.
        since: The first release with KRaft that was seen to do it; (3, 3) is the oldest that was tried.
        zookeeper: The same with ZooKeeper; `None` for none.
        before: What other brokers do.
        remedy: What quotaform does about it, or what to do.
        is_measured: Whether it was measured; otherwise it is as Kafka's documentation says.
    """

    what: str
    since: Number
    zookeeper: Number | None
    before: str
    remedy: str
    is_measured: bool = True

    def holds(self, age: Age) -> bool:
        """Whether a broker of an age does it."""
        since = self.zookeeper if age.has_zookeeper else self.since
        return since is not None and age.number >= since


_ANY: Final = (3, 3)

FACTS: Final = {
    "client-quotas": Fact(
        "describes and alters client quotas (KIP-546)", _ANY, (2, 6),
        "does not know the requests", "client quotas need Kafka 2.6 or later", is_measured=False,
    ),
    "ip": Fact(
        "takes quotas of ip entities (KIP-612)", _ANY, (2, 8),
        "refuses the entity type, code 35", "quotas of ip entities need Kafka 2.8 or later",
    ),
    "ipv6": Fact(
        "takes quotas of IPv6 addresses", _ANY, None,
        "refuses them as no valid IP, code 42", "quotas of IPv6 addresses need brokers with KRaft",
    ),
    "scram": Fact(
        "describes and alters SCRAM credentials (KIP-554)", (3, 9), (2, 8),
        "does not know the requests", "it needs Kafka 2.7 or later, and 3.5 with KRaft",
    ),
    "values": Fact(
        "refuses values of 0 or less, and a connection rate over 2147483647", (3, 9), None,
        "accepts 0, and negative numbers for request_percentage and controller_mutation_rate; KRaft also accepts "
        "connection rates over 2147483647",
        "quotaform refuses them itself, in the words of the newest release",
    ),
    "verbatim": Fact(
        "keeps a whole-number key as it was sent, up to 0.000001 above a whole number", _ANY, None,
        "rounds it down, 0.0000001 and NaN to 0", "quotaform sends brokers with ZooKeeper whole numbers only",
    ),
    "foreign-key": Fact(
        "refuses SCRAM-SHA-256 and SCRAM-SHA-512 as quota keys, code 42", (3, 9), None,
        "answers code -1", "quotaform refuses them itself",
    ),
    "duplicate": Fact(
        "applies the first of two alterations of one entity in a request, and reports it as refused", _ANY, None,
        "applies both", "quotaform never sends an entity twice",
    ),
    "limit": Fact(
        "refuses a request that changes more than 10,000 values, code 44, in a dry run, too", (3, 9), None,
        "with KRaft the dry run succeeds, and then the controller resigns and the answer is code -1; with ZooKeeper "
        "there is no limit",
        "quotaform sends up to 4,000 values in a request",
    ),
    "memory": Fact(
        "answers from memory: 100,000 entities in 2 seconds", _ANY, None,
        "reads each entity from ZooKeeper: 6,000 entities in 8 seconds, and writes 400 a second",
        "quotaform waits longer for an answer",
    ),
    "names": Fact(
        "holds any number of names", _ANY, None,
        "stops answering when the names of all users, or of all clients, exceed 4 MB: ZooKeeper's jute.maxbuffer",
        "raise jute.maxbuffer on brokers and ZooKeeper before 100,000 names of 40 bytes",
    ),
    "empty-match": Fact(
        "answers a filter for an empty name", _ANY, None,
        "answers code -1", "quotaform does not ask: nobody has an empty name there",
    ),
    "mutation-dry-run": Fact(
        "counts a dry run of topic creation towards controller_mutation_rate", (3, 9), None,
        "does not count it", "after an upgrade dry runs in pipelines use up this quota",
    ),
}  # fmt: skip
"""What differs, by name."""


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
    """Return a sentence on where a service keeps quotas, if a host is a broker of it; else an empty string.

    >>> service_hint(["kafka-1.aivencloud.com"])
    'Aiven for Apache Kafka manages client quotas itself: set them with `avn service quota create` or in its console.'
    """
    names = [host.lower().rstrip(".") for host in hosts]
    found = (each for each in SERVICES if any(search(each[1], name) for name in names))
    return next((f"{name} manages client quotas itself: {remedy}." for name, _, remedy in found), "")
