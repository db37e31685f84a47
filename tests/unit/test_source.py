"""Which files of a quotas directory count, and that nothing in it is ignored in silence."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from quotaform.app.repository.revision import read_work_tree
from quotaform.desired.tree import Layout, SourceFile, Tree


def make(directory: Path, *names: str) -> Path:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n", encoding="utf-8")
    return directory


def sources(directory: Path, cluster: str | None = None, clusters: Collection[str] = ()) -> list[SourceFile]:
    layout = Layout(read_work_tree(directory), clusters)
    assert layout.problems(cluster) == []
    return layout.sources(cluster)


def problems(directory: Path, *clusters: str, cluster: str | None = None) -> list[str]:
    found = Layout(read_work_tree(directory), clusters).problems(cluster)
    return [str(problem).replace(f"{directory.as_posix()}", "DIR") for problem in found]


def test_the_common_files_and_those_of_the_cluster_are_read_in_order(tmp_path: Path) -> None:
    make(tmp_path, "b.yaml", "a.yml", "prod/c.yaml", "lab/d.yaml", ".hidden.yaml", ".git/x.yaml", "README.md")
    read = sources(tmp_path, "prod", ["prod", "lab"])
    assert [(Path(source.name).name, source.layer) for source in read] == [
        ("a.yml", None),
        ("b.yaml", None),
        ("c.yaml", "prod"),
    ]
    assert read[0] == SourceFile((tmp_path / "a.yml").as_posix(), b"# a.yml\n", None)


def test_without_a_cluster_the_common_files_are_read(tmp_path: Path) -> None:
    make(tmp_path, "a.yaml", "prod/c.yaml")
    assert [source.layer for source in sources(tmp_path, None, ["prod"])] == [None]


def test_a_cluster_needs_no_folder(tmp_path: Path) -> None:
    assert len(sources(make(tmp_path, "a.yaml"), "prod", ["prod"])) == 1


def test_common_files_are_not_needed(tmp_path: Path) -> None:
    make(tmp_path, "prod/c.yaml")
    assert [source.layer for source in sources(tmp_path, "prod", ["prod", "lab"])] == ["prod"]
    assert sources(tmp_path, "lab", ["prod", "lab"]) == []


def test_a_folder_that_is_no_cluster_is_a_problem(tmp_path: Path) -> None:
    make(tmp_path, "a.yaml", "prdo/c.yaml")
    assert problems(tmp_path, "prod", "lab") == [
        'DIR/prdo: error: the directory "prdo" is not the name of a cluster and would be ignored; did you mean prod? '
        "the clusters are lab, prod [unknown-cluster]"
    ]
    assert problems(tmp_path) == [
        'DIR/prdo: error: the directory "prdo" is not the name of a cluster and would be ignored; '
        "quotaform.yaml defines no cluster [unknown-cluster]"
    ]


def test_a_folder_in_the_folder_of_a_cluster_is_a_problem(tmp_path: Path) -> None:
    make(tmp_path, "a.yaml", "prod/team/c.yaml")
    assert problems(tmp_path, "prod") == [
        "DIR/prod/team: error: a directory within the directory of a cluster is not read; "
        "move its files up [nested-directory]"
    ]


def test_a_directory_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    assert problems(tmp_path / "quotas.d") == [
        "DIR: error: the quotas directory does not exist; create it, with a file such as "
        "DIR/defaults.yaml (to declare no quotas: quotas: []) [empty-directory]"
    ]


def test_a_file_instead_of_a_directory_is_a_problem(tmp_path: Path) -> None:
    assert "this is a file; give the quotas directory" in problems(make(tmp_path, "quotas.d") / "quotas.d")[0]


@pytest.mark.parametrize("names", [[], ["README.md"], [".hidden.yaml"], ["prod/README.md"]])
def test_a_directory_without_any_file_is_a_problem(tmp_path: Path, names: list[str]) -> None:
    assert problems(make(tmp_path, *names), "prod") == [
        "DIR: error: the quotas directory contains no YAML file; to declare no quotas, add a file "
        "such as DIR/defaults.yaml that contains quotas: [] [empty-directory]"
    ]


def test_a_json_file_would_be_ignored_and_is_a_problem(tmp_path: Path) -> None:
    assert problems(make(tmp_path, "a.json", "b.yaml")) == [
        "DIR/a.json: error: only .yaml and .yml files are read; JSON is YAML, so rename it [unread-file]"
    ]


@pytest.mark.parametrize("name", ["a.bak", "a.disabled", "a.txt", "a.yaml.orig", "A.YAML.2", "prod/a.yml~"])
def test_a_file_that_was_put_aside_is_a_warning(tmp_path: Path, name: str) -> None:
    """Nothing was said, and with `prune: removed` its entities were deleted."""
    assert problems(make(tmp_path, name, "b.yaml"), "prod", cluster="prod") == [
        f"DIR/{name}: warning: only .yaml and .yml files are read, so this file declares nothing; rename it, or move "
        "it elsewhere [disabled-file]"
    ]


def test_a_directory_whose_files_were_all_put_aside_has_no_file(tmp_path: Path) -> None:
    found = problems(make(tmp_path, "a.yaml.bak"), "prod")
    assert [each.rpartition(" ")[2] for each in found] == ["[empty-directory]", "[disabled-file]"]


@pytest.mark.parametrize("name", ["README.md", "readme.txt", "notes.txt", "CODEOWNERS", "lab/a.bak", "prod/in/a.bak"])
def test_other_files_that_are_not_read_are_passed_over(tmp_path: Path, name: str) -> None:
    found = problems(make(tmp_path, name, "b.yaml"), "prod", "lab", cluster="prod")
    assert not any("disabled-file" in each for each in found)


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "nowhere")
    assert problems(tmp_path) == [
        "DIR/a.yaml: error: cannot be read: it is a link to a file that does not exist [unreadable]"
    ]


def test_the_name_of_a_file_cannot_forge_a_line(tmp_path: Path) -> None:
    make(tmp_path, "a\n::error::.yaml")
    assert sources(tmp_path)[0].name.isprintable()


def test_a_tree_needs_no_disk() -> None:
    tree = Tree(name="quotas.d", files={"a.yaml": b"a", "prod/b.yaml": b"b"}, folders=["prod", "prdo"])
    layout = Layout(tree, ["prod"])
    assert layout.sources("prod") == [
        SourceFile("quotas.d/a.yaml", b"a"),
        SourceFile("quotas.d/prod/b.yaml", b"b", "prod"),
    ]
    assert [str(problem.location) for problem in layout.problems("prod")] == ["quotas.d/prdo"]


def test_what_is_misplaced_for_one_cluster_is_no_problem_of_another(tmp_path: Path) -> None:
    make(tmp_path, "a.yaml", "lab/b.json")
    (tmp_path / "lab" / "c.yaml").symlink_to(tmp_path / "nowhere")
    assert problems(tmp_path, "prod", "lab", cluster="prod") == []
    assert [line.split(" ")[0] for line in problems(tmp_path, "prod", "lab", cluster="lab")] == [
        "DIR/lab/b.json:",
        "DIR/lab/c.yaml:",
    ]
