"""Looks through principals before anything is made of them: how many there are, and which cannot be resolved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.core.check import rule
from quotaform.errors import InvalidFilesError
from quotaform.model.entity import CLIENT_ID, IP, KNOWN_TYPES, USER
from quotaform.model.location import Location
from quotaform.model.text import quote
from quotaform.spark.schemas import CLUSTER, PRINCIPALS
from quotaform.spark.table.principals import BROKEN, is_nameless, principals_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, Row

_SHOWN: Final = 3
"""How many rows of each kind of problem are shown."""

_USER, _CLIENT, _IP = (KNOWN_TYPES[kind].parameter for kind in (USER, CLIENT_ID, IP))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalCounts:
    """How many principals there are.

    Attributes:
        clients: Users, client-ids and pairs of them, repeated ones included.
        ips: Addresses.
        nameless: Rows that name nobody, which are to be left out.
    """

    clients: int
    ips: int
    nameless: int = 0

    @property
    def total(self) -> int:
        """All clients and addresses."""
        return self.clients + self.ips


def count_principals(principals: DataFrame, name: str, cluster: str | None = None) -> PrincipalCounts:
    """Count principals, and make sure that each can be resolved: one Spark job.

    Args:
        principals: As `principals.read_principals` returns them.
        cluster: If they have a column `cluster`, the one of which those are meant.

    Raises:
        InvalidFilesError: There are none, or rows from which no request can come: with an ip beside a user or
            client-id, with an empty user or ip, or not readable. It counts them and shows the first.
    """
    problems = dict(_problems(principals.columns))
    rows = principals if cluster is None else principals_of(principals, cluster)
    is_ip = f.col(_IP).isNotNull() if _IP in principals.columns else f.lit(False)
    [found] = rows.agg(
        f.count("*").alias("total"),
        f.count_if(_is_read(principals.columns) & is_nameless(principals.columns)).alias("nameless"),
        f.count_if(is_ip).alias("ips"),
        *(f.count_if(condition).alias(f"problem_{place}") for place, condition in enumerate(problems.values())),
    ).collect()
    findings = []
    for place, (text, condition) in enumerate(problems.items()):
        count = found[f"problem_{place}"]
        if count:
            shown = "; ".join(map(_shown, rows.where(condition).limit(_SHOWN).collect()))
            number = "1 row" if count == 1 else f"{count:,} rows"
            first = "" if count == 1 else "the first are " if count > _SHOWN else "they are "
            findings.append(f"{number} {text}: {first}{shown}")
    total = found.total - found.nameless
    if not total:
        of = f" of cluster {quote(cluster)}" if cluster is not None and CLUSTER in principals.columns else ""
        findings.append(f"there are no principals{of} in it")
    if findings:
        raise InvalidFilesError([rule.REQUESTS.finding(text, location=Location(name)) for text in findings])
    return PrincipalCounts(clients=total - found.ips, ips=found.ips, nameless=found.nameless)


def _problems(columns: list[str]) -> Iterator[tuple[str, Column]]:
    """Yield what can be wrong with a row, as the end of a sentence about rows, and the condition."""
    names = [each for each in PRINCIPALS.names if each in columns]
    if BROKEN in columns:
        yield "cannot be read or have another number of fields than the first line", ~_is_read(columns)
    clients = [each for each in (_USER, _CLIENT) if each in names]
    if _IP in names and clients:
        is_client = reduce(lambda one, other: one | other, [f.col(each).isNotNull() for each in clients])
        yield "with an ip and a user or client-id, which cannot be combined", f.col(_IP).isNotNull() & is_client
    for each in (_USER, _IP):
        if each in names:
            yield f"with an empty {each}; only a client-id can be empty", f.col(each) == ""


def _is_read(columns: list[str]) -> Column:
    return f.col(BROKEN).isNull() if BROKEN in columns else f.lit(True)


def _shown(row: Row) -> str:
    names = row.asDict()
    broken = names.get(BROKEN)
    if broken is not None:
        return quote(broken)
    cells = {each: names[each] for each in PRINCIPALS.names if each in names}
    return ", ".join(f"{each} {'null' if cell is None else quote(cell)}" for each, cell in cells.items())
