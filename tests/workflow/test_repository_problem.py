"""What is wrong with folders and links does not hide what is wrong in files."""

from __future__ import annotations

import pytest

from tests.workflow.command import Repository

pytestmark = pytest.mark.workflow


def test_a_bad_folder_and_a_bad_link_do_not_hide_the_problems_of_files(offline: Repository) -> None:
    """One unknown folder or one dangling link was the only problem that was reported."""
    offline.quotas("  - match: {user: 007}\n    values: {producer_byte_rate: 1}\n", "a.yaml")
    offline.quotas("  - match: {user: a}\n    values: {producer_byte_rate: 0}\n", "b.yaml")
    offline.write("quotas.d/staging/c.yaml", "quotas: []\n")
    (offline.path / "quotas.d" / "dangling.yaml").symlink_to("nowhere.yaml")
    seen = offline("validate")
    assert seen.code == 3
    for part in ("quotas.d/a.yaml:2:19: error: ", "quotas.d/b.yaml:3:", "quotas.d/staging: error: ", "dangling.yaml"):
        assert part in seen.out
    assert seen.last == "4 problems found."


@pytest.mark.parametrize("name", ["x.json", "x.yaml.txt", "X.YML.txt"])
def test_a_file_that_was_probably_meant_to_be_read_is_a_problem(offline: Repository, name: str) -> None:
    """Such a file was left out in silence."""
    offline.quotas("  - match: {user: a}\n    values: {producer_byte_rate: 1}\n")
    offline.write(f"quotas.d/{name}", "quotas: []\n")
    seen = offline("validate")
    assert seen.code == 3
    assert f"quotas.d/{name}: error: only .yaml and .yml files are read" in seen.out


@pytest.mark.parametrize("name", ["README.md", "x.yaml.bak", "notes.txt"])
def test_other_files_are_left_alone(offline: Repository, name: str) -> None:
    offline.quotas("  - match: {user: a}\n    values: {producer_byte_rate: 1}\n")
    offline.write(f"quotas.d/{name}", "x\n")
    assert offline("validate").code == 0


def test_the_layer_of_a_cluster_is_not_a_quotas_directory(offline: Repository) -> None:
    """`plan quotas.d/lab` planned to remove what the common layer declares."""
    offline.config("clusters: {lab: {snapshot: lab.json}}\n")
    offline.write("quotas.d/lab/a.yaml", "quotas: []\n")
    for command in (["plan"], ["apply", "--auto-approve"], ["drift"], ["validate"], ["explain", "user=a"]):
        seen = offline(*command, "quotas.d/lab")
        assert (seen.code, seen.out) == (64, ""), command
        assert "quotas.d/lab is the layer of cluster lab; give quotas.d" in seen.err
    seen = offline("import", "--output", "quotas.d/lab")
    assert (seen.code, seen.out) == (64, "")
