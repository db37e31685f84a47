"""Finds the jars of Apache Kafka in KAFKA_HOME, or downloads them once to the cache; and the exporter of its metrics.

The content of the cache is pinned: `kafka-4.3.1.sha256` next to this module lists every jar of that release with its
SHA-256 checksum. Only listed jars with the right checksum are stored, and all checksums are verified at each use (45
MB, some 30 ms), so a damaged cache is detected and downloaded again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from quotaform.errors import SandboxError, missing_extra
from quotaform.sandbox.cache import cache_directory, locked, make_directory
from quotaform.sandbox.progress import Progress, growth_reported, no_progress
from quotaform.sandbox.release import NEWEST, Release

KAFKA_VERSION: Final = str(NEWEST)

# The jars that kafka-run-class.sh leaves off the class path too.
_NOT_RUNTIME = re.compile(r"-(sources|javadoc|test|test-sources|scaladoc)\.jar(\.asc)?$")

_BROKER_JAR: Final = re.compile(r"kafka_2\.1\d-(\d+(?:\.\d+)+).*\.jar").fullmatch

_REPOSITORY: Final = "repository"

Fetch = Callable[[Path], Iterable[Path]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """What is downloaded together from Maven.

    Attributes:
        title: What messages call it.
        name: The name of its directory in the cache, and of the file with its checksums.
        endpoints: What is resolved, as group:artifact:version.
        has_dependencies: Whether what these jars depend on is downloaded, too.
        size: The approximate size of the download in bytes.
        otherwise: What to do when it cannot be downloaded.
    """

    title: str
    name: str
    endpoints: tuple[str, ...]
    size: int
    otherwise: str
    has_dependencies: bool = False

    @property
    def sums(self) -> dict[str, str]:
        """The SHA-256 sum of each jar, by file name."""
        text = resources.files(__package__).joinpath(f"{self.name}.sha256").read_text(encoding="ascii")
        return {name: total for total, name in (line.split() for line in text.splitlines())}

    def jars(self, progress: Progress) -> tuple[Path, ...]:
        """Return its jars in the user's cache, which is filled with `jgo` when it is empty or damaged.

        Raises:
            SandboxError: They cannot be had.
        """

        def fetch(directory: Path) -> list[Path]:
            what = f"Downloading {self.title} (once, about {self.size / 1_000_000:.0f} MB)"
            with growth_reported(directory / _REPOSITORY, self.size, what, progress):
                return fetch_with_jgo(directory, self)

        return cached_jars(cache_directory() / self.name, self.sums, fetch, self)


def kafka_download(release: Release) -> Download:
    """Return what the broker of a release needs; that of 2.8 has ZooKeeper with it."""
    return Download(
        title=f"Apache Kafka {release}",
        name=f"kafka-{release}",
        # Kafka's Maven artifact leaves out the SLF4J binding that its release archive ships; without one the broker
        # logs nothing, not even why it cannot start. The two are resolved apart: together, the binding's dependency
        # management would replace kafka-clients by an older one. The binding is the same for the releases before 4.0,
        # whose archives have Log4j 1: all of them write to SLF4J.
        endpoints=(f"org.apache.kafka:kafka_2.13:{release}", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"),
        has_dependencies=True,
        size=45_000_000,
        otherwise="set KAFKA_HOME to an unpacked Apache Kafka",
    )


KAFKA: Final = kafka_download(NEWEST)

TOOLS: Final = Download(
    title=f"the tools of Apache Kafka {KAFKA_VERSION}",
    name=f"kafka-tools-{KAFKA_VERSION}",
    endpoints=(f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",),
    size=700_000,
    otherwise=KAFKA.otherwise,
)
"""Without their dependencies: those of JmxTool are jars of the broker."""

EXPORTER: Final = Download(
    title="the Prometheus JMX exporter 1.0.1",
    name="jmx-exporter-1.0.1",
    endpoints=("io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1",),
    size=3_000_000,
    otherwise="start the sandbox without metrics",
)


def find_jars(progress: Progress = no_progress, release: Release | None = None) -> tuple[Path, ...]:
    """Return the jars of Apache Kafka in the order of the class path.

    | release  | KAFKA_HOME | jars |
    | -------- | ---------- | ---- |
    | `None`   | set        | those of `$KAFKA_HOME/libs` |
    | `None`   | not set    | the newest release's, in the user's cache |
    | one      | either     | that release's, in the user's cache, which `jgo` fills when it is empty or damaged |

    Args:
        progress: Called with how far a download is.
        release: Which release is asked for, if any.

    Raises:
        SandboxError: They cannot be had.
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
    """Return the jars that Kafka's commands need, such as `JmxTool`: those of the broker, and those of the tools.

    Args:
        progress: Called with how far a download is.

    Raises:
        SandboxError: They cannot be had.
    """
    jars = find_jars(progress)
    return jars if os.environ.get("KAFKA_HOME") else (*jars, *TOOLS.jars(progress))


