"""Client properties by key, with the place of each and the problems found in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from quotaform.cluster.client.properties import Property, expand
from quotaform.core.check import rule
from quotaform.model.finding import Finding
from quotaform.model.location import Location


class PropertiesReader:
    """Hands out values and gathers problems; a later property wins over an earlier one of the same key."""

    def __init__(
        self,
        properties: Iterable[Property],
        environ: Mapping[str, str],
        *,
        source: Location,
        folder: Path | None = None,
        problems: Iterable[Finding] = (),
    ) -> None:
        """Expand the variables of the properties that count.

        Args:
            properties: In their order.
            environ: The variables for `${env:NAME}`.
            source: The place of what is missing.
            folder: Where files may lie that are named relatively and are not in the working folder.
            problems: What was found already.
        """
        self.problems = list(problems)
        self.folder = folder
        self._source = source
        self._written = {each.key: each for each in properties}
        self._values: dict[str, str | None] = {}
        for key, written in self._written.items():
            self._values[key] = expand(written, environ, self.add)

    @property
    def keys(self) -> list[str]:
        """All keys, in their order."""
        return list(self._written)

    def has(self, key: str) -> bool:
        """Whether a key has a value that is not empty, or one that cannot be known for a missing variable."""
        return key in self._values and self._values[key] != ""

    def get(self, key: str) -> str | None:
        """Return a value; `None` for none."""
        return self._values.get(key)

    def is_line(self, key: str) -> bool:
        """Whether a key was read from a line of a file."""
        return bool(self._written[key].location.line)

    def report(self, key: str, message: str) -> None:
        """Add a problem with a key; the message never holds the value of a secret."""
        written = self._written.get(key)
        self.add(message, written.location if written else self._source)

    def add(self, message: str, location: Location) -> None:
        """Add a problem at a place."""
        self.problems.append(rule.CLIENT_PROPERTIES.finding(message, location=location))
