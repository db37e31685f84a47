"""What executors take over from the driver's process: its current folder, and some variables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quotaform.app.clock import EPOCH_VARIABLE
from quotaform.model.server import ALLOWED_HOSTS
from quotaform.model.variable import ALLOW_LIST
from quotaform.spark.session.environment import environment

_SENT: Final = (EPOCH_VARIABLE, ALLOWED_HOSTS, ALLOW_LIST)
"""What makes plan files reproducible, and what the operator allows; `${env:NAME}` itself is the executor's."""


@dataclass(frozen=True, slots=True)
class DriverContext:
    """The driver's process, as far as it matters to executors.

    Attributes:
        variables: Its values of `_SENT`; `None` for one that is not set, but for the hosts that are allowed: without
            them the executor keeps what an administrator has set there.
    """

    folder: str | None
    variables: Mapping[str, str | None]

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
