"""`${env:NAME}` in the values of quotaform.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from re import compile as regex
from typing import Any, Final

from quotaform.core.check import rule
from quotaform.desired.report import FileReport, NodePath

VARIABLE: Final = "${env:"
"""How a reference begins."""

_REFERENCE = regex(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_ANY = regex(r"\$\{[^}]*\}?")


def expand_variables(report: FileReport, environment: Mapping[str, str]) -> None:
    """Replace references by the values of environment variables, in place and never in messages.

    Args:
        report: Takes a problem for each variable that is not set; its document is changed.
        environment: The variables.
    """
    for path, container, key, text in _texts(report.document.root, ()):
        if "${" not in text:
            continue
        part = report.at(*path)
        for reference in _ANY.findall(text):
            named = _REFERENCE.fullmatch(reference)
            if named is None:
                part.add(
                    rule.BAD_VARIABLE, "only ${env:NAME} is replaced here, and nothing else in ${ }", container, key
                )
            elif named[1] not in environment:
                part.add(rule.UNSET_VARIABLE, f"the environment variable {named[1]} is not set; set it", container, key)
        container[key] = _REFERENCE.sub(lambda found: environment.get(found[1], found[0]), text)


def _texts(node: Any, path: NodePath) -> Iterator[tuple[NodePath, Any, Any, str]]:
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in pairs:
        if isinstance(value, str):
            yield (*path, key), node, key, value
        else:
            yield from _texts(value, (*path, key))
