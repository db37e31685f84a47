"""The commands of this machine that quotaform runs; never one that lies in a repository."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_executable(name: str, *, outside: Path | None = None) -> Path | None:
    """Return the first command of this name on the PATH.

    Relative folders of the PATH (`.`, an empty one) are left out: they would lead into whatever folder one stands in,
    and a pull request can put a command there.

    Args:
        outside: A folder whose commands are left out too, and those of the folders in it.
    """
    for folder in os.get_exec_path():
        path = Path(folder)
        if not path.is_absolute() or (outside is not None and Path(os.path.realpath(path)).is_relative_to(outside)):
            continue
        if found := shutil.which(name, path=folder):
            return Path(found)
    return None
