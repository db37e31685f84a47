"""Asking a person to approve a plan."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from quotaform.app.rendering import render
from quotaform.errors import NotApprovedError
from quotaform.interrupt import read_typed_line

if TYPE_CHECKING:
    from quotaform.cli.apply.settings import ApplySettings
    from quotaform.desired.config import Cluster


def show_plan(settings: ApplySettings, plan: Any) -> None:
    """Print what is going to be applied: a plan, or a `StoredResult` of one."""
    if settings.is_text:
        settings.console.echo(render("plan", "text", plan, style=settings.console.style()))
    elif sys.stdin.isatty():
        settings.console.write_stderr("".join(render("plan", "text", plan)))


def ask(settings: ApplySettings, cluster: Cluster) -> None:
    """Ask a person for approval."""
    console = settings.console
    if console.is_lost:
        raise NotApprovedError([cluster.name], "the plan cannot be shown, so it was not approved")
    wanted = cluster.name if cluster.confirm == "name" else "yes"
    question = (
        f"\nApply this plan to cluster {cluster.label}? Nothing is rolled back afterwards.\n"
        f"Only {wanted!r} will be accepted to approve.\n\nEnter a value: "
    )
    write = console.echo if settings.is_text else console.write_stderr
    answer = ""
    try:
        write(question)
        answer = read_typed_line(sys.stdin)
    finally:
        if not answer.endswith("\n"):  # After Ctrl-C or Ctrl-D the cursor is still behind the question.
            write("\n")
    if answer.strip() != wanted:
        raise NotApprovedError([cluster.name])
