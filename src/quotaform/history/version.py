"""The versions of a history in Parquet: which folders make up the table, as a small file that is created once.

A table is a folder:

| path | content |
| --- | --- |
| `versions/00000007.json` | version 7: the folders that it consists of; the highest number is the table |
| `data/00000007-1a2b3c4d/part=open` | rows that were still valid when version 7 was written |
| `data/00000007-1a2b3c4d/part=closed` | rows that have ended, also some that a folder before it has as open |
| `data/00000007-1a2b3c4d/part=snapshots` | the snapshots that are known |

An append writes a folder of its own, makes it last through a power cut, and then creates the file of the next version.
A row that has ended takes the place of the open one of the same cluster, entity key, key and `valid_from` that an
append before it has written, so what stays as it is need not be written again. Nothing that a version names is ever
changed, so whoever reads sees one version whole, and an append that ends halfway leaves a folder that no version names.
Of two appends that begin with one version one creates the file, and the other one can begin again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from json import loads
from pathlib import Path
from re import compile as regex
from secrets import token_hex
from shutil import rmtree
from typing import Any, Final

from quotaform.model.errors import FileReadError, HistoryError
from quotaform.model.moment import read_moment, spell_moment
from quotaform.model.records.document import (
    HISTORY_TABLE,
    EnvelopeError,
    VersionError,
    envelope,
    indented,
    require_kind,
)
from quotaform.model.text import MIB
from quotaform.system.files import read_text, reason_of, sync_tree, write_new_text
from quotaform.system.process import held_signals

PART: Final = "part"
"""The column by which Spark makes folders of the parts."""
OPEN: Final = "open"
CLOSED: Final = "closed"
SNAPSHOTS: Final = "snapshots"
PARTS: Final = (OPEN, CLOSED, SNAPSHOTS)
_VERSIONS: Final = "versions"
_DATA: Final = "data"
_NAME: Final = regex(r"([0-9]{8})\.json").fullmatch
_FOLDER: Final = regex(r"[0-9]{8}-[0-9a-f]{8}").fullmatch
_LIMIT: Final = 4 * MIB
_KEPT: Final = timedelta(days=1)
"""For how long what a later version has replaced is kept for those who still read it."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table."""

    number: int  # From 1 on; 0 is the table before the first append
    written_at: datetime
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict.fromkeys(PARTS, ()))
    """The folders of each part, as in `data/`."""

    def ending(self) -> tuple[str, ...]:
        """Return the folders of `CLOSED` whose rows may have ended rows in those of `OPEN`: what was added later."""
        oldest = min((_number(name) for name in self.parts[OPEN]), default=self.number)
        return tuple(name for name in self.parts[CLOSED] if _number(name) > oldest)


