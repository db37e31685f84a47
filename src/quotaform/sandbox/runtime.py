"""Builds the command that runs a class of Apache Kafka: JVM, flags, class path and logging."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quotaform.sandbox.cache import cache_directory
from quotaform.sandbox.java import Java

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


@dataclass(frozen=True, slots=True)
class Runtime:
    """The JVM and the jars, for one data directory."""

    java: Java
    jars: Sequence[Path]
    directory: Path

    @property
    def archive(self) -> Path:
        """The cached class archive of this JVM and these jars (JEP 350); it may not exist yet.

        With it a broker is ready in 1 second instead of 2. The JVM itself checks that it fits and goes on
        without it otherwise.
        """
        parts = [self.java.version, str(self.java.command.resolve())]
        for jar in self.jars:
            status = jar.stat()
            parts.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
        return cache_directory() / f"classes-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:16]}.jsa"

    @property
    def class_path(self) -> str:
        """Return the class path as the JVM takes it."""
        return os.pathsep.join(str(jar) for jar in self.jars)

    def command(
        self, main_class: str, *arguments: str, record: Path | None = None, options: Sequence[str] = ()
    ) -> list[str]:
        """Return the command line that runs `main_class`.

        Args:
            main_class: Such as `kafka.Kafka`.
            arguments: Its arguments.
            record: Where to write a class archive at exit; by default the archive is used instead if it exists.
            options: More options of the JVM.
        """
        sharing: list[str] = []
        if record is not None:
            sharing = [f"-XX:ArchiveClassesAtExit={record}"]
        elif self.archive.exists():
            # Unverified, a damaged archive crashes the JVM; verified, it is left aside.
            sharing = [f"-XX:SharedArchiveFile={self.archive}", "-XX:+VerifySharedSpaces"]
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
            *sharing,
            f"-Djava.io.tmpdir={self.directory / 'tmp'}",
            "-Djava.awt.headless=true",
            *options,
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            "-cp",
            self.class_path,
            main_class,
            *arguments,
        ]
