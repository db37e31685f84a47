"""Who runs this process: the user, and the job of a CI system, as the environment says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from getpass import getuser
from os import environ
from re import compile as regex
from typing import Final

from quotaform.plan.receipt import Run

_LONGEST: Final = 500
"""How many characters of a variable are kept."""
_ADDRESS: Final = regex(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[!-~]*)?").fullmatch


@dataclass(frozen=True, slots=True)
class Applier:
    """Who applies plans."""

    name: str  # The user, as the operating system says
    run: Run | None  # The job of a CI system, if it is one

    @classmethod
    def current(cls) -> Applier:
        """Return who runs this process."""
        return cls(current_user(), read_run())


def current_user() -> str:
    """Return the user, as the operating system says."""
    try:
        return getuser()
    except (KeyError, OSError):
        return "unknown"


def read_run(variables: Mapping[str, str] = environ) -> Run | None:
    """Return the job that this process is part of; `None` outside of the known CI systems.

    The variables are text that anybody may have set: they are cut, and what is no web address is left out.

    >>> read_run({"GITLAB_CI": "true", "CI_JOB_URL": "https://gitlab.example/a/-/jobs/7", "GITLAB_USER_LOGIN": "ann"})
    Run(system='gitlab', url='https://gitlab.example/a/-/jobs/7', actor='ann')
    """
    if variables.get("GITHUB_ACTIONS") == "true":
        server, repository, number = (
            variables.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")
        )
        url = f"{server}/{repository}/actions/runs/{number}" if server and repository and number else ""
        actor = variables.get("GITHUB_TRIGGERING_ACTOR") or variables.get("GITHUB_ACTOR", "")
        return Run(system="github", url=_address(url), actor=_word(actor))
    if variables.get("GITLAB_CI") == "true":
        url, actor = variables.get("CI_JOB_URL", ""), variables.get("GITLAB_USER_LOGIN", "")
        return Run(system="gitlab", url=_address(url), actor=_word(actor))
    return None


def _word(text: str) -> str | None:
    return text[:_LONGEST] or None


def _address(text: str) -> str | None:
    """Return a web address; one that is too long, or holds credentials, is none."""
    return text if len(text) <= _LONGEST and _ADDRESS(text) else None
