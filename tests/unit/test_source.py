"""Which files of a quotas directory count, and that nothing in it is ignored in silence."""

from __future__ import annotations

from pathlib import Path

from quotaform.desired.tree import Layout, SourceFile, Tree
from quotaform.repository.revision import read_work_tree


def problems(directory: Path) -> list[str]:
    return [str(problem).replace(f"{directory.as_posix()}", "DIR") for problem in layout_of(directory).problems(None)]


def layout_of(directory: Path) -> Layout:
    return Layout(read_work_tree(directory))


def test_a_directory_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    assert problems(tmp_path / "quotas.d") == [
        "DIR: error: the quotas directory does not exist; create it, with a file such as "
        "DIR/defaults.yaml (to declare no quotas: quotas: []) [empty-directory]"
    ]


def test_a_file_instead_of_a_directory_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "quotas.d").touch()
    assert "this is a file; give the quotas directory" in problems(tmp_path / "quotas.d")[0]


def test_the_name_of_a_file_cannot_forge_a_line(tmp_path: Path) -> None:
    (tmp_path / "a\n::error::.yaml").touch()
    assert layout_of(tmp_path).sources(None)[0].name.isprintable()


def test_a_tree_needs_no_disk() -> None:
    tree = Tree(name="quotas.d", files={"a.yaml": b"a", "prod/b.yaml": b"b"}, folders=["prod", "prdo"])
    layout = Layout(tree, ["prod"])
    assert layout.sources("prod") == [
        SourceFile("quotas.d/a.yaml", b"a"),
        SourceFile("quotas.d/prod/b.yaml", b"b", "prod"),
    ]
    assert [str(problem.location) for problem in layout.problems("prod")] == ["quotas.d/prdo"]
