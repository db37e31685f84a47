"""The versions of a history in Parquet: which folders make up the table, as a small file that is created once.

A table is a folder:

| path | content |
| --- | --- |
| `versions/00000007.json` | version 7: the folders that it consists of; the highest number is the table |
| `data/00000007-1a2b3c4d/part=open` | rows that are still so |
| `data/00000007-1a2b3c4d/part=closed` | rows that have ended |
| `data/00000007-1a2b3c4d/part=readings` | the snapshots that are known |

An append writes a folder of its own and then creates the file of the next version. Nothing that a version names is ever
changed, so whoever reads sees one version whole, and an append that ends halfway leaves a folder that no version names.
Of two appends that begin with one version one creates the file, and the other fails and can begin again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from json import loads
from pathlib import Path
from re import compile as regex
from secrets import token_hex
from shutil import rmtree
from typing import Any, Final

from quotaform.atomic_file import write_new_text
from quotaform.document.envelope import EnvelopeError, VersionError, envelope, indented, require_kind
from quotaform.errors import FileReadError, HistoryError
from quotaform.files import MIB, read_text, reason_of
from quotaform.model.document_kind import HISTORY_TABLE
from quotaform.model.moment import read_moment, spell_moment

PART: Final = "part"
"""The column by which Spark makes folders of the parts."""
OPEN: Final = "open"
CLOSED: Final = "closed"
READINGS: Final = "readings"
PARTS: Final = (OPEN, CLOSED, READINGS)
_VERSIONS: Final = "versions"
_DATA: Final = "data"
_NAME: Final = regex(r"([0-9]{8})\.json").fullmatch
_FOLDER: Final = regex(r"[0-9]{8}-[0-9a-f]{8}").fullmatch
_LIMIT: Final = 4 * MIB
_KEPT: Final = timedelta(days=1)
"""For how long what a later version has replaced is kept for those who still read it."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table.

    Attributes:
        number: From 1 on; 0 is the table before the first append.
        written_at: When it was written.
        parts: The folders of each part, as in `data/`.
    """

    number: int
    written_at: datetime
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict.fromkeys(PARTS, ()))


class VersionStore:
    """The versions of one table on a file system that this process sees.

    Attributes:
        path: The folder of the table.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def current(self) -> Version:
        """Return the version that is the table.

        Raises:
            HistoryError: The folder is no history, or one that this version of quotaform does not know.
        """
        if not self.path.exists():
            return Version(0, datetime.now(UTC))
        numbers = self._numbers()
        if not numbers:
            if not self.path.is_dir() or any(each.name not in (_VERSIONS, _DATA) for each in self.path.iterdir()):
                raise HistoryError(str(self.path), "it is not a history of quotaform", "give another path")
            return Version(0, datetime.now(UTC))
        return self._read(numbers[-1])

    def new_folder(self, version: Version) -> str:
        """Return the name of a folder for what the next version adds."""
        return f"{version.number + 1:08}-{token_hex(4)}"

    def folder(self, name: str, part: str | None = None) -> Path:
        """Return where what an append added is, or a part of it."""
        folder = self.path.absolute() / _DATA / name
        return folder if part is None else folder / f"{PART}={part}"

    def parts_of(self, name: str) -> frozenset[str]:
        """Return which parts an append has written."""
        return frozenset(part for part in PARTS if self.folder(name, part).is_dir())

    def begin(self) -> None:
        """Make sure that a version can be written, before anything else is done.

        Raises:
            HistoryError: It cannot.
        """
        try:
            (self.path / _VERSIONS).mkdir(parents=True, exist_ok=True)
            (self.path / _DATA).mkdir(exist_ok=True)
            probe = self.path / _DATA / f".quotaform-{token_hex(8)}.tmp"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise HistoryError(
                str(self.path), f"it cannot be written: {reason_of(error)}", "make it writable, or give another path"
            ) from None

    def commit(self, version: Version) -> bool:
        """Make a version the table; return False if another append was faster.

        Raises:
            HistoryError: It cannot be written.
        """
        fields = {"version": version.number, "written_at": spell_moment(version.written_at), "parts": version.parts}
        try:
            write_new_text(self._file(version.number), indented(envelope(HISTORY_TABLE, fields)))
        except FileExistsError:
            return False
        except OSError as error:
            raise HistoryError(str(self.path), f"it cannot be written: {reason_of(error)}", "it is as it was") from None
        return True

    def discard(self, name: str) -> None:
        """Remove a folder that no version names, as far as that is possible."""
        rmtree(self.path / _DATA / name, ignore_errors=True)

    def clean(self, current: Version) -> None:
        """Remove versions that were replaced more than a day ago, and folders that no version names any more."""
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
                self.discard(folder.name)

    def _numbers(self) -> list[int]:
        try:
            names = [each.name for each in (self.path / _VERSIONS).iterdir()]
        except OSError:
            return []
        return sorted(int(match[1]) for name in names if (match := _NAME(name)))

    def _file(self, number: int) -> Path:
        return self.path / _VERSIONS / f"{number:08}.json"

    def _read(self, number: int) -> Version:
        file = self._file(number)
        try:
            document = require_kind(loads(read_text(file, _LIMIT)), HISTORY_TABLE)
            return Version(number, read_moment(document["written_at"]), dict(_parts(document["parts"])))
        except VersionError as error:
            problem = f"its format_version is {error.version}, which this version of quotaform does not know"
            raise HistoryError(str(self.path), problem, "use the version that wrote it, or a newer one") from None
        except FileReadError as error:
            problem = f"{file.name} cannot be read: {error.reason}"
        except (EnvelopeError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            problem = f"{file.name} is not what quotaform writes"
        raise HistoryError(str(self.path), problem, "restore it, or give another path")


def _parts(parts: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the folders of each part.

    Raises:
        ValueError: A name is not that of a folder of a table.
    """
    for part in PARTS:
        names = parts[part]
        if not isinstance(names, list) or not all(isinstance(name, str) and _FOLDER(name) for name in names):
            raise ValueError(part)
        yield part, tuple(names)
