"""What executors get of the driver: the job with the files of the repository, the folder, and some variables.

It is a zip archive. The content of every file is in it once, however many trees have that file, and is read from it
only where it is needed; so neither the driver nor an executor ever holds all files in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from pickle import Pickler, Unpickler
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

from quotaform.fleet.options import environment
from quotaform.model.server import ALLOWED_HOSTS
from quotaform.model.variable import ALLOW_LIST
from quotaform.system.clock import EPOCH_VARIABLE

_JOB: Final = "job"


class Bundle:
    """The archive."""

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        """Open it."""
        self.path = path
        self._archive = ZipFile(path, "w" if is_new else "r", ZIP_DEFLATED, compresslevel=1)
        self._members = set(self._archive.namelist())

    def keep(self) -> BundledFiles:
        """Return what keeps the files of a tree in the archive, see `Repository.keep`."""
        return BundledFiles(self)

    def add(self, content: bytes) -> str:
        """Put in the content of a file, and return the name by which `read` finds it."""
        name = sha256(content).hexdigest()
        if name not in self._members:
            self._archive.writestr(name, content)
            self._members.add(name)
        return name

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return self._archive.read(name)

    def finish(self, job: object) -> None:
        """Put in the job, and close the archive."""
        content = BytesIO()
        _JobPickler(content, self).dump(job)
        self._archive.writestr(_JOB, content.getvalue())
        self._archive.close()

    def job(self) -> Any:
        """Return the job; its trees read their files from the archive."""
        return _JobUnpickler(BytesIO(self.read(_JOB)), self).load()

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()


class BundledFiles(MutableMapping[str, bytes]):
    """The files of a tree, by their paths; their content is in the archive."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._names: dict[str, str] = {}

    def __getitem__(self, path: str) -> bytes:
        return self._bundle.read(self._names[path])

    def __setitem__(self, path: str, content: bytes) -> None:
        self._names[path] = self._bundle.add(content)

    def __delitem__(self, path: str) -> None:
        del self._names[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _JobPickler(Pickler):
    """Leaves out the archive that the job is in."""

    def __init__(self, file: BytesIO, bundle: Bundle) -> None:
        super().__init__(file)
        self._bundle = bundle

    def persistent_id(self, obj: Any) -> str | None:
        return _JOB if obj is self._bundle else None


class _JobUnpickler(Unpickler):
    """Gives the job the archive that it is in."""

    def __init__(self, file: BytesIO, bundle: Bundle) -> None:
        super().__init__(file)
        self._bundle = bundle

    def persistent_load(self, pid: Any) -> Bundle:
        return self._bundle


_SENT: Final = (EPOCH_VARIABLE, ALLOWED_HOSTS, ALLOW_LIST)
"""What makes plan files reproducible, and what the operator allows; `${env:NAME}` itself is the executor's."""


@dataclass(frozen=True, slots=True)
class DriverContext:
    """The driver's process, as far as it matters to executors."""

    folder: str | None
    variables: Mapping[str, str | None]
    """Its values of `_SENT`; `None` for one that is not set, but for the hosts that are allowed: without them the
    executor keeps what an administrator has set there."""

    @classmethod
    def current(cls, folder: str | None) -> DriverContext:
        """Return that of this process, with a folder; `None` for that of the executor."""
        sent = {name: os.environ.get(name) for name in _SENT if name != ALLOWED_HOSTS or name in os.environ}
        return cls(folder, sent)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this process have the driver's variables, and its folder, see `inside`."""
        with environment(self.variables), inside(self.folder):
            yield


def inside(folder: str | None) -> chdir[str]:
    """Let relative paths, also those in properties files, mean what they mean to the driver; messages keep them.

    Where executors have files of their own the driver's folder may not be there; then it is the executor's.
    """
    return chdir(folder if folder and Path(folder).is_dir() else os.curdir)
