"""Who really connects, for the blast radius of a plan: a list in a file, or the users with SCRAM credentials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from re import compile as regex
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from quotaform.model.entity import Entity
from quotaform.model.errors import ArgumentError
from quotaform.model.text import inert, option_of
from quotaform.plan.blast_radius import Principals
from quotaform.system.files import REQUESTS_LIMIT

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

SCRAM: Final = "scram"
"""Stands for the users that have SCRAM credentials on the cluster; a file of this name is `./scram`."""

MOST_PRINCIPALS: Final = 1_000_000
"""How many principals are resolved in one process; each takes about 400 bytes of memory."""

_STDIN: Final = "-"
_TABLE_NAME: Final = regex(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}").fullmatch


class PrincipalList(Struct, frozen=True, kw_only=True):
    """Whose effective limits a plan is checked for: those of a list, of a table, or the SCRAM users of each cluster."""

    known: Principals | None = None  # The principals of a list
    table: str | None = None  # A table of principals, which is read on Spark: as `quotaform.fleet.principals` takes it
    # Cluster to the file in which all changes of limits are wanted, as it was given.
    files: Mapping[str, str] = field(default_factory=dict)
    # The folder in which all changes of limits are wanted as Parquet, for a table of principals.
    folder: str | None = None
    nameless: int = 0  # How many rows of a list have no name; they are left out

    def of_cluster(self, cluster: Cluster) -> Principals | None:
        """Return who connects to a cluster; `None` for a table, of which no process has all rows.

        Raises `UsageError`, `BlockedError` or `ClusterError`.
        """
        if self.known is not None or self.table is not None:
            return self.known
        from quotaform.repository.run import open_scram  # Most lists are of a file.

        with open_scram(cluster) as gateway:
            users = [found.user for found in gateway.describe() if found.credentials]
        return Principals.of(SCRAM, [Entity(user=user) for user in users])


def read_principals(
    text: str, files: Mapping[str, str] | None = None, folder: str | None = None, *, on_spark: bool = False
) -> PrincipalList:
    """Read the value of `--principals`: `scram`, a file as `resolve --from` takes it (`-` is stdin), or a table.

    `on_spark`: whether a table can be read. It then is also a file that is too large for one process. Raises
    `UsageError` or `InvalidFilesError`.
    """
    files = files or {}
    found = None
    if text == SCRAM:
        found = PrincipalList(files=files)
    elif not is_table(text, on_spark=on_spark):
        found = _read_list(text, files, on_spark=on_spark)
    if found is not None:
        if folder is not None:
            raise ArgumentError("{principals_out} parquet=DIR is for a table of principals; name a .csv or .jsonl file")
        return found
    if not on_spark:
        raise ArgumentError(
            "{principals} {} is a table, which is read on Spark only; add {engine} spark, or give a CSV or JSON "
            "lines file",
            inert(text),
        )
    if files:
        raise ArgumentError(
            "the changes for {} are written as Parquet, because it is read as a table; give {principals_out} "
            "parquet=DIR",
            inert(text),
        )
    return PrincipalList(table=text, folder=folder)


def _read_list(text: str, files: Mapping[str, str], *, on_spark: bool) -> PrincipalList | None:
    """Read a list; `None` if it is too large for one process and can be read as a table."""
    from quotaform.resolve.request_file import RequestFile, unusable

    path = Path(text)
    if on_spark and path.is_file() and path.stat().st_size > REQUESTS_LIMIT:
        return None
    rows = RequestFile.read(None if text == _STDIN else path)
    entities: set[Entity] = set()
    for entity in rows:
        entities.add(entity)
        if len(entities) > MOST_PRINCIPALS:
            if on_spark and text != _STDIN:
                return None
            raise unusable(
                rows.name,
                f"it lists more than {MOST_PRINCIPALS:,} principals, too many for one process; "
                f"add {option_of('engine')} spark",
            )
    if not entities:
        raise unusable(rows.name, "it lists no principals; write one per line after the names of the columns")
    return PrincipalList(known=Principals.of(rows.name, entities), files=files, nameless=rows.nameless)


def is_table(text: str, *, on_spark: bool = False) -> bool:
    """Whether a value of `--principals` is a table: a folder or file of Parquet, or a name in a catalog.

    >>> is_table("people.parquet"), is_table("prod.usage.principals"), is_table("principals.csv")
    (True, True, False)

    `on_spark`: whether tables can be read; then a word that is no file is the name of one.
    """
    path = Path(text)
    if path.is_dir() or "://" in text or path.suffix.lower() in {".parquet", ".orc", ".avro", ".delta"}:
        return True
    if path.suffix.lower() in {".csv", ".json", ".jsonl", ".ndjson", ".txt", ".tsv"} or path.exists():
        return False
    return bool(_TABLE_NAME(text)) or (on_spark and text.isidentifier())
