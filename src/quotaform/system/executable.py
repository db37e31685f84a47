"""The commands of this machine that quotaform runs, `java` among them; never one of a repository.

`java` commands come in the order in which every start script looks for them. Their users decide what they require: the
sandbox any runtime of version 17 or newer, Spark a full JDK.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


def find_executable(name: str, *, outside: Path | None = None) -> Path | None:
    """Return the first command of this name on the PATH.

    Relative folders of the PATH (`.`, an empty one) are left out: they would lead into whatever folder one stands in,
    and a pull request can put a command there.

    `outside`: a folder whose commands are left out too, and those of the folders in it.
    """
    for folder in os.get_exec_path():
        path = Path(folder)
        if not path.is_absolute() or (outside is not None and Path(os.path.realpath(path)).is_relative_to(outside)):
            continue
        if found := shutil.which(name, path=folder):
            return Path(found)
    return None


def find_java_commands() -> Iterator[tuple[str, Path]]:
    """Yield the `java` of JAVA_HOME, then the one on the PATH, each after where it is from; it may not exist or run."""
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := find_executable("java"):
        yield "PATH", on_path


def ask_java(path: Path, argument: str) -> subprocess.CompletedProcess[str] | None:
    """Run a `java` with an argument such as `-version` and return what it printed, `None` if it does not run."""
    try:
        return subprocess.run(  # noqa: S603 (the user's own java)
            [path, argument], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def major_version(version: str) -> int:
    """Return the major number of a version, 0 if it has none.

    >>> major_version("17.0.15"), major_version("25-ea"), major_version("1.8.0_402"), major_version("")
    (17, 25, 8, 0)
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    # Java 8 calls itself 1.8.
    return numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else (numbers or [0])[0]
