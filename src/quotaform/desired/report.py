"""Collects the problems of one file, with their locations."""

from __future__ import annotations

from typing import Final

from quotaform.core.check import rule
from quotaform.core.check.finding_list import FindingList
from quotaform.desired.yaml.document import Document, Node, StopReadingError, UnclearError
from quotaform.model.finding import Finding, Severity
from quotaform.model.location import Location
from quotaform.model.rule import FindingRule

_ABSENCES: Final = frozenset({rule.MISSING_FIELD.id, rule.EMPTY_FIELD.id, rule.NO_VALUES.id})
"""The rules not reported after reading stopped, because missing parts may come later in the file."""

NodePath = tuple[str | int, ...]
"""The keys and indexes that lead from the root of a document to a node."""


class FileReport:
    """Collects the findings of one document.

    Without recorded places the first finding raises `UnclearError`: the file is then read again with them.

    Attributes:
        covered: The parts that something was found in; the schema's opinion of them is not wanted.
        errors: How many of the findings are errors.
        findings: What was found: the first of it, if it is a lot.
    """

    __slots__ = ("covered", "document", "errors", "findings")

    def __init__(self, document: Document, findings: FindingList | None = None) -> None:
        """Make a report.

        Args:
            findings: Takes what is found, together with what was found before.
        """
        self.document = document
        self.covered: set[NodePath] = set()
        self.errors = 0
        self.findings = FindingList() if findings is None else findings

    def at(self, *path: str | int) -> Part:
        """Return the part of the document at a path, to report what is wrong there."""
        return Part(self, path)

    def covers(self, path: NodePath) -> bool:
        """Whether something was found in a part that holds this path."""
        return any(path[:length] in self.covered for length in range(1, len(path) + 1))

    def add(self, path: NodePath, finding: Finding) -> None:
        """Add a finding about the part at a path.

        Raises `UnclearError` if the document was read without details, and `StopReadingError` if there are more
        problems than are shown.
        """
        if not self.document.is_detailed:
            raise UnclearError
        if finding.severity is Severity.ERROR:
            self.covered.add(path)
            self.errors += 1
        self.add_shape(finding)

    def add_shape(self, finding: Finding) -> None:
        """Add a finding of the schema, which covers nothing.

        Raises `StopReadingError` if there are more problems than are shown.
        """
        if self.document.is_cut and finding.rule in _ABSENCES:
            return
        self.findings.add(finding)
        if self.findings.is_full:
            raise StopReadingError


class Part:
    """A part of a document, and the report that takes what is wrong with it.

    Attributes:
        path: The part: a mistake in it is not reported a second time by the schema.
    """

    __slots__ = ("path", "report")

    def __init__(self, report: FileReport, path: NodePath) -> None:
        self.report = report
        self.path = path

    @property
    def document(self) -> Document:
        """The whole document."""
        return self.report.document

    @property
    def errors(self) -> int:
        """How many errors were found in the whole document."""
        return self.report.errors

    def at(self, *steps: str | int) -> Part:
        """Return a part of this part."""
        return Part(self.report, (*self.path, *steps))

    def add(
        self,
        broken: FindingRule,
        message: str,
        container: Node,
        key: str | int,
        *,
        at_key: bool = False,
        address: str | None = None,
        quota_key: str | None = None,
    ) -> None:
        """Report something about the value (or the key) of a container.

        Raises `UnclearError` if the document was read without details.
        """
        place = self.document.place(container, key)
        location = place.key if at_key else place.value
        self.report.add(self.path, broken.finding(message, address=address, key=quota_key, location=location))

    def add_at(self, broken: FindingRule, message: str, location: Location) -> None:
        """Report something about a place. Raises `UnclearError` if the document was read without details."""
        self.report.add(self.path, broken.finding(message, location=location))
