"""The releases of Apache Kafka that a sandbox runs, and their jars: of KAFKA_HOME, or downloaded once to the cache.

| since | what the sandbox does with it |
| --- | --- |
| 3.3 | no ZooKeeper: storage is formatted, and the nodes are controllers, too (KIP-833) |
| 3.3 | TLS in a secured sandbox: Kafka 2.8 reads no PEM file whose key has no password |
| 3.5 | SCRAM users are written while storage is formatted (KIP-900); before, all users of a sandbox have PLAIN only |
| 3.9 | voters that may change (KIP-853); before, `controller.quorum.voters` |

The cache is pinned: `kafka-4.3.1.sha256` next to this module lists every jar of that release with its SHA-256 checksum
and its path in Maven Central. Only jars with the right checksum are stored, and all checksums are verified at each use
(45 MB, some 30 ms), so a damaged cache is detected and downloaded again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from msgspec import Struct

from quotaform.http.client import Retry, Timeouts, send, send_again
from quotaform.http.message import MIB, HttpRequest, Url
from quotaform.model.errors import HttpError, SandboxError, UsageError
from quotaform.model.outcome import Progress, no_progress
from quotaform.sandbox.cache import cache_directory, locked
from quotaform.sandbox.java import Java
from quotaform.system.executable import major_version

VARIABLE: Final = "QUOTAFORM_SANDBOX_KAFKA"


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
    if not (version := version or os.environ.get(VARIABLE)):
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
_LIMITS: Final = Timeouts(total=120.0)
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
    response = send_again(request, lambda sent: send(sent, _LIMITS), Retry(attempts=3))
    if not response.is_success:
        raise HttpError(_MAVEN.origin, f"answered with status {response.status}", status=response.status)
    return response.body


def _is_intact(directory: Path, sums: Mapping[str, str]) -> bool:
    try:
        return all(_sum(directory / Path(path).name) == total for path, total in sums.items())
    except OSError:
        return False


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


def find_jars(progress: Progress = no_progress, release: Release | None = None) -> tuple[Path, ...]:
    """Return the jars of Apache Kafka in the order of the class path.

    | release  | KAFKA_HOME | jars |
    | -------- | ---------- | ---- |
    | `None`   | set        | those of `$KAFKA_HOME/libs` |
    | `None`   | not set    | the newest release's, in the user's cache |
    | one      | either     | that release's, in the user's cache, which is filled when it is empty or damaged |
    """
    if release is None and (home := os.environ.get("KAFKA_HOME")):
        return _home_jars(Path(home).expanduser().absolute())
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


def find_exporter(progress: Progress = no_progress) -> Path:
    """Return the jar of the Java agent that serves the metrics of a JVM to Prometheus."""
    [jar] = EXPORTER.jars(progress)
    return jar


def _home_jars(home: Path) -> tuple[Path, ...]:
    jars = tuple(sorted(jar for jar in (home / "libs").glob("*.jar") if not _NOT_RUNTIME.search(jar.name)))
    if not any(jar.name.startswith("kafka_2.") for jar in jars):
        raise SandboxError(
            f"KAFKA_HOME is {home}, which has no libs/kafka_2.*.jar; "
            "set it to the directory of an unpacked Apache Kafka, or unset it."
        )
    return jars
