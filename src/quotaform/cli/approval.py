"""Asking a person before a cluster is changed by hand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from quotaform.errors import NotApprovedError
from quotaform.interrupt import read_typed_line

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.desired.config import Cluster


def require_confirmed(console: Console, chosen: Cluster, *, auto_approve: bool) -> None:
    """Make sure of a change to a cluster with `confirm: name`, whose name has to be typed.

    Raises `NotApprovedError` if another name was typed, or there is no terminal to ask on.
    """
    if chosen.confirm != "name" or auto_approve:
        return
    if not sys.stdin.isatty():
        raise NotApprovedError(
            [chosen.name],
            f"cluster {chosen.name} requires typing its name (confirm: name), but there is no terminal",
            remedy="use --auto-approve",
        )
    console.write_stderr(f"Type the name of the cluster, {chosen.name}, to change it: ")
    if read_typed_line(sys.stdin).strip() != chosen.name:
        raise NotApprovedError([chosen.name])
