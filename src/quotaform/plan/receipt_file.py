"""Saved plans and receipts as files; each receipt has one of its own, which no other one overwrites.

A started receipt is written before the first change is sent, and replaced when the apply has ended.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from datetime import timedelta
from itertools import islice
from json import dumps
from operator import itemgetter
from os import scandir
from pathlib import Path
from re import Match
from re import compile as regex
from typing import TYPE_CHECKING, Final

from quotaform.git import GitError, TimeLeft, find_work_tree, open_objects
from quotaform.model.entity import Entity
from quotaform.model.errors import BaseError, FileReadError, QuotaformError, SavedFileChangedError, SavedFileError
from quotaform.model.quotas import Action, Base, DeclaredBase, Entry
from quotaform.model.text import inert, option_of
from quotaform.plan.check.guard import ClusterBase
from quotaform.plan.plan import Plan
from quotaform.plan.receipt import Receipt, ReceiptSource, SavedReceipt, load_receipt, receipt_lines
from quotaform.plan.records import load_plan
from quotaform.system.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.system.files import PLAN_LIMIT, RECEIPT_LIMIT, read_bytes, write_atomically, write_new_text

if TYPE_CHECKING:
    from quotaform.plan.digest import ClusterDigest
    from quotaform.repository.repository import Repository


_NAME: Final = regex(
    r"(?P<second>[0-9]{8}T[0-9]{6}Z)-(?P<cluster>.*)-[0-9a-f]{8}(?:-(?P<number>[0-9]{1,9}))?\.json"
).fullmatch


def receipt_folder(repository: Repository) -> Path:
    """Return where the receipts of a repository are kept."""
    return repository.config_path.parent / ".quotaform" / "receipts"


def receipt_path(plan: ClusterDigest, repository: Repository) -> Path:
    """Return where the receipt of an apply goes by default; see `write_receipt`."""
    return receipt_folder(repository) / receipt_name(plan)


def receipt_name(plan: ClusterDigest) -> str:
    """Return the name of the receipt of an apply."""
    second = timestamp(SYSTEM_CLOCK).replace(":", "").replace("-", "")
    name = plan.row.cluster[:100]  # File systems limit names of files to 255 bytes.
    cluster = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_" for letter in name)
    return f"{second}-{cluster}-{plan.plan_id.removeprefix('sha256:')[:8]}.json"


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
            return [name for entry in islice(entries, 100_000) if (name := _NAME(entry.name)) is not None]
    except OSError:
        return []


def load_plan_file(path: Path) -> Plan:
    """Read a saved plan. Raises `FileReadError`, `SavedFileError` or `SavedFileChangedError`."""
    content = _read(path, PLAN_LIMIT, f"quotaform plan {option_of('out')} plan.json saves a plan")
    return load_plan(content, str(path))


def load_receipt_file(path: Path, *, within: Path | None = None) -> SavedReceipt:
    """Read a receipt.

    `within`: the folder that it must not lead out of; `None` for one that the operator names. Raises `FileReadError`,
    `SavedFileError` or `SavedFileChangedError`.
    """
    content = _read(path, RECEIPT_LIMIT, "quotaform apply writes receipts to .quotaform/receipts", within)
    return load_receipt(content, str(path))


def _read(path: Path, limit: int, remedy: str, within: Path | None = None) -> bytes:
    try:
        return read_bytes(path, limit, within=within)
    except FileReadError as error:
        if not error.is_missing:
            raise
        raise FileReadError(error.path, f"{error.reason}; {remedy}", is_missing=True) from error


def write_receipt(path: Path, receipt: Receipt, *, is_started: bool = False) -> Path:
    """Write a receipt, and return where it is: a file that is there is never written over, but gets a number.

    `path`: where it is to be; what is no regular file (a pipe, `/dev/stdout`) is written to as it is. `is_started`:
    whether the started receipt is at this path, which is replaced. Raises `OSError` if it cannot be
    written.
    """
    if is_started or (path.exists() and not path.is_file()):
        write_atomically(path, receipt_lines(receipt))
        return path
    # Of the receipts of a cluster that are written in one second each gets a higher number than those before it,
    # whatever plan it is of, so that the names tell which is the newest.
    number = 1
    if (own := _NAME(path.name)) is not None:
        same = (
            each for each in _names(path.parent) if each.group("second", "cluster") == own.group("second", "cluster")
        )
        number = max((int(each["number"] or 1) + 1 for each in same), default=1)
    while True:
        candidate = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            write_new_text(candidate, receipt_lines(receipt))
        except FileExistsError:
            number += 1
        else:
            return candidate


def is_receipt(ref: str) -> bool:
    """Whether a base is the path of a receipt, rather than a git revision."""
    return ref.endswith(".json")


def read_receipt_base(path: str) -> tuple[ClusterBase, ReceiptSource]:
    """Return what a receipt that was named as the base declares, and from which files; it is of one cluster.

    Raises `BaseError` if it cannot be read, is that of a revert or of an apply that did not finish, or does not say
    what the files declared.
    """
    try:
        receipt = load_receipt_file(Path(path))
    except FileReadError as error:
        raise BaseError(inert(path), error.reason) from None
    except SavedFileChangedError:
        raise
    except SavedFileError as error:
        raise BaseError(inert(path), f"it {error.problem}") from None
    if receipt.options.is_revert:
        text = "it is the receipt of a revert, whose values are not those of the files"
        raise BaseError(inert(path), f"{text}; give the receipt of the apply before it, or a git revision")
    if receipt.is_started:
        raise BaseError(inert(path), f"it {STARTED}; complete the apply, or give an earlier receipt or a git revision")
    declared = receipt.declared
    if declared is None:
        raise BaseError(inert(path), "it is of an apply of rows, without files; give a git revision")
    # The entries whose values a receipt holds whole are those of the entities that it created.
    desired = {
        item.entity: Entry(
            entity=item.entity, values={row.key: row.after for row in item.rows if row.after is not None}
        )
        for item in receipt.results
        if item.action is Action.CREATE and item.result.holds and item.entity in declared
    }
    base = Base(ref=path, commit=receipt.source.commit, is_receipt=True)
    found = DeclaredBase(base, desired, declared - desired.keys())
    return ClusterBase(declared=found, cluster_id=receipt.cluster.id), receipt.source


MOST_READ: Final = 20
"""How many receipts of one cluster are read."""
_FINISHED: Final = regex(r'"finished_at": ?"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z)"').search
STARTED: Final = "is the receipt of an apply that did not finish, so the cluster may never have held what it declares"
"""Why a started receipt is no base."""


def last_receipt_base(
    repository: Repository, cluster_id: str, clock: Clock = SYSTEM_CLOCK, other_names: Collection[str] = ()
) -> tuple[DeclaredBase | None, str, list[str]]:
    """Return what the receipts of a cluster declare, or why that is not known, and why some of them are ignored.

    They declare what the files did at the last apply of a whole plan that was completed, and at any later one.
    `other_names` are the names of other clusters in quotaform.yaml: if one of them is the same live cluster by mistake,
    its receipts are about its own files.
    """
    skipped: list[QuotaformError] = []
    ignored: list[str] = []
    newest: Path | None = None  # That of a revert only if no other apply is known
    is_revert = False  # Whether the newest is that of a revert
    declared: frozenset[Entity] = frozenset()
    whole: SavedReceipt | None = None
    for path, receipt in _receipts_of(repository, cluster_id, clock, other_names, skipped, ignored):
        if newest is None or is_revert:
            newest, is_revert = path, receipt.options.is_revert
        if receipt.options.is_revert:
            continue
        if receipt.declared is None:  # It wrote rows, of which no files are known.
            break
        declared |= receipt.declared
        if receipt.is_complete and not receipt.options.is_partial:  # The cluster held all that the files declared.
            whole = receipt
            break
    if newest is None:
        why = "there is no base and no receipt of this cluster"
        why += f" that can be used ({skipped[0]})" if skipped else ""
    elif whole is None:
        why = f"there is no base, and the receipts up to {newest} do not say it for the whole cluster"
    elif skipped:
        why = f"there is no base, and a newer receipt than {newest} cannot be used ({skipped[0]})"
    else:
        base = Base(ref=str(newest), commit=whole.source.commit, is_receipt=True)
        return DeclaredBase(base, {}, declared), "", ignored
    remedy = f"give the git revision that was applied last: {option_of('base')} REF"
    if find_work_tree(repository.directory) is None:
        named = f"give the receipt of the last apply ({option_of('base')} RECEIPT)"
        remedy = f"{named}, or plan with {option_of('prune')} report"
    return None, f"{why}; {remedy}", ignored


def _receipts_of(
    repository: Repository,
    cluster_id: str,
    clock: Clock,
    other_names: Collection[str],
    skipped: list[QuotaformError],
    ignored: list[str],
) -> Iterator[tuple[Path, SavedReceipt]]:
    """Yield the valid receipts of a cluster, the newest first, a bounded number; the lists take why others are not.

    The folder belongs to a repository, so what it holds is read with suspicion: regular files within it, and each
    checked as `load_receipt` does. One that is committed was not written by an apply here but by somebody who may
    change the files, and the time of one from the future is wrong; both are ignored. Others are skipped: they cannot
    be read, or are no valid receipts, or started ones.
    """
    folder, within = receipt_folder(repository), repository.config_path.parent
    paths = _paths_of(folder, within, cluster_id)
    try:
        committed = committed_names(folder) if paths else frozenset[str]()
    except GitError as error:
        problem = f"may be committed to git, which cannot be read: {error.reason}"
        skipped.append(SavedFileError(str(paths[0]), problem))
        return
    why = "is committed to git; an apply writes its receipts beside the commit"
    ignored += [str(SavedFileError(str(path), why)) for path in paths if path.name in committed]
    # The clock of another machine may be an hour later than here.
    latest = (clock.now() + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for path in islice((path for path in paths if path.name not in committed), MOST_READ):
        try:
            receipt = load_receipt_file(path, within=within)
        except QuotaformError as error:
            skipped.append(error)
            continue
        if receipt.cluster.id != cluster_id or receipt.cluster.name in other_names:
            continue
        if receipt.finished_at > latest:
            ignored.append(str(SavedFileError(str(path), f"is from the future ({receipt.finished_at})")))
        elif receipt.is_started:
            skipped.append(SavedFileError(str(path), STARTED))
        else:
            yield path, receipt


def _paths_of(folder: Path, within: Path, cluster_id: str) -> list[Path]:
    """Return the receipts of a cluster by the time in them, the newest first; of the same time, by their names."""
    wanted = dumps(cluster_id).encode()
    found: list[tuple[str, Path]] = []
    for path in receipts_by_name(folder)[:10_000]:
        try:
            start = read_bytes(path, 4096, within=within, is_start=True)  # A receipt names its cluster there.
        except FileReadError:
            continue
        if wanted in start:
            finished = _FINISHED(start.decode(errors="replace"))
            found.append((finished[1] if finished else time_in_name(path), path))
    found.sort(key=itemgetter(0), reverse=True)
    return [path for _, path in found]


def committed_names(folder: Path) -> frozenset[str]:
    """Return the names that a folder has in the commit that is checked out; none outside of a git work tree."""
    top = find_work_tree(folder)
    if top is None:
        return frozenset()
    with open_objects(top, TimeLeft()) as objects:
        commit = objects.commit("HEAD^{commit}")
        if commit is None:
            problem = objects.error_message()
            # With these words git says that HEAD is no commit.
            if problem is not None and not problem.startswith("git failed: "):
                raise GitError(problem)
            return frozenset()
        place = Path(os.path.realpath(folder)).relative_to(os.path.realpath(top)).as_posix()
        entry = objects.entry(commit.tree, place)
        return frozenset(objects.tree(entry.id)) if entry is not None and entry.is_folder else frozenset()
