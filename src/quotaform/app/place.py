"""Where a file is from the top of its repository, as annotations name it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """Finds files from the top of a repository.

    Attributes:
        top: The top of the repository.
        here: The folder that paths are relative to.
    """

    top: Path
    here: Path

    def __call__(self, file: str) -> str | None:
        """Return the path of a file from the top of the repository; `None` for one that is outside."""
        path = Path(os.path.normpath(self.here / file))
        return path.relative_to(self.top).as_posix() if path.is_relative_to(self.top) else None