class VersionStore:
    """The versions of one table on a file system that this process sees."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def current(self) -> Version:
        """Return the version that is the table.

        Raises `HistoryError` if the folder is no history, or one that cannot be read.
        """
        try:
            if not self.path.exists():
                return Version(0, datetime.now(UTC))
            numbers = self._numbers()
            is_foreign = not self.path.is_dir() or any(
                each.name not in (_VERSIONS, _DATA) for each in (() if numbers else self.path.iterdir())
            )
        except OSError as error:
            raise self._error(f"it cannot be read: {reason_of(error)}", "make it readable") from None
        if is_foreign:
            raise self._error("it is not a history of quotaform", "give another path")
        return self._read(numbers[-1]) if numbers else Version(0, datetime.now(UTC))

    def folder(self, name: str, part: str | None = None) -> Path:
        """Return where what an append added is, or a part of it."""
        folder = self.path.absolute() / _DATA / name
        return folder if part is None else folder / f"{PART}={part}"

    def size(self, part: str, names: Iterable[str]) -> int:
        """Return how many bytes some folders of a part have."""
        return sum(file.stat().st_size for name in names for file in self.folder(name, part).glob("*.parquet"))

    def begin(self) -> None:
        """Make sure that a version can be written, before anything else is done."""
        try:
            (self.path / _VERSIONS).mkdir(parents=True, exist_ok=True)
            (self.path / _DATA).mkdir(exist_ok=True)
            probe = self.path / _DATA / f".quotaform-{token_hex(8)}.tmp"
            probe.touch()
            probe.unlink()
        except OSError as error:
            problem = f"it cannot be written: {reason_of(error)}"
            raise self._error(problem, "make it writable, or give another path") from None

    def add(
        self, before: Version, write: Callable[[Path], object], rewritten: Collection[str], now: datetime
    ) -> Version | None:
        """Write the next version, and make it the table: whole, or not at all.

        `write`: Writes the parts of a new folder, given its path. `rewritten`: The parts that consist of the new folder
        alone; to the others it is added.
        Returns the version; `None` if another append was faster, and nothing changed.
        """
        name = f"{before.number + 1:08}-{token_hex(4)}"
        try:
            write(self.folder(name))
            new = Version(before.number + 1, now, self._parts_with(before, name, rewritten))
            self._sync(name)
            # A signal in between would leave open whether the version is the table.
            with held_signals(holds_all=True):
                is_done = self._commit(new, name)
        except BaseException:
            if not self._has(before.number + 1, name, otherwise=True):
                self._discard(name)
            raise
        if not is_done:
            self._discard(name)
            return None
        with suppress(OSError):  # The next append will clean as well.
            self._clean(new)
        return new

    def _parts_with(self, before: Version, name: str, rewritten: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the folders of each part of the next version."""
        written = {part for part in PARTS if self.folder(name, part).is_dir()}
        if SNAPSHOTS not in written:
            raise self._error(
                "what Spark wrote is not there for this process, so it is not on a file system that both see",
                "give a path on a shared one, or delta:PATH",
            )
        return {
            part: (() if part in rewritten else before.parts[part]) + ((name,) if part in written else ())
            for part in PARTS
        }

    def _sync(self, name: str) -> None:
        """Make a new folder last: its version must not outlast a power cut that its rows do not."""
        try:
            sync_tree(self.folder(name))
        except OSError as error:
            raise self._not_written(error) from None

    def _commit(self, version: Version, added: str) -> bool:
        """Make a version the table; return False if another append was faster."""
        fields = {"version": version.number, "written_at": spell_moment(version.written_at), "parts": version.parts}
        try:
            # The number may be free again when others have been at it for days, and removed the file of that number.
            if any(number >= version.number for number in self._numbers()):
                return False
            write_new_text(self._file(version.number), indented(envelope(HISTORY_TABLE, fields)))
        except OSError as error:
            # The file may be there all the same: when the temporary one beside it could not be removed, or when a file
            # server did not get its answer through and was asked again.
            if self._has(version.number, added, otherwise=False):
                return True
            if isinstance(error, FileExistsError):
                return False
            raise self._not_written(error) from None
        return True

    def _has(self, number: int, name: str, *, otherwise: bool) -> bool:
        """Whether a version is there and consists of a folder, among others."""
        try:
            return any(name in names for names in self._read(number).parts.values())
        except HistoryError:
            return otherwise and os.path.lexists(self._file(number))

    def _discard(self, name: str) -> None:
        """Remove a folder that no version names, as far as that is possible."""
        rmtree(self.path / _DATA / name, ignore_errors=True)

    def _clean(self, current: Version) -> None:
        """Remove versions that were replaced more than a day ago, and folders that no version names any more.

        Raises `OSError` if something cannot be removed, or another process has just done it.
        """
        oldest = current.written_at - _KEPT
        kept = [current]
        for number in reversed(self._numbers()):
            if number >= current.number:
                continue
            if kept[-1].written_at < oldest:
                self._file(number).unlink(missing_ok=True)
                continue
            try:
                kept.append(self._read(number))
            except HistoryError:
                return  # What it names is not known.
        named = {name for version in kept for names in version.parts.values() for name in names}
        for folder in (self.path / _DATA).iterdir():
            is_ours = _FOLDER(folder.name) is not None and folder.name not in named
            if is_ours and datetime.fromtimestamp(folder.stat().st_mtime, UTC) < oldest:
                self._discard(folder.name)

    def _numbers(self) -> list[int]:
        """Return the numbers of the versions that are there, in order."""
        try:
            names = [each.name for each in (self.path / _VERSIONS).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(match[1]) for name in names if (match := _NAME(name)))

    def _file(self, number: int) -> Path:
        return self.path / _VERSIONS / f"{number:08}.json"

    def _read(self, number: int) -> Version:
        file = self._file(number)
        try:
            text = read_text(file, _LIMIT)
            if not text:
                # Where the file system has no hard links, the name is there before the content is.
                raise self._error(
                    f"{file.name} is empty", "run this again; if it stays empty, an append was killed: remove the file"
                )
            document = require_kind(loads(text), HISTORY_TABLE)
            return Version(number, read_moment(document["written_at"]), dict(_parts(document["parts"])))
        except VersionError as error:
            problem = f"its format_version is {error.version}, which this version of quotaform does not know"
            raise self._error(problem, "use the version that wrote it, or a newer one") from None
        except FileReadError as error:
            problem = f"{file.name} cannot be read: {error.reason}"
        except (EnvelopeError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            problem = f"{file.name} is not what quotaform writes"
        raise self._error(problem, "restore it, or give another path")

    def _not_written(self, error: OSError) -> HistoryError:
        return self._error(f"it cannot be written: {reason_of(error)}", "it is as it was")

    def _error(self, problem: str, remedy: str) -> HistoryError:
        return HistoryError(str(self.path), problem, remedy)


def _number(folder: str) -> int:
    """Return the number of the version that added a folder."""
    return int(folder.partition("-")[0])


def _parts(parts: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the folders of each part. Raises `ValueError` if a name is not that of a folder of a table."""
    for part in PARTS:
        names = parts[part]
        if not isinstance(names, list) or not all(isinstance(name, str) and _FOLDER(name) for name in names):
            raise ValueError(part)
        yield part, tuple(names)