def find_exporter(progress: Progress = no_progress) -> Path:
    """Return the jar of the Java agent that serves the metrics of a JVM to Prometheus.

    Args:
        progress: Called with how far a download is.

    Raises:
        SandboxError: It cannot be had.
    """
    [jar] = EXPORTER.jars(progress)
    return jar


def cached_jars(directory: Path, sums: Mapping[str, str], fetch: Fetch, download: Download = KAFKA) -> tuple[Path, ...]:
    """Return the jars in `directory`, fetching all of them first if one is missing or damaged.

    Args:
        directory: The jars' place; it is replaced as a whole, never in parts.
        sums: File name to SHA-256 sum of what must be there.
        fetch: Puts jars somewhere below the directory it is given and returns their paths.
        download: What is fetched, for messages.

    Raises:
        SandboxError: They cannot be fetched, or are not those that were asked for.
    """
    jars = tuple(directory / name for name in sorted(sums))
    if not _is_intact(directory, sums):
        # Two processes may find the cache empty at once: the second waits and then finds it filled.
        with locked(directory.with_name(f"{directory.name}.lock"), patience=600.0):
            if not _is_intact(directory, sums):
                _fill(directory, sums, fetch, download)
    return jars


def fetch_with_jgo(directory: Path, download: Download = KAFKA) -> list[Path]:
    """Resolve and download the jars of `download` into `directory` with the `jgo` package.

    Raises:
        SandboxError: `jgo` is not installed, or could not download.
    """
    try:
        from jgo.env import EnvironmentBuilder, LinkStrategy
        from jgo.maven import MavenContext
    except ImportError as error:
        raise SandboxError(
            f"The sandbox needs the jgo package to fetch {download.title} once: {missing_extra('sandbox')} "
            f"(or {download.otherwise})."
        ) from error
    jars: list[Path] = []
    try:
        # stdout belongs to the command's result.
        with warnings.catch_warnings(), redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            # A repository of its own: jars linked to a shared one would share its damage.
            context = MavenContext(repo_cache=directory / _REPOSITORY, timeout=60)
            builder = EnvironmentBuilder(
                context=context, cache_dir=directory / "environments", link_strategy=LinkStrategy.AUTO
            )
            for endpoint in download.endpoints:
                if not download.has_dependencies:
                    group, artifact, version = endpoint.split(":")
                    jars.append(context.project(group, artifact).at_version(version).artifact().resolve())
                    continue
                environment = builder.from_endpoint(endpoint)
                # jgo sorts jars by whether they are Java modules; the broker wants them all.
                jars += [*environment.path.glob("jars/*.jar"), *environment.path.glob("modules/*.jar")]
    except Exception as error:
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in str(error) or "SSLCertVerificationError" in str(error):
            raise SandboxError(
                f"{_capital(download.title)} could not be downloaded, because a server's certificate is not trusted; "
                f"set REQUESTS_CA_BUNDLE to your certificate authorities, or {download.otherwise}."
            ) from error
        raise SandboxError(
            f"{_capital(download.title)} could not be downloaded ({type(error).__name__}: {cause}); try again "
            f"with a network, or {download.otherwise}."
        ) from error
    return jars


def _fill(directory: Path, sums: Mapping[str, str], fetch: Fetch, download: Download) -> None:
    """Replace the cache by freshly fetched and checked jars, as a whole."""
    make_directory(directory.parent)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as scratch:
        fetched = {jar.name: jar for jar in fetch(Path(scratch)) if jar.name in sums}
        fresh = Path(scratch) / "jars"
        fresh.mkdir()
        for name, total in sums.items():
            found = fetched.get(name)
            if found is None or _sum(found) != total:
                raise SandboxError(
                    f"The download of {download.title} is not the expected one: {name} "
                    f"{'is missing' if found is None else 'has another SHA-256 checksum'}; "
                    f"try again, or {download.otherwise}."
                )
            shutil.copyfile(found, fresh / name)
        shutil.rmtree(directory, ignore_errors=True)
        fresh.rename(directory)


def _capital(title: str) -> str:
    return title[0].upper() + title[1:]


def _is_intact(directory: Path, sums: Mapping[str, str]) -> bool:
    try:
        return all(_sum(directory / name) == total for name, total in sums.items())
    except OSError:
        return False


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _home_jars(home: Path) -> tuple[Path, ...]:
    jars = tuple(sorted(jar for jar in (home / "libs").glob("*.jar") if not _NOT_RUNTIME.search(jar.name)))
    if not any(jar.name.startswith("kafka_2.") for jar in jars):
        raise SandboxError(
            f"KAFKA_HOME is {home}, which has no libs/kafka_2.*.jar; "
            "set it to the directory of an unpacked Apache Kafka, or unset it."
        )
    return jars
