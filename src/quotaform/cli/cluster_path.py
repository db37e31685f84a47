"""Files that a command writes for each cluster: `plans/{cluster}.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from quotaform.errors import UsageError
from quotaform.model.text import listed

_LONGEST_NAME: Final = 100
"""Characters of a cluster's name in a path; file systems limit a name to 255 bytes."""

PLACEHOLDER: Final = "{cluster}"
"""Stands for the name of the cluster in a path."""


def cluster_paths(option: str, path: str | Path, clusters: Sequence[str], *, example: str) -> Mapping[str, Path]:
    """Return where an option writes what belongs to each cluster.

    >>> cluster_paths("--out", "plans/{cluster}.json", ["eu", "us"], example="")["us"].as_posix()
    'plans/us.json'

    Args:
        path: Its value, empty when it is not given.
        example: A value of the option that would do.

    Raises:
        UsageError: Several clusters would share one file.
    """
    if len(clusters) > 1 and PLACEHOLDER not in str(path):
        raise UsageError(
            f"several clusters ({listed(clusters)}) need one file each; "
            f"write {PLACEHOLDER} in {option}, as in {option} '{example}'"
        )
    paths = {name: Path(str(path).replace(PLACEHOLDER, file_name(name))) for name in clusters}
    if len(set(paths.values())) < len(paths):
        raise UsageError(f"the names of some clusters give the same file name; run {option} for one cluster at a time")
    return paths


def file_name(cluster: str) -> str:
    """Return the name of a cluster as part of a path: one that leads to no other folder and is not too long.

    >>> file_name("prod-eu"), file_name("a/b"), file_name("..")
    ('prod-eu', 'a_b', '_')
    """
    name = "".join(letter if letter.isprintable() and letter not in "/\\" else "_" for letter in cluster)
    return name[:_LONGEST_NAME] if name.strip(".") else "_"
