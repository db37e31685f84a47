"""What is found wrong in one file, with its place."""

from __future__ import annotations

from quotaform.desired.yaml.document import Document, Node, UnclearError
from quotaform.model.finding import Finding, Severity
from quotaform.model.location import Location
from quotaform.model.rule import Rule

Path = tuple[str | int, ...]


class Report:
    """Collects the findings of one document.

    Without recorded places the first finding raises `UnclearError`: the file is then read again with them.

    Attributes:
        document: What it is about.
        part: The path to the part of the document that is being judged.
        covered: The parts that something was found in; the schema's opinion of them is not wanted.
        errors: How many of the findings are errors.
    """

    __slots__ = ("covered", "document", "errors", "findings", "part")

    def __init__(self, document: Document) -> None:
        self.document = document
        self.part: Path = ()
        self.covered: set[Path] = set()
        self.errors = 0
        self.findings: list[Finding] = []

    def say(
        self,
        rule: Rule,
        message: str,
        container: Node,
        key: str | int,
        *,
        at_key: bool = False,
        address: str | None = None,
        quota_key: str | None = None,
    ) -> None:
        """Report something about the value (or the key) of a container."""
        place = self.document.place(container, key)
        self.add(
            rule.finding(
                message,
                address=address,
                key=quota_key,
                location=place.key if at_key else place.value,
            )
        )

    def say_at(self, rule: Rule, message: str, location: Location) -> None:
        """Report something about a place."""
        self.add(rule.finding(message, location=location))

    def add(self, finding: Finding) -> None:
        """Report something about the part that is being judged.

        Raises:
            UnclearError: The document was read without details.
        """
        if not self.document.is_detailed:
            raise UnclearError
        if finding.severity is Severity.ERROR:
            self.covered.add(self.part)
            self.errors += 1
        self.findings.append(finding)

    def covers(self, path: Path) -> bool:
        """Whether something was found in a part that holds this path."""
        return any(path[:length] in self.covered for length in range(1, len(path) + 1))
