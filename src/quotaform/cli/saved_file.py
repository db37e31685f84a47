"""Says on stderr where something was saved, as what is printed does not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from quotaform.model.text import inert, listed

if TYPE_CHECKING:
    from quotaform.cli.console import Console


def report_saved_files(console: Console, what: str, paths: Iterable[object]) -> None:
    """Print in one line to stderr where something was saved; nothing if there are no paths, or when quiet.

    Args:
        what: What it is, in singular or plural.
        paths: The files and directories, as they were given.
    """
    names = [inert(str(path)) for path in paths]
    if names:
        console.warn(f"Saved the {what} to: {listed(names)}")
