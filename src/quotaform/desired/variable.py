"""`${env:NAME}` in the values of quotaform.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quotaform.core.check import rule
from quotaform.desired.report import FileReport, NodePath
from quotaform.model.variable import ReferenceProblem, expand


def expand_variables(report: FileReport, environment: Mapping[str, str]) -> None:
    """Replace references by the values of environment variables, in place and never in messages.

    Args:
        report: Takes a problem for each variable that is not set; its document is changed.
        environment: The variables.
    """
    for path, container, key, text in _texts(report.document.root, ()):
        expansion = expand(text, environment)
        for problem, name in expansion.problems:
            if problem is ReferenceProblem.UNSET:
                broken, message = rule.UNSET_VARIABLE, f"the environment variable {name} is not set; set it"
            else:
                broken, message = rule.BAD_VARIABLE, "only ${env:NAME} is replaced here, and nothing else in ${ }"
            report.at(*path).add(broken, message, container, key)
        container[key] = expansion.text


def _texts(node: Any, path: NodePath) -> Iterator[tuple[NodePath, Any, Any, str]]:
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in pairs:
        if isinstance(value, str):
            yield (*path, key), node, key, value
        else:
            yield from _texts(value, (*path, key))
