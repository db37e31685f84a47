"""The tables of docs/brokers.md, from the table of facts about brokers of different ages.

`make docs` writes them (`python -m tools.age_table docs/brokers.md`); a test says when they are out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from quotaform.cluster.age import FACTS, SERVICES, Age
from quotaform.sandbox.release import RELEASES

_BEGIN: Final = "<!-- {}: written by `make docs` -->\n\n"
_END: Final = "\n<!-- end of {} -->\n"
AGES: Final = tuple(Age((release.number[0], release.number[1]), release.has_zookeeper) for release in RELEASES)


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
    titles = ["a broker of today", *map(str, AGES), "other brokers", "what quotaform does"]
    yield f"| {' | '.join(titles)} |"
    yield f"|{' --- |' * len(titles)}"
    for fact in FACTS.values():
        marks = ["yes" if fact.holds(age) else "no" for age in AGES]
        what = fact.what if fact.is_measured else f"{fact.what}; the releases are those of Kafka's documentation"
        yield f"| {' | '.join([what, *marks, fact.before, fact.remedy])} |"


def _services() -> Iterator[str]:
    yield "| service | client quotas |"
    yield "| --- | --- |"
    for name, _, remedy in SERVICES:
        yield f"| {name} | {remedy} |"


if __name__ == "__main__":
    main()
