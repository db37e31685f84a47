"""What brokers do differently by their release and by where they keep metadata, as tables of docs/brokers.md.

`make docs` writes them (`python -m tools.broker_facts docs/brokers.md`); a test says when they are out of date.
`tests/kafka/test_broker_facts.py` measures each fact on the releases that the sandbox runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quotaform.cluster.broker import NEEDS_CLIENT_QUOTAS, NEEDS_IPV6, NEEDS_SCRAM, SERVICES, BrokerRelease
from quotaform.sandbox.release import RELEASES


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that not all brokers do."""

    what: str
    since: tuple[int, int]  # the first release with KRaft that was seen to do it; (3, 3) is the oldest that was tried
    zookeeper: tuple[int, int] | None  # the same with ZooKeeper; `None` for none
    before: str
    remedy: str
    is_measured: bool = True  # whether it was measured; otherwise it is as Kafka's documentation says

    def holds(self, release: BrokerRelease) -> bool:
        """Whether a broker of a release does it."""
        since = self.zookeeper if release.has_zookeeper else self.since
        return since is not None and release.number >= since


_ANY: Final = (3, 3)

FACTS: Final = {
    "client-quotas": Fact(
        "describes and alters client quotas (KIP-546)", _ANY, (2, 6),
        "does not know the requests", NEEDS_CLIENT_QUOTAS, is_measured=False,
    ),
    "ip": Fact(
        "takes quotas of ip entities (KIP-612)", _ANY, (2, 8),
        "refuses the entity type, code 35", "quotas of ip entities need Kafka 2.8 or later",
    ),
    "ipv6": Fact(
        "takes quotas of IPv6 addresses", _ANY, None,
        "refuses them as no valid IP, code 42", NEEDS_IPV6,
    ),
    "scram": Fact(
        "describes and alters SCRAM credentials (KIP-554)", (3, 9), (2, 8),
        "does not know the requests", NEEDS_SCRAM,
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

_BEGIN: Final = "<!-- {}: written by `make docs` -->\n\n"
_END: Final = "\n<!-- end of {} -->\n"
TRIED: Final = tuple(
    BrokerRelease((release.number[0], release.number[1]), release.has_zookeeper) for release in RELEASES
)


def main() -> None:
    """Rewrite the tables in the page whose path is given."""
    page = Path(sys.argv[1])
    page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


def with_tables(page: str) -> str:
    """Return a page with the tables as they should be."""
    for name, lines in (("facts", _facts()), ("services", _services())):
        begin, end = _BEGIN.format(name), _END.format(name)
        before, _, rest = page.partition(begin)
        page = "".join([before, begin, *(f"{line}\n" for line in lines), end, rest.partition(end)[2]])
    return page


def _facts() -> Iterator[str]:
    titles = ["a broker of today", *map(str, TRIED), "other brokers", "what quotaform does"]
    yield f"| {' | '.join(titles)} |"
    yield f"|{' --- |' * len(titles)}"
    for fact in FACTS.values():
        marks = ["yes" if fact.holds(release) else "no" for release in TRIED]
        what = fact.what if fact.is_measured else f"{fact.what}; the releases are those of Kafka's documentation"
        yield f"| {' | '.join([what, *marks, fact.before, fact.remedy])} |"


def _services() -> Iterator[str]:
    yield "| service | client quotas |"
    yield "| --- | --- |"
    for name, _, remedy in SERVICES:
        yield f"| {name} | {remedy} |"


if __name__ == "__main__":
    main()
