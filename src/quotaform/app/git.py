"""Which commit a directory is at."""

from __future__ import annotations

import subprocess
from pathlib import Path

from quotaform.core.plan import PlanSource


def read_source(directory: Path, config_path: Path) -> PlanSource:
    """Return the directory, its git commit and whether it or quotaform.yaml differs from it.

    There is no commit outside a git repository.
    """
    name = directory.as_posix()
    root = directory if directory.is_dir() else directory.parent
    commit = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if commit is None:
        return PlanSource(directory=name)
    status = _git(root, "status", "--porcelain", "--", ".", str(config_path.absolute()))
    return PlanSource(directory=name, commit=commit, dirty=None if status is None else bool(status))


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(directory), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
