"""The names of receipts, which say when they were written, and where they are kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from os import scandir
from pathlib import Path
from re import Match
from re import compile as regex
from typing import TYPE_CHECKING, Final

from quotaform.app.clock import SYSTEM_CLOCK, Clock, timestamp

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository
    from quotaform.core.digest import PlanDigest

_LONGEST_CLUSTER: Final = 100
"""Characters of a cluster's name in a file name, which file systems limit to 255 bytes."""
_NAME: Final = regex(
    r"(?P<second>[0-9]{8}T[0-9]{6}Z)-(?P<cluster>.*)-[0-9a-f]{8}(?:-(?P<number>[0-9]{1,9}))?\.json"
).fullmatch
_MOST_FILES: Final = 100_000
"""How many files of a folder are looked at."""


def receipt_folder(repository: Repository) -> Path:
    """Return where the receipts of a repository are kept."""
    return repository.config_path.parent / ".quotaform" / "receipts"


def receipt_path(plan: PlanDigest, repository: Repository, clock: Clock = SYSTEM_CLOCK) -> Path:
    """Return where the receipt of an apply goes unless somebody says otherwise; see `numbered_paths`."""
    return receipt_folder(repository) / receipt_name(plan, clock)


def receipt_name(plan: PlanDigest, clock: Clock = SYSTEM_CLOCK) -> str:
    """Return the name of the receipt of an apply."""
    second = timestamp(clock).replace(":", "").replace("-", "")
    name = plan.cluster_name[:_LONGEST_CLUSTER]
    cluster = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_" for letter in name)
    return f"{second}-{cluster}-{plan.plan_id.removeprefix('sha256:')[:8]}.json"


def numbered_paths(path: Path) -> Iterator[Path]:
    """Yield the paths that a receipt can have, the wanted one first: a file that is there is never written over.

    Of the receipts of a cluster that are written in one second each gets a higher number than those before it, whatever
    plan it is of, so that the names tell which is the newest.
    """
    number = _highest_number(path) + 1
    while True:
        yield path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1


def _highest_number(path: Path) -> int:
    """Return the highest number of the receipts of the same cluster and second; 0 if there are none."""
    own = _NAME(path.name)
    if own is None:
        return 0
    same = (
        each for each in _names(path.parent) if each["second"] == own["second"] and each["cluster"] == own["cluster"]
    )
    return max((int(each["number"] or 1) for each in same), default=0)


def receipts_by_name(folder: Path) -> list[Path]:
    """Return the receipts of a folder by the time and the number in their names, the newest first."""
    names = sorted(_names(folder), key=lambda name: (name["second"], int(name["number"] or 1), name[0]), reverse=True)
    return [folder / name[0] for name in names]


def time_in_name(path: Path) -> str:
    """Return the time that the name of a receipt has, in the form that receipts have times in."""
    name = path.name
    return f"{name[:4]}-{name[4:6]}-{name[6:8]}T{name[9:11]}:{name[11:13]}:{name[13:15]}Z"


def _names(folder: Path) -> list[Match[str]]:
    try:
        with scandir(folder) as entries:
            return [name for entry in islice(entries, _MOST_FILES) if (name := _NAME(entry.name)) is not None]
    except OSError:
        return []
