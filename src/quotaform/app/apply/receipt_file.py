"""Where the receipts of applies are kept: each in a file of its own, which no other one overwrites."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, count, islice
from json import dumps
from operator import itemgetter
from os import scandir
from pathlib import Path
from re import compile as regex
from typing import Final

from quotaform.app.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.app.git.committed import committed_names
from quotaform.app.git.process import GitError
from quotaform.app.repository.repository import Repository
from quotaform.atomic_file import write_new_text, write_text_atomically
from quotaform.core.plan import Plan
from quotaform.core.receipt import Receipt, SavedReceipt
from quotaform.document.receipt import load_receipt, receipt_lines
from quotaform.errors import FileReadError, QuotaformError, ReceiptFileError
from quotaform.files import RECEIPT_LIMIT, read_bytes
from quotaform.model.entity import Entity

_LONGEST_NAME: Final = 100
"""Characters of a cluster's name in a file name, which file systems limit to 255 bytes."""
_NAME: Final = regex(r"([0-9]{8}T[0-9]{6}Z)-.*-[0-9a-f]{8}(?:-([0-9]{1,9}))?\.json").fullmatch
"""The name that `receipt_path` gives a receipt, with the number that `write_receipt` appends."""
_MOST_FILES: Final = 100_000
"""How many files of the folder are looked at."""
_MOST_STARTS: Final = 10_000
"""Of how many receipts the start is read, to find those of one cluster."""
_MOST_READ: Final = 20
"""How many receipts of one cluster are read."""
_FINISHED: Final = regex(r'"finished_at": ?"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z)"').search
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_MOST_AHEAD: Final = timedelta(hours=1)
"""How much later than here the clock of another machine may be."""
_COMMITTED: Final = "it is committed to git; an apply writes its receipts beside the commit"
_START: Final = 4096
"""In how many bytes at its start a receipt names its cluster."""


@dataclass(frozen=True, slots=True)
class LastReceipt:
    """The newest receipt of a cluster, and what the files declared when the cluster last held all of it.

    Attributes:
        path: Its file.
        receipt: The receipt.
        declared: What the files declared at the last apply of a whole plan that was completed, and at any later one;
            `None` if receipts do not say, or too many of them would have to be read.
    """

    path: Path
    receipt: SavedReceipt
    declared: frozenset[Entity] | None


@dataclass(frozen=True, slots=True)
class ReceiptSearch:
    """What was found in the folder of receipts.

    Attributes:
        last: The newest valid receipt of the cluster, if there is one.
        skipped: Why newer files were passed over: they could not be read, or are no valid receipts.
        ignored: Why receipts were passed over that no apply of this folder can have written.
    """

    last: LastReceipt | None
    skipped: tuple[QuotaformError, ...] = ()
    ignored: tuple[ReceiptFileError, ...] = ()


def receipt_path(plan: Plan, repository: Repository, clock: Clock = SYSTEM_CLOCK) -> Path:
    """Return where the receipt of an apply goes unless somebody says otherwise."""
    moment = timestamp(clock).replace(":", "").replace("-", "")
    name = plan.header.cluster_name[:_LONGEST_NAME]
    cluster = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_" for letter in name)
    file = f"{moment}-{cluster}-{plan.plan_id.removeprefix('sha256:')[:8]}.json"
    return _folder(repository) / file


def _folder(repository: Repository) -> Path:
    return repository.config_path.parent / ".quotaform" / "receipts"


def load_receipt_file(path: Path) -> SavedReceipt:
    """Read a receipt that the operator names.

    Raises:
        ReceiptFileError: It cannot be read, is cut off, or is of an unknown major version.
        ReceiptFileChangedError: It was changed after it was written.
    """
    return _load(path, None)


