"""Expands `${env:NAME}` in quotaform.yaml when a cluster is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quotaform.core.check import rule
from quotaform.desired.report import FileReport, NodePath
from quotaform.errors import InvalidFilesError
from quotaform.model.location import Location
from quotaform.model.variable import PLACES, ReferenceProblem, check_references, expand, problem_text

EXPANDED: Final = frozenset({"bootstrap_servers", "command_config"})
"""The fields of a cluster that may hold `${env:NAME}`."""
_RULES: Final = {
    ReferenceProblem.NOT_ALLOWED: rule.FORBIDDEN_VARIABLE,
    ReferenceProblem.UNSET: rule.UNSET_VARIABLE,
}


@dataclass(frozen=True, slots=True)
class Referring:
    """A text of quotaform.yaml with `${env:NAME}` in it.

    Attributes:
        text: As it is written, which is also what messages show.
    """

    text: str
    location: Location

    def expand(self, environment: Mapping[str, str]) -> str:
        """Return the text with its variables replaced, which is a secret.

        Raises `InvalidFilesError` if a variable is not set or may not be read.
        """
        expansion = expand(self.text, environment)
        if expansion.problems:
            raise InvalidFilesError(
                [
                    _RULES.get(problem, rule.BAD_VARIABLE).finding(problem_text(problem, name), location=self.location)
                    for problem, name in expansion.problems
                ]
            )
        return expansion.text


def check_variables(report: FileReport) -> None:
    """Report each `${...}` that is invalid or in a place where it is not expanded, without reading the environment."""
    for path, container, key, text in _texts(report.document.root, ()):
        is_expanded = len(path) > 2 and path[0] == "clusters" and path[2] in EXPANDED
        # Values say it themselves.
        if "${" not in text or path[0] == "profiles":
            continue
        problems = [problem_text(problem, name) for problem, name in check_references(text)]
        if not is_expanded:
            problems = [f"{PLACES}; write the value itself"]
        for message in problems:
            report.at(*path).add(rule.BAD_VARIABLE, message, container, key)


def _texts(node: Any, path: NodePath) -> Iterator[tuple[NodePath, Any, Any, str]]:
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in pairs:
        if isinstance(value, str):
            yield (*path, key), node, key, value
        else:
            yield from _texts(value, (*path, key))
