"""What executors take over from the driver's process: its current folder, and the timestamp for its plans."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

from quotaform.app.clock import EPOCH_VARIABLE


@dataclass(frozen=True, slots=True)
class DriverContext:
    """The driver's process, as far as it matters to executors.

    Attributes:
        folder: Its current folder.
        epoch: Its SOURCE_DATE_EPOCH, which makes plan files reproducible.
    """

    folder: str
    epoch: str | None

    @classmethod
    def current(cls) -> DriverContext:
        """Return that of this process."""
        return cls(str(Path.cwd()), os.environ.get(EPOCH_VARIABLE))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this process have the driver's folder, see `inside`, and its time."""
        before = os.environ.pop(EPOCH_VARIABLE, None)
        try:
            if self.epoch is not None:
                os.environ[EPOCH_VARIABLE] = self.epoch
            with inside(self.folder):
                yield
        finally:
            os.environ.pop(EPOCH_VARIABLE, None)
            if before is not None:
                os.environ[EPOCH_VARIABLE] = before


def inside(folder: str | None) -> chdir[str]:
    """Let relative paths, also those in properties files, mean what they mean to the driver; messages keep them.

    Where executors have files of their own the driver's folder may not be there; then it is the executor's.
    """
    return chdir(folder if folder and Path(folder).is_dir() else os.curdir)
