"""The newest receipt of a cluster, of those that applies have left beside quotaform.yaml."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from json import dumps
from operator import itemgetter
from pathlib import Path
from re import compile as regex
from typing import TYPE_CHECKING, Final

from quotaform.app.apply.lock import HeldLock, cluster_lock, listed_receipts
from quotaform.app.apply.receipt_file import load_receipt_file
from quotaform.app.apply.receipt_name import receipt_folder, receipts_by_name, time_in_name
from quotaform.app.clock import SYSTEM_CLOCK, Clock
from quotaform.app.git.object_store import find_work_tree, open_objects
from quotaform.app.git.process import GitError, TimeLeft
from quotaform.core.plan_options import PlanOptions
from quotaform.core.receipt import Result, SavedReceipt
from quotaform.core.scope import Selection
from quotaform.document.receipt import HEAD, is_started_head
from quotaform.errors import FileReadError, QuotaformError, ReceiptFileError
from quotaform.files import read_bytes
from quotaform.model.entity import Entity

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository

_MOST_STARTS: Final = 10_000
"""Of how many receipts the start is read, to find those of one cluster."""
_MOST_READ: Final = 20
"""How many receipts of one cluster are read."""
_FINISHED: Final = regex(r'"finished_at": ?"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z)"').search
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_MOST_AHEAD: Final = timedelta(hours=1)
"""How much later than here the clock of another machine may be."""
_COMMITTED: Final = "it is committed to git; an apply writes its receipts beside the commit"
STARTED: Final = "is the receipt of an apply that did not finish, so the cluster may never have held what it declares"
"""Why a started receipt is no base."""
_START: Final = 4096
"""In how many bytes at its start a receipt names its cluster."""


@dataclass(frozen=True, slots=True)
class LastReceipt:
    """The newest receipt of a cluster, and what the files declared when the cluster last held all of it.

    Attributes:
        path: Its file. It is that of a revert only if no other apply is known.
        declared: What the files declared at the last apply of a whole plan that was completed, and at any later one;
            `None` if receipts do not say, or too many of them would have to be read.
        commit: The commit of that last apply of a whole plan, if it is known.
    """

    path: Path
    receipt: SavedReceipt
    declared: frozenset[Entity] | None
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class ReceiptSearch:
    """What was found in the folder of receipts.

    Attributes:
        last: The newest valid receipt of the cluster, if there is one.
        skipped: Why newer files were passed over: they could not be read, or are no valid receipts, or started ones.
        ignored: Why receipts were passed over that no apply of this folder can have written.
    """

    last: LastReceipt | None
    skipped: tuple[QuotaformError, ...] = ()
    ignored: tuple[ReceiptFileError, ...] = ()


def last_receipt(
    repository: Repository, cluster_id: str, clock: Clock = SYSTEM_CLOCK, *, other_names: Collection[str] = ()
) -> ReceiptSearch:
    """Look for the newest valid receipt of a cluster among those beside quotaform.yaml.

    The folder belongs to a repository, so what it holds is read with suspicion: regular files within it, a bounded
    number of them, and each checked as `load_receipt` does. One that is committed was not written by an apply here but
    by whoever may change the files, and one of the future by nobody; neither counts. `other_names` are the names of
    other clusters in quotaform.yaml: if one of them is the same live cluster by mistake, its receipts are about its own
    files.
    """
    skipped: list[QuotaformError] = []
    ignored: list[ReceiptFileError] = []
    folder = receipt_folder(repository)
    newest: tuple[Path, SavedReceipt] | None = None
    declared: frozenset[Entity] | None = frozenset()
    commit: str | None = None
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
            receipt = load_receipt_file(path, within=within)
        except QuotaformError as error:
            skipped.append(error)
            continue
        if receipt.cluster_id != cluster_id or receipt.cluster_name in other_names:
            continue
        if receipt.finished_at > latest:
            ignored.append(ReceiptFileError(str(path), f"it is from the future ({receipt.finished_at})"))
            continue
        if receipt.is_started:
            skipped.append(ReceiptFileError(str(path), STARTED))
            continue
        if newest is None or newest[1].is_revert:
            newest = path, receipt
        if receipt.is_revert:
            continue
        if receipt.declared is None or declared is None:
            declared = None
            break
        declared |= receipt.declared
        if receipt.is_whole:
            commit = receipt.source.commit
            break
    else:
        declared = None
    last = None if newest is None else LastReceipt(*newest, declared, commit)
    return ReceiptSearch(last, tuple(skipped), tuple(ignored))


def started_receipt(repository: Repository, cluster: str, cluster_id: str) -> tuple[Path, SavedReceipt] | None:
    """Return the newest started receipt of a cluster that no later apply has settled, unless an apply is running.

    As in `last_receipt`, one that is committed to git does not count. `cluster` is what messages call the cluster.
    """
    folder = repository.config_path.parent
    for path, receipt in _started(folder, cluster_id):
        with suppress(QuotaformError, GitError):
            if path.name not in committed_names(path.parent):
                with cluster_lock(folder, cluster, cluster_id):  # Held by an apply that runs.
                    return path, receipt
    return None


def note_start(lock: HeldLock, repository: Repository, cluster_id: str, receipt: Path) -> None:
    """Note where the started receipt of an apply will be, beside those that are not settled."""
    lock.write([receipt, *(path for path, _ in _started(repository.config_path.parent, cluster_id))])


def note_end(lock: HeldLock, repository: Repository, cluster_id: str, options: PlanOptions) -> None:
    """Note that a plan with these options is in effect: the started receipts whose entities it covers are settled."""
    started = _started(repository.config_path.parent, cluster_id)
    lock.write([path for path, receipt in started if not _settles(options, receipt)])


def _settles(options: PlanOptions, started: SavedReceipt) -> bool:
    if options.is_revert:
        own = None if started.options is None else started.options.revert
        if options.revert not in (started.plan_id, own):
            return False
    selection = Selection(options.select, options.exclude)
    return all(selection.contains(item.entity) for item in started.results if item.result is Result.UNKNOWN)


def _started(folder: Path, cluster_id: str) -> list[tuple[Path, SavedReceipt]]:
    """Return the listed receipts that are started ones of a cluster, the newest first; a bounded number is read.

    The list lies in the repository: what it names must be a regular file, and not a link to somewhere else.
    """
    found = []
    for path in dict.fromkeys(listed_receipts(folder, cluster_id)):
        with suppress(QuotaformError):
            if is_started_head(read_bytes(path, HEAD, within=path.parent, is_start=True)):
                receipt = load_receipt_file(path, within=path.parent)
                if receipt.is_started and receipt.cluster_id == cluster_id:
                    found.append((path, receipt))
        if len(found) == _MOST_READ:
            break
    return found


def _paths_of(folder: Path, within: Path, cluster_id: str) -> list[Path]:
    """Return the receipts of a cluster by the time in them, the newest first; of the same time, by their names."""
    wanted = dumps(cluster_id).encode()
    found: list[tuple[str, Path]] = []
    for path in receipts_by_name(folder)[:_MOST_STARTS]:
        try:
            start = read_bytes(path, _START, within=within, is_start=True)
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
            if problem is not None and not problem.startswith(
                "git failed: "
            ):  # It says in its own words that HEAD is none.
                raise GitError(problem)
            return frozenset()
        place = Path(os.path.realpath(folder)).relative_to(os.path.realpath(top)).as_posix()
        entry = objects.entry(commit.tree, place)
        return frozenset(objects.tree(entry.id)) if entry is not None and entry.is_folder else frozenset()
