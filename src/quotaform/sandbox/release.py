"""The releases of Apache Kafka that a sandbox runs, and how starting one differs from the newest.

| since | what the sandbox does with it |
| --- | --- |
| 3.3 | no ZooKeeper: storage is formatted, and the nodes are controllers, too (KIP-833) |
| 3.3 | TLS in a secured sandbox: Kafka 2.8 reads no PEM file whose key has no password |
| 3.5 | SCRAM users are written while storage is formatted (KIP-900); before, all users of a sandbox have PLAIN only |
| 3.9 | voters that may change (KIP-853); before, `controller.quorum.voters` |
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from quotaform.errors import UsageError
from quotaform.java_command import major_version
from quotaform.sandbox.java import Java

VARIABLE: Final = "QUOTAFORM_SANDBOX_KAFKA"


@dataclass(frozen=True, slots=True, order=True)
class Release:
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
    """Return the release that is asked for, by `version` or QUOTAFORM_SANDBOX_KAFKA; `None` if none is.

    Args:
        version: Such as `3.3` or `3.3.2`.

    Raises:
        UsageError: The sandbox has no such release.
    """
    if not (version := version or os.environ.get(VARIABLE)):
        return None
    for release in RELEASES:
        if version in {str(release), release.name}:
            return release
    known = ", ".join(f"{release.name} ({release})" for release in RELEASES)
    raise UsageError(f"The sandbox has no Apache Kafka {version[:20]!a}; it has {known}.")
