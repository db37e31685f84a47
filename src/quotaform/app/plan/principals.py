"""Who really connects, for the blast radius of a plan: a list in a file, or the users with SCRAM credentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from re import compile as regex
from typing import TYPE_CHECKING, Final

from quotaform.core.blast_radius import Principals
from quotaform.errors import UsageError
from quotaform.model.entity import Entity
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.cluster.scram import ScramGateway
    from quotaform.desired.config import Cluster

SCRAM: Final = "scram"
"""Stands for the users that have SCRAM credentials on the cluster; a file of this name is `./scram`."""

MOST_PRINCIPALS: Final = 1_000_000
"""How many principals are resolved in one process; each takes about 400 bytes of memory."""

_STDIN: Final = "-"
_TABLE_SUFFIXES: Final = frozenset({".parquet", ".orc", ".avro", ".delta"})
_TABLE_NAME: Final = regex(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}").fullmatch

ConnectScram = Callable[["Cluster"], "ScramGateway"]
"""Connects to a cluster to ask for its SCRAM credentials."""


@dataclass(frozen=True, slots=True)
class PrincipalList:
    """Whose effective limits a plan is checked for.

    Attributes:
        known: The principals, when they are the same for all clusters; `None` for the SCRAM users of each cluster.
        files: Cluster to the file in which all changes of limits are wanted, as it was given.
    """

    known: Principals | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def of_cluster(self, cluster: Cluster, connect: ConnectScram | None = None) -> Principals:
        """Return who connects to a cluster.

        Args:
            cluster: The cluster.
            connect: Connects to it.

        Raises:
            UsageError: It is a snapshot, which contains no SCRAM credentials.
            BlockedError: It is not the one that quotaform.yaml pins.
            ClusterError: Its SCRAM credentials could not be read.
        """
        if self.known is not None:
            return self.known
        if connect is None:
            from quotaform.app.scram import open_scram

            connect = open_scram
        with connect(cluster) as gateway:
            users = [found.user for found in gateway.describe() if found.credentials]
        return Principals.of(SCRAM, [Entity(user=user) for user in users])


def read_principals(text: str, files: Mapping[str, str] | None = None) -> PrincipalList:
    """Read the value of `--principals`: `scram`, or a file as `resolve --from` takes it (`-` is stdin).

    Args:
        text: The value.
        files: As `PrincipalList` has them.

    Raises:
        UsageError: It is a table, which only Spark reads.
        InvalidFilesError: The file cannot be read, or something is wrong in it; or it lists too many or none.
    """
    if text == SCRAM:
        return PrincipalList(files=files or {})
    if is_table(text):
        raise UsageError(
            f"--principals {inert(text)} is a table, which is read on Spark only; add --engine spark, or give a CSV or "
            "JSON lines file"
        )
    from quotaform.app.resolve.request_file import RequestFile

    rows = RequestFile.read_stdin() if text == _STDIN else RequestFile.read(Path(text))
    entities: set[Entity] = set()
    for entity in rows:
        entities.add(entity)
        if len(entities) > MOST_PRINCIPALS:
            raise rows.error(
                f"it lists more than {MOST_PRINCIPALS:,} principals, too many for one process; add --engine spark"
            )
    if not entities:
        raise rows.error("it lists no principals; write one per line after the names of the columns")
    return PrincipalList(Principals.of(rows.name, entities), files or {})


def is_table(text: str) -> bool:
    """Whether a value of `--principals` is a table: a folder or file of Parquet, or a name in a catalog.

    >>> is_table("people.parquet"), is_table("prod.usage.principals"), is_table("principals.csv")
    (True, True, False)
    """
    path = Path(text)
    if path.is_dir() or path.suffix.lower() in _TABLE_SUFFIXES:
        return True
    is_file_name = path.suffix.lower() in (".csv", ".json", ".jsonl", ".ndjson", ".txt", ".tsv") or path.exists()
    return not is_file_name and bool(_TABLE_NAME(text))