def last_receipt(repository: Repository, cluster_id: str, clock: Clock = SYSTEM_CLOCK) -> ReceiptSearch:
    """Look for the newest valid receipt of a cluster among those beside quotaform.yaml.

    The folder belongs to a repository, so what it holds is read with suspicion: regular files within it, a bounded
    number of them, and each checked as `load_receipt` does. One that is committed was not written by an apply here but
    by whoever may change the files, and one of the future by nobody; neither counts.

    Args:
        repository: Where the files are.
        cluster_id: The id that the cluster gives itself.
        clock: The time.
    """
    skipped: list[QuotaformError] = []
    ignored: list[ReceiptFileError] = []
    folder = _folder(repository)
    newest: tuple[Path, SavedReceipt] | None = None
    declared: frozenset[Entity] | None = frozenset()
    within = repository.config_path.parent
    paths = _paths_of(folder, within, cluster_id)
    try:
        committed = committed_names(folder) if paths else frozenset[str]()
    except GitError as error:
        text = f"it is not known whether it is committed to git: {error.reason}"
        return ReceiptSearch(None, (ReceiptFileError(str(paths[0]), text),))
    ignored += [ReceiptFileError(str(path), _COMMITTED) for path in paths if path.name in committed]
    latest = (clock.now() + _MOST_AHEAD).strftime(_TIME)
    for path in islice((path for path in paths if path.name not in committed), _MOST_READ):
        try:
            receipt = _load(path, within)
        except QuotaformError as error:
            skipped.append(error)
            continue
        if receipt.cluster_id != cluster_id:
            continue
        if receipt.finished_at > latest:
            ignored.append(ReceiptFileError(str(path), f"it is from the future ({receipt.finished_at})"))
            continue
        newest = newest or (path, receipt)
        if receipt.is_revert:
            continue
        if receipt.declared is None or declared is None:
            declared = None
            break
        declared |= receipt.declared
        if receipt.is_whole:
            break
    else:
        declared = None
    return ReceiptSearch(None if newest is None else LastReceipt(*newest, declared), tuple(skipped), tuple(ignored))


def _load(path: Path, within: Path | None) -> SavedReceipt:
    try:
        content = read_bytes(path, RECEIPT_LIMIT, within=within)
    except FileReadError as error:
        raise ReceiptFileError(error.path, f"cannot be read: {error.reason}") from error
    return load_receipt(content, str(path))


def _paths_of(folder: Path, within: Path, cluster_id: str) -> list[Path]:
    """Return the receipts of a cluster by the time in them, the newest first; of the same time, by their names."""
    wanted = dumps(cluster_id).encode()
    found: list[tuple[str, Path]] = []
    for path in islice(_newest_first(folder), _MOST_STARTS):
        try:
            start = read_bytes(path, _START, within=within, is_start=True)
        except FileReadError:
            continue
        if wanted in start:
            finished = _FINISHED(start.decode(errors="replace"))
            found.append((finished[1] if finished else _time_of(path.name), path))
    found.sort(key=itemgetter(0), reverse=True)
    return [path for _, path in found]


def _time_of(name: str) -> str:
    """Return the time that a file name has, in the form that a receipt has it in."""
    return f"{name[:4]}-{name[4:6]}-{name[6:8]}T{name[9:11]}:{name[11:13]}:{name[13:15]}Z"


def _newest_first(folder: Path) -> Iterator[Path]:
    try:
        with scandir(folder) as entries:
            names = [match for entry in islice(entries, _MOST_FILES) if (match := _NAME(entry.name)) is not None]
    except OSError:
        return
    names.sort(key=lambda match: (match[1], int(match[2] or 1)), reverse=True)
    yield from (folder / match[0] for match in names)


def write_receipt(path: Path, receipt: Receipt) -> Path:
    """Write a receipt, and never over another file: a name that is taken gets a number.

    Args:
        path: Where it is to be; what is no regular file (a pipe, `/dev/stdout`) is written to as it is.
        receipt: The receipt.

    Returns:
        Where it is.

    Raises:
        OSError: It cannot be written.
    """
    if path.exists() and not path.is_file():
        write_text_atomically(path, receipt_lines(receipt))
        return path
    for suffix in chain([""], (f"-{number}" for number in count(2))):
        candidate = path.with_name(f"{path.stem}{suffix}{path.suffix}") if suffix else path
        try:
            write_new_text(candidate, receipt_lines(receipt))
        except FileExistsError:
            continue
        return candidate
    raise AssertionError("too many files with this name exist")
