"""Client properties by key, with expanded variables, locations and problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from quotaform.cluster.client.config_provider import ConfigProviders
from quotaform.cluster.client.java_properties import Property
from quotaform.cluster.client.property_key import is_word
from quotaform.core.check import rule
from quotaform.core.check.finding_list import MAX_PROBLEMS
from quotaform.errors import FileReadError
from quotaform.files import read_bytes, trusted_folder
from quotaform.model.finding import Finding
from quotaform.model.location import Location


class ClientProperties:
    """Returns values and collects problems; a later property overrides an earlier one with the same key.

    A variable is looked up when the value is asked for: one that nobody asks for needs no variable. No problem holds a
    value, unless it is a number or a word that stands for itself: a value may be a secret that took a wrong place.
    """

    def __init__(
        self,
        properties: Iterable[Property],
        environ: Mapping[str, str],
        *,
        source: Location,
        folder: Path | None = None,
        repository: Path | None = None,
        within: Path | None = None,
        problems: Iterable[Finding] = (),
    ) -> None:
        """Take the properties that count.

        Args:
            properties: In their order.
            environ: The variables for `${env:NAME}`.
            source: The place of what is missing.
            folder: Where files may lie that are named relatively and are not in the working folder.
            repository: The folder that links of these files must not lead out of, if a repository named the properties.
            within: The only folder whose files a `${...}` may name (`quotaform.cluster.client.config_provider`).
            problems: What was found already.
        """
        self.problems = list(problems)
        self.folder = folder
        self.repository = repository
        self.within = within
        self.environ = environ
        self._source = source
        self._written = {each.key: each for each in properties}
        settings = {key: self.written(key) for key in self._written}
        self._providers = ConfigProviders(settings, environ, folder or Path(), within)
        self._values: dict[str, str | None] = {}

    @property
    def keys(self) -> list[str]:
        """All keys, in their order."""
        return list(self._written)

    def has(self, key: str) -> bool:
        """Whether a key has a value that is not empty, or one that cannot be known for a missing variable."""
        return key in self._written and self.get(key) != ""

    def get(self, key: str) -> str | None:
        """Return a value with its variables replaced; `None` for none, and for one that cannot be known.

        White space around it does not count, as in Kafka's `ConfigDef`; a `${` that names no source stays as it is.
        """
        if key not in self._written:
            return None
        if key not in self._values:
            written = self._written[key]
            text, problems = self._providers.expand(written.value)
            for problem in problems[:MAX_PROBLEMS]:
                self.add(f"{key}: {problem}", written.location)
            self._values[key] = None if problems else text.strip()
        return self._values[key]

    def written(self, key: str) -> str:
        """Return a value as it is written, its variables not replaced."""
        return self._written[key].value.strip()

    @property
    def is_full(self) -> bool:
        """Whether no more problems are taken."""
        return len(self.problems) > MAX_PROBLEMS

    def is_line(self, key: str) -> bool:
        """Whether a key was read from a line of a file."""
        return bool(self._written[key].location.line)

    def spell(self, key: str) -> str:
        """Return what messages call a property: with its value when that cannot be a secret."""
        value = self.written(key)
        return f"{key}={value}" if is_word(value) else f"the value of {key}"

    def inside(self, key: str, values: Mapping[str, str]) -> ClientProperties:
        """Return properties that the expanded value of a key consists of; their problems are those of the key."""
        place = self._written[key].location
        properties = [Property(name, value, place) for name, value in values.items()]
        inner = ClientProperties(
            properties, {}, source=place, folder=self.folder, repository=self.repository, within=self.within
        )
        inner.problems = self.problems
        # Kafka expands a value once; what a provider returned is no reference.
        inner._values = {name: value.strip() for name, value in values.items()}
        return inner

    def read_file(self, key: str, value: str, limit: int, names: str) -> tuple[Path, bytes] | None:
        """Return the file that a value names, relative to the working folder or else to the properties file.

        `None` after a problem was reported.

        Args:
            key: The key that problems belong to.
            value: The path.
            limit: The most bytes that it may have.
            names: What the sentence of a problem begins with, such as `ssl.truststore.location names a file`.
        """
        written = Path(value).expanduser() if value.startswith("~/") else Path(value)
        places = [written]
        if not written.is_absolute() and self.folder is not None:
            places.append(self.folder / written)
        for place in places:
            within = None if self.repository is None else trusted_folder(place, self.repository)
            try:
                return place.absolute(), read_bytes(place, limit, within=within)
            except FileReadError as error:
                if not error.is_missing:
                    self.report(key, f"{names} that cannot be read: {error.reason}")
                    return None
        nowhere = (
            "exists neither in the current directory nor next to this file" if len(places) > 1 else "does not exist"
        )
        self.report(key, f"{names} that {nowhere}")
        return None

    def report(self, key: str, message: str) -> None:
        """Add a problem with a key."""
        written = self._written.get(key)
        self.add(message, written.location if written else self._source)

    def add(self, message: str, location: Location) -> None:
        """Add a problem at a place, unless there are very many."""
        add_problem(self.problems, message, location)


def add_problem(problems: list[Finding], message: str, location: Location) -> None:
    """Add a problem with client properties; of very many the first are enough."""
    if len(problems) == MAX_PROBLEMS:
        message, location = "there are more problems; correct these first", Location(location.file)
    if len(problems) <= MAX_PROBLEMS:
        problems.append(rule.CLIENT_PROPERTIES.finding(message, location=location))
