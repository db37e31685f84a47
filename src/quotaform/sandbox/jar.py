"""Finds the jars of Apache Kafka in KAFKA_HOME, or downloads them once to the cache.

The content of the cache is pinned: `kafka-4.3.1.sha256` next to this module lists every jar with its SHA-256 checksum.
Only listed jars with the right checksum are stored, and all checksums are verified at each use (45 MB, some 30 ms), so
a damaged cache is detected and downloaded again.
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
from importlib import resources
from pathlib import Path
from typing import Final

from quotaform.errors import SandboxError
from quotaform.sandbox.cache import cache_directory, locked, make_directory
from quotaform.sandbox.progress import Progress, growth_reported, no_progress

KAFKA_VERSION = "4.3.1"

# Kafka's Maven artifact leaves out the SLF4J binding that its release archive ships; without one the
# broker logs nothing, not even why it cannot start. The two are resolved apart: together, the binding's
# dependency management would replace kafka-clients by an older one.
ENDPOINTS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)

# The jars that kafka-run-class.sh leaves off the class path too.
_NOT_RUNTIME = re.compile(r"-(sources|javadoc|test|test-sources|scaladoc)\.jar(\.asc)?$")

_REPOSITORY: Final = "repository"

Fetch = Callable[[Path], Iterable[Path]]


DOWNLOAD_BYTES: Final = 45_000_000
"""The approximate size of the download."""


def find_jars(progress: Progress = no_progress) -> tuple[Path, ...]:
    """Return the jars of Apache Kafka in the order of the class path.

    | KAFKA_HOME | jars |
    | ---------- | ---- |
    | set        | those of `$KAFKA_HOME/libs` |
    | not set    | those of the user's cache, which is filled with `jgo` when it is empty or damaged |

    Args:
        progress: Called with how far a download is.

    Raises:
        SandboxError: They cannot be had.
    """
    if home := os.environ.get("KAFKA_HOME"):
        return _home_jars(Path(home).expanduser().absolute())

    def fetch(directory: Path) -> list[Path]:
        what = f"Downloading Apache Kafka {KAFKA_VERSION} (once, about {DOWNLOAD_BYTES // 1_000_000} MB)"
        with growth_reported(directory / _REPOSITORY, DOWNLOAD_BYTES, what, progress):
            return fetch_with_jgo(directory)

    return cached_jars(cache_directory() / f"kafka-{KAFKA_VERSION}", pinned_sums(), fetch)


def pinned_sums() -> dict[str, str]:
    """Read the SHA-256 sum of each jar, by file name."""
    text = resources.files(__package__).joinpath(f"kafka-{KAFKA_VERSION}.sha256").read_text(encoding="ascii")
    return {name: total for total, name in (line.split() for line in text.splitlines())}


def cached_jars(directory: Path, sums: Mapping[str, str], fetch: Fetch) -> tuple[Path, ...]:
    """Return the jars in `directory`, fetching all of them first if one is missing or damaged.

    Args:
        directory: The jars' place; it is replaced as a whole, never in parts.
        sums: File name to SHA-256 sum of what must be there.
        fetch: Puts jars somewhere below the directory it is given and returns their paths.

    Raises:
        SandboxError: They cannot be fetched, or are not those that were asked for.
    """
    jars = tuple(directory / name for name in sorted(sums))
    if not _is_intact(directory, sums):
        # Two processes may find the cache empty at once: the second waits and then finds it filled.
        with locked(directory.with_name(f"{directory.name}.lock"), patience=600.0):
            if not _is_intact(directory, sums):
                _fill(directory, sums, fetch)
    return jars


def fetch_with_jgo(directory: Path) -> list[Path]:
    """Resolve and download the jars into `directory` with the `jgo` package.

    Raises:
        SandboxError: `jgo` is not installed, or could not download.
    """
    try:
        from jgo.env import EnvironmentBuilder, LinkStrategy
        from jgo.maven import MavenContext
    except ImportError as error:
        raise SandboxError(
            "The sandbox needs the jgo package to fetch Apache Kafka once; "
            'run: pip install "quotaform[sandbox]" (or set KAFKA_HOME to an unpacked Apache Kafka).'
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
            for endpoint in ENDPOINTS:
                environment = builder.from_endpoint(endpoint)
                # jgo sorts jars by whether they are Java modules; the broker wants them all.
                jars += [*environment.path.glob("jars/*.jar"), *environment.path.glob("modules/*.jar")]
    except Exception as error:
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in str(error) or "SSLCertVerificationError" in str(error):
            raise SandboxError(
                f"Apache Kafka {KAFKA_VERSION} could not be downloaded, because a server's certificate is not trusted; "
                "set REQUESTS_CA_BUNDLE to your certificate authorities, or KAFKA_HOME to an unpacked Apache Kafka."
            ) from error
        raise SandboxError(
            f"Apache Kafka {KAFKA_VERSION} could not be downloaded ({type(error).__name__}: {cause}); try again "
            "with a network, or set KAFKA_HOME to an unpacked Apache Kafka."
        ) from error
    return jars


def _fill(directory: Path, sums: Mapping[str, str], fetch: Fetch) -> None:
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
                    f"The download of Apache Kafka {KAFKA_VERSION} is not the expected one: {name} "
                    f"{'is missing' if found is None else 'has another SHA-256 checksum'}; "
                    "try again, or set KAFKA_HOME."
                )
            shutil.copyfile(found, fresh / name)
        shutil.rmtree(directory, ignore_errors=True)
        fresh.rename(directory)


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
