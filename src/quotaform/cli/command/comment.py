"""`quotaform comment`: show a plan in its pull request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from quotaform.cli.option.common import REQUIRED, argument, choice, flag, option, with_options
from quotaform.cli.option.output import Output
from quotaform.model.errors import ExitCode
from quotaform.review.comment import CommentMode, comment_warnings, render_comment

PLATFORMS: Final = ("github", "gitlab")
"""The module that has them imports HTTP."""


@with_options
def comment(
    *,
    files: list[Path] = argument("FILE...", "Comments, as plan --out markdown=FILE writes them.", REQUIRED),
    mode: str = choice(
        "--mode",
        CommentMode,
        "Update the comment of an earlier run, create it only if there are changes, or always create one.",
        "update",
    ),
    platform: str | None = choice(
        "--platform", PLATFORMS, "Where the pull request is. [default: the CI system of this run]"
    ),
    repository: str | None = option(
        "--repository OWNER/NAME",
        "The repository, or the project of GitLab by path or number. [default: that of this run]",
    ),
    pull_request: str | None = option(
        "--pull-request NUMBER", "The pull request, or merge request. [default: that of this run]"
    ),
    commit: str | None = option(
        "--commit SHA",
        "The commit that was planned; if the pull request has a newer one, nothing is written. "
        "[default: that of this run]",
    ),
    api_url: str | None = option(
        "--api-url URL", "The REST API. [default: GITHUB_API_URL, CI_API_V4_URL, or that of github.com or gitlab.com]"
    ),
    ca_file: Path | None = option("--ca-file FILE", "Trusted certificates, in PEM. [default: those of the system]"),
    dry_run: bool = flag("--dry-run", "Show what would be done; write nothing."),
    output: Output,
) -> int:
    """Write plans as comments to a pull request of GitHub or a merge request of GitLab, one comment per cluster.

    The token is read from QUOTAFORM_COMMENT_TOKEN, or from GITHUB_TOKEN or GITLAB_TOKEN. Only comments of its own user
    are updated. A run of CI without a pull request writes nothing and exits 0; one for an older commit than the newest
    of its pull request writes nothing and exits 5.

    \b
    Examples:
      quotaform plan --out markdown=plan.md
      quotaform comment plan.md
      quotaform comment plans/prod-eu.md plans/lab.md --mode changes-only
      quotaform comment plan.md --platform github --repository acme/quotas --pull-request 7 --dry-run
    """
    from quotaform.review.run import (
        Comments,
        Platform,
        find_pull_request,
        find_token,
        make_transport,
        post_comments,
        read_drafts,
    )

    console = output.console
    drafts = read_drafts(files)
    found = find_pull_request(
        os.environ,
        platform=Platform(platform) if platform else None,
        api_url=api_url,
        repository=repository,
        number=pull_request,
        commit=commit,
    )
    if found is None:
        console.warn("This run is for no pull request; no comment was written.")
        return ExitCode.DONE
    comments = Comments(found, find_token(found.platform, os.environ), make_transport(ca_file))
    code = ExitCode.DONE
    for step in post_comments(comments, drafts, CommentMode(mode), commit=found.commit, is_dry_run=dry_run):
        if step.error is not None:
            code = ExitCode.ERROR
            console.write_stderr(f"Error: {step.draft.name}: {step.error}\n")
        else:
            console.echo(render_comment(step, is_dry_run=dry_run))
            console.warn(*comment_warnings(step))
    return code
