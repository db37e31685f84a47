"""Files that a command writes for each cluster: `plans/{cluster}.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from quotaform.errors import UsageError

PLACEHOLDER: Final = "{cluster}"
"""Stands for the name of the cluster in a path."""


def cluster_paths(option: str, path: str | Path, clusters: Sequence[str], *, example: str) -> Mapping[str, Path]:
    """Return where an option writes what belongs to each cluster.

    >>> cluster_paths("--out", "plans/{cluster}.json", ["eu", "us"], example="")["us"].as_posix()
    'plans/us.json'

    Args:
        option: The name of the option.
        path: Its value, empty when it is not given.
        clusters: The names of the clusters, which hold no separator of paths.
        example: A value of the option that would do.

    Raises:
        UsageError: Several clusters would share one file.
    """
    if len(clusters) > 1 and PLACEHOLDER not in str(path):
        raise UsageError(
            f"several clusters ({', '.join(clusters)}) need a file each; "
            f"write {PLACEHOLDER} in {option}, as in {option} '{example}'"
        )
    return {name: Path(str(path).replace(PLACEHOLDER, name)) for name in clusters}
