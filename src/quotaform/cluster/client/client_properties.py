"""Client properties by key, their variables expanded, with the place of each and the problems found in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from quotaform.cluster.client.java_properties import Property
from quotaform.core.check import rule
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.variable import ReferenceProblem, expand


class ClientProperties:
    """Hands out values and gathers problems; a later property wins over an earlier one of the same key."""

    def __init__(
        self,
        properties: Iterable[Property],
        environ: Mapping[str, str],
        *,
        source: Location,
        folder: Path | None = None,
        repository: Path | None = None,
        problems: Iterable[Finding] = (),
    ) -> None:
        """Expand the variables of the properties that count.

        Args:
            properties: In their order.
            environ: The variables for `${env:NAME}`.
            source: The place of what is missing.
            folder: Where files may lie that are named relatively and are not in the working folder.
            repository: The folder that links of these files must not lead out of, if a repository named the properties.
            problems: What was found already.
        """
        self.problems = list(problems)
        self.folder = folder
        self.repository = repository
        self._source = source
        self._written = {each.key: each for each in properties}
        self._values: dict[str, str | None] = {}
        for key, written in self._written.items():
            self._values[key] = self._expand(written, environ)

    def _expand(self, written: Property, environ: Mapping[str, str]) -> str | None:
        """Return a value with its variables replaced; `None` after reporting one that cannot be.

        This is what Kafka's own EnvVarConfigProvider does; a `${` that names no source stays as it is.
        """
        expansion = expand(written.value, environ)
        problems = [each for each in expansion.problems if each[0] is not ReferenceProblem.NOT_A_REFERENCE]
        for problem, name in problems:
            self.add(_reference_text(problem, written.key, name), written.location)
        return None if problems else expansion.text

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


def _reference_text(problem: ReferenceProblem, key: str, name: str) -> str:
    if problem is ReferenceProblem.OTHER_SOURCE:
        return f"{key} holds a ${{…}} that is no ${{env:NAME}}; only environment variables are expanded"
    if problem is ReferenceProblem.UNSET:
        return f"{key} needs the environment variable {name}, which is not set"
    return f"{key} holds an ${{env:…}} whose name is not that of an environment variable"
