"""Expands `${env:NAME}` in quotaform.yaml and client properties.

A pull request must not be able to choose which variables are read, so only those are expanded that the operator lists
in the environment variable `QUOTAFORM_ENV`. The environment is an argument. Values of variables are secret: messages
show the reference as written, never the expanded text.
"""

# ruff: noqa: S105 (names of variables)
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from re import Match
from re import compile as regex
from typing import Final

from quotaform.model import rule
from quotaform.model.rule import FindingRule

PREFIX: Final = "${env:"
"""How a reference to a variable begins."""
ALLOW_LIST: Final = "QUOTAFORM_ENV"
"""The variable that names those that may be expanded, separated by commas."""


class OwnSecret(StrEnum):
    """The variables from which quotaform reads secrets and the names that belong to them, as that of a user.

    All of its code takes their names from here.

    None of them is part of a connection to Kafka, so they are never expanded, even if the operator lists them.
    """

    COMMENT_TOKEN = "QUOTAFORM_COMMENT_TOKEN"
    GITHUB_TOKEN = "GITHUB_TOKEN"
    GITLAB_TOKEN = "GITLAB_TOKEN"
    NOTIFY_SECRET = "QUOTAFORM_NOTIFY_SECRET"
    NOTIFY_URL = "QUOTAFORM_NOTIFY_URL"
    PROMETHEUS_PASSWORD = "QUOTAFORM_PROMETHEUS_PASSWORD"
    PROMETHEUS_TENANT = "QUOTAFORM_PROMETHEUS_TENANT"
    PROMETHEUS_TOKEN = "QUOTAFORM_PROMETHEUS_TOKEN"
    PROMETHEUS_USER = "QUOTAFORM_PROMETHEUS_USER"
    SPARK_CONNECT_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
    SPARK_REMOTE = "SPARK_REMOTE"
    TOKEN_COMMAND = "QUOTAFORM_TOKEN_COMMAND"


_OWN_SECRETS: Final = frozenset(map(str, OwnSecret))

PLACES: Final = "${env:NAME} is expanded only in bootstrap_servers and command_config of quotaform.yaml"
"""Where else than in client properties it is replaced, for messages about other places."""

REFERENCE: Final = regex(r"\$\{([^}]*)(\}?)")
"""A `${...}`: one match takes everything up to the next brace, so that no text is gone over twice."""
_NAME: Final = regex(r"[A-Za-z_][A-Za-z0-9_]{0,199}").fullmatch
# Somebody may have written the value itself in the place of the name, so only what looks like a name is shown.
_USUAL_NAME: Final = regex(r"[A-Z][A-Z0-9_]{0,99}").fullmatch


@dataclass(frozen=True, slots=True)
class Expansion:
    """A text with its variables expanded, which may contain a secret and is never shown."""

    text: str = field(repr=False)  # the text; what was not replaced is in it as it was written
    # Why something was not replaced, with the remedy and the rule of that, in the order of the text
    problems: tuple[tuple[FindingRule, str], ...] = ()


def expand(text: str, environment: Mapping[str, str]) -> Expansion:
    """Replace every `${env:NAME}` by the value of the variable; what comes from a variable is not expanded again.

    >>> expand("${env:HOST}:9092", {"QUOTAFORM_ENV": "HOST,PORT"}).problems[0][1]
    'the environment variable HOST is not set; set it'
    >>> expand("${env:HOST}:9092", {"HOST": "b1", "QUOTAFORM_ENV": "HOST,PORT"}).text
    'b1:9092'
    """
    if "${" not in text:
        return Expansion(text)
    problems: list[tuple[FindingRule, str]] = []
    allowed = {name.strip() for name in environment.get(ALLOW_LIST, "").split(",")}

    def replace(match: Match[str]) -> str:
        if (problem := _check(match, environment, allowed)) is None:
            return environment[match[1].partition(":")[2]]
        problems.append(problem)
        return match[0]

    expanded = REFERENCE.sub(replace, text)
    return Expansion(expanded, tuple(problems))


def _check(
    match: Match[str], environment: Mapping[str, str], allowed: Collection[str]
) -> tuple[FindingRule, str] | None:
    source, colon, name = match[1].partition(":")
    name = name if colon else source
    shown, example = (name, name) if _USUAL_NAME(name) else ("that ${env:…} names", "NAME")
    if source != "env" or not colon or not match[2] or not _NAME(name):
        # `${NAME}`, `${env:NAME`, `${file:NAME}`, `${env:1}`
        return rule.BAD_VARIABLE, f"only ${{env:NAME}} is expanded; write ${{env:{example}}}"
    if name in _OWN_SECRETS:
        problem = f"{name} contains a secret that is not part of a connection; use another variable"
        return rule.FORBIDDEN_VARIABLE, f"the environment variable {problem}"
    if name not in allowed:  # Whether there is such a variable or not.
        return rule.FORBIDDEN_VARIABLE, (
            f"the environment variable {shown} may not be read; the operator must list it in {ALLOW_LIST}: set the "
            f"environment variable {ALLOW_LIST}={example} (names separated by commas)"
        )
    return (
        None if name in environment else (rule.UNSET_VARIABLE, f"the environment variable {shown} is not set; set it")
    )


def check_references(text: str) -> list[str]:
    """Return what is wrong with the references of a text in any environment."""
    found = filter(None, (_check(match, {}, ()) for match in REFERENCE.finditer(text)))
    return [problem for row, problem in found if row is rule.BAD_VARIABLE]
