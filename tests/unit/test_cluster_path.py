"""The files that a command writes for each cluster, whatever the clusters are called."""

from __future__ import annotations

import pytest

from quotaform.cli.present import cluster_paths
from quotaform.model.errors import UsageError


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", "x" * 400, "a\x00b", "a\n"])
def test_the_name_of_a_cluster_leads_to_no_other_folder_and_is_not_too_long(name: str) -> None:
    """A name with slashes or of 300 characters was taken into the path as it was."""
    path = cluster_paths("--out", "plans/{cluster}.json", [name], example="")[name]
    assert path.parent.as_posix() == "plans"
    assert len(path.name) < 120
    assert path.name.isprintable()


def test_names_that_give_one_file_name_are_refused() -> None:
    with pytest.raises(UsageError, match="the same file name"):
        cluster_paths("--out", "{cluster}.json", ["a/b", "a_b"], example="")


def test_of_many_clusters_the_first_are_named() -> None:
    """An error named all of 1,000 clusters."""
    with pytest.raises(UsageError, match=r"^several clusters \(c0, .*, c9 and 990 more\) need one file each; "):
        cluster_paths("--out", "plan.json", [f"c{number}" for number in range(1000)], example="")
