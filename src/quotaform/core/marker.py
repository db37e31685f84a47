"""The hidden first line of a comment, by which it is found again: how it is written and how it is read.

`<!-- quotaform:plan {"v":1,"cluster":"prod-eu","root":"quotas.d","changes":2} -->`. Comments with the same kind,
cluster and root show the same thing at different times. `changes` is 0 when there is nothing to review.
"""

from __future__ import annotations

from dataclasses import dataclass
from json import dumps, loads
from re import compile as regex
from typing import Any, Final

_VERSION: Final = 1
_LINE: Final = regex(r"<!-- quotaform:([a-z][a-z-]{0,30}) (\{.{0,4096}\}) -->").fullmatch


@dataclass(frozen=True, slots=True)
class Marker:
    """What a comment shows.

    Attributes:
        kind: `plan`, `drift` and so on.
        root: The quotas directory.
    """

    kind: str
    cluster: str
    root: str

    def line(self, changes: int | None = None) -> str:
        r"""Return the first line of the comment, which no name can end.

        >>> print(Marker("plan", "a-->b", "quotas.d").line(2))
        <!-- quotaform:plan {"v":1,"cluster":"a-\u002d\u003eb","root":"quotas.d","changes":2} -->

        Args:
            changes: How many entities there are to review; `None` where there is something else to read.
        """
        values: dict[str, str | int] = {"v": _VERSION, "cluster": self.cluster, "root": self.root}
        if changes is not None:
            values["changes"] = changes
        content = dumps(values, separators=(",", ":"))
        content = content.replace("<", "\\u003c").replace(">", "\\u003e").replace("--", "-\\u002d")
        return f"<!-- quotaform:{self.kind} {content} -->"


def read_marker(body: str) -> Marker | None:
    """Return what a comment shows; `None` when its first line is no marker that this version knows.

    >>> read_marker('<!-- quotaform:plan {"v":1,"cluster":"lab","root":"quotas.d"} -->')
    Marker(kind='plan', cluster='lab', root='quotas.d')
    """
    found = _read_first_line(body)
    if found is None:
        return None
    kind, values = found
    cluster, root = values.get("cluster"), values.get("root")
    if values.get("v") != _VERSION or not isinstance(cluster, str) or not isinstance(root, str):
        return None
    return Marker(kind, cluster, root)


def read_changes(body: str) -> int | None:
    """Return how many entities a comment has to review; `None` when its first line does not say."""
    found = _read_first_line(body)
    changes = None if found is None else found[1].get("changes")
    return changes if type(changes) is int else None


def _read_first_line(body: str) -> tuple[str, dict[str, Any]] | None:
    """Return the kind and the values of a marker; `None` when the first line is none."""
    lines = body[:5000].splitlines()
    found = _LINE(lines[0].strip()) if lines else None
    try:
        return None if found is None else (found[1], loads(found[2]))
    except (ValueError, RecursionError):
        return None
