"""Files as they are loaded, on disk or elsewhere, for one cluster and for many.

`texts-sources.txt` and `reading-tree.txt` have what is said of them, `story-refused.txt` has links and pipes.
"""

from __future__ import annotations

import os
import pickle
from datetime import date
from pathlib import Path

import pytest

from quotaform.desired.loader import LoadedFile, LoadedFiles, conclude, load_file
from quotaform.desired.tree import Layout, SourceFile, Tree
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.scope import MAX_PATTERN, Pattern, Scope, Selection
from quotaform.repository import revision as tree_reading
from quotaform.repository.repository import Repository
from quotaform.repository.revision import WORK_TREE
from quotaform.system.files import LEADS_OUT, QUOTAS_LIMIT
from tests.loading import check, load

GOLD = {"gold": {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}}
TODAY = date(2026, 12, 31)
PLAIN = b"quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 1}\n"
PROD = b"quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 2}\n"
USES_GOLD = b"quotas:\n  - match: {user: gold}\n    profile: gold\n"
BAD = b"quotas:\n  - match: {user: 007}\n    values: {producer_byte_rate: 2}\n"
COMMON = "quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 1, consumer_byte_rate: 2}\n"


def test_the_error_counts_its_problems() -> None:
    """It said that nothing was sent to any cluster, also as the outcome of one where others had been applied."""
    with pytest.raises(InvalidFilesError) as caught:
        load([SourceFile("f.yaml", "quotas: 5")], {}, TODAY)
    problem, total = str(caught.value).split("\n")
    assert problem.startswith("f.yaml:1")
    assert total == "1 problem found; invalid files are never applied."


def test_a_name_that_kafka_cannot_carry_is_refused() -> None:
    text = f"quotas:\n  - match: {{user: {'å' * 20_000}}}\n    values: {{producer_byte_rate: 1}}\n"
    assert [str(problem) for problem in check([SourceFile("f.yaml", text)], {}, TODAY)[1]] == [
        "f.yaml:2:19: error: this user name has 40000 bytes; Kafka's protocol allows at most 32767 [bad-name]"
    ]
    longest = f"quotas:\n  - match: {{user: {'a' * 32_767}}}\n    values: {{producer_byte_rate: 1}}\n"
    assert len(load([SourceFile("f.yaml", longest)], {}, TODAY)) == 1


def test_a_file_is_loaded_anywhere_and_carried_back() -> None:
    file = load_file(SourceFile("f.yaml", COMMON, "prod"), {})
    carried: LoadedFile = pickle.loads(pickle.dumps(file))  # noqa: S301
    assert carried == file
    desired, found = conclude([carried], TODAY)
    assert (list(desired), found) == ([Entity(user="a")], [])


def test_of_many_entries_of_a_file_out_of_scope_a_few_are_named() -> None:
    # A narrow `include` gave a hundred errors, each with the same remedy, and no word about how many more there were.
    def found(*numbers: int) -> list[str]:
        sources = []
        for at, number in enumerate(numbers):
            entries = "".join(f"- match: {{ip: 10.{at}.0.{ip}}}\n  state: absent\n" for ip in range(number))
            sources.append(SourceFile(f"{at}.yaml", f"quotas:\n{entries}"))
        return [str(problem) for problem in check(sources, {}, TODAY, Scope(include=(Pattern((("user", "a"),)),)))[1]]

    many, few = found(200, 1)
    assert many == (
        "0.yaml:2:3: error: ip=10.0.0.0, ip=10.0.0.1, ip=10.0.0.2, ip=10.0.0.3, ip=10.0.0.4 and 195 more: declared "
        "here, but outside of the scope in quotaform.yaml, where * does not stand for <default>; remove it "
        "here, or change the scope [out-of-scope]"
    )
    assert few.startswith("1.yaml:2:3: error: ip=10.1.0.0: declared here, but outside of the scope")


def test_equal_values_are_kept_once() -> None:
    text = "quotas:\n  - match: {user: a}\n    profile: gold\n  - match: {user: b}\n    profile: gold\n"
    one, two = load([SourceFile("f.yaml", text)], GOLD, TODAY).values()
    assert one.values is two.values


def tree(**more: bytes) -> Tree:
    files = {"a.yaml": PLAIN, **{name.replace("__", "/") + ".yaml": text for name, text in more.items()}}
    return Tree(name="quotas.d", files=files, folders=["lab", "prod"])


def test_a_file_is_parsed_once_however_many_clusters_read_it() -> None:
    files = LoadedFiles(Layout(tree(prod__b=PROD), ["prod", "lab"]), {}, TODAY)
    assert files.desired("prod")[Entity(user="a")].values == {"producer_byte_rate": 2.0}
    parsed = dict(files.parsed)
    assert list(parsed) == ["quotas.d/a.yaml", "quotas.d/prod/b.yaml"]
    assert files.desired("lab")[Entity(user="a")].values == {"producer_byte_rate": 1.0}
    assert all(files.parsed[name] is pair for name, pair in parsed.items())


def test_when_a_profile_has_changed_the_files_are_parsed_again() -> None:
    layout = Layout(tree(b=USES_GOLD), ["prod", "lab"])
    profiles, changed = {"gold": {"producer_byte_rate": 1.0}}, {"gold": {"producer_byte_rate": 2.0}}
    before = LoadedFiles(layout, profiles, TODAY)
    before.desired(None)
    after = LoadedFiles(layout, changed, TODAY, similar=before)
    assert after.desired(None)[Entity(user="gold")].values == changed["gold"]


def test_the_files_of_a_cluster_that_is_released_are_parsed_again_when_it_is_asked_about() -> None:
    files = LoadedFiles(Layout(tree(prod__b=PROD), ["prod", "lab"]), {}, TODAY)
    found = files.desired("prod")
    files.release("prod")
    assert list(files.parsed) == ["quotas.d/a.yaml"]
    assert files.desired("prod") == found
    assert list(files.parsed) == ["quotas.d/a.yaml", "quotas.d/prod/b.yaml"]


def test_the_files_of_another_cluster_do_not_count() -> None:
    files = LoadedFiles(Layout(tree(prod__b=BAD), ["prod", "lab"]), {}, TODAY)
    assert len(files.desired("lab")) == 1
    with pytest.raises(InvalidFilesError, match="1 problem found"):
        files.desired("prod")


def test_an_unknown_folder_or_an_unreadable_file_hides_no_other_problem() -> None:
    """A dangling link was the only problem that was found, and the next run found the others."""
    found = Tree(
        name="quotas.d",
        files={"a.yaml": PLAIN, "c.yaml": BAD},
        folders=["prdo"],
        unreadable={"b.yaml": "No such file"},
    )
    _, findings = LoadedFiles(Layout(found, ["prod"]), {}, TODAY).check("prod")
    assert [(str(finding.location), finding.rule) for finding in findings] == [
        ("quotas.d/b.yaml", "unreadable"),
        ("quotas.d/c.yaml:2:19", "bad-name"),
        ("quotas.d/prdo", "unknown-cluster"),
    ]


def test_a_tree_needs_no_disk() -> None:
    tree = Tree(name="quotas.d", files={"a.yaml": b"a", "prod/b.yaml": b"b"}, folders=["prod", "prdo"])
    layout = Layout(tree, ["prod"])
    assert list(layout.layer(None)) == [SourceFile("quotas.d/a.yaml", b"a")]
    assert list(layout.layer("prod")) == [SourceFile("quotas.d/prod/b.yaml", b"b", "prod")]
    assert [str(problem.location) for problem in layout.problems("prod")] == ["quotas.d/prdo"]


QUOTAS = b"quotas: []\n"


@pytest.fixture
def quotas(tmp_path: Path) -> Path:
    """Return a quotas directory with one file."""
    directory = tmp_path / "repository" / "quotas.d"
    directory.mkdir(parents=True)
    (directory / "a.yaml").write_bytes(QUOTAS)
    return directory


def read(directory: Path) -> Tree:
    return WORK_TREE.read_tree(directory)


def make(folder: Path, /, **entries: str | bytes | None) -> None:
    """Make what a name says, in which `__` is a slash and `_` a dot: a file, a link to a text, or a named pipe."""
    for name, content in entries.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            os.mkfifo(path)
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)


def test_the_number_and_the_size_of_the_files_are_bounded(quotas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (quotas / "big.yaml").touch()
    os.truncate(quotas / "big.yaml", QUOTAS_LIMIT + 1)
    assert read(quotas).unreadable == {"big.yaml": "it is larger than 64 MiB"}
    (quotas / "big.yaml").unlink()
    monkeypatch.setattr(tree_reading, "MOST_BYTES", 25)
    make(quotas, b_yaml=QUOTAS, c_yaml=QUOTAS)
    assert read(quotas).unreadable == {"": "its files are larger than 0 MiB together"}
    monkeypatch.setattr(tree_reading, "MOST_ENTRIES", 2)
    assert read(quotas).unreadable == {"": "it contains more than 2 files and directories"}
    [problem] = Layout(read(quotas)).problems(None)
    assert problem.message == "cannot be read: it contains more than 2 files and directories"


def test_a_directory_that_was_found_leads_nowhere_else_and_one_that_was_named_may(
    quotas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull request that makes quotas.d a link chooses what is read; an operator who names one means it."""
    make(tmp_path, checkout__quotas_d=str(quotas))
    link = tmp_path / "checkout" / "quotas.d"
    monkeypatch.chdir(link.parent)
    for found in (None, Path(), link.parent):
        repository = Repository.at(found, None)
        assert repository.revision.read_tree(repository.directory).unreadable == {"": LEADS_OUT}
    named = Repository.at(link, None)
    assert set(named.revision.read_tree(named.directory).files) == {"a.yaml"}


def test_a_pattern_is_limited_in_length(tmp_path: Path) -> None:
    """A pattern of 50,000 brackets took a quarter of a minute to read."""
    make(tmp_path, quotaform_yaml=f"scope: {{include: [{{user: '{'[' * 50_000}'}}]}}\n".encode())
    with pytest.raises(InvalidFilesError, match=f"at most {MAX_PATTERN:,} characters, and this one has 50,000"):
        Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml").config()
    assert not Selection(select=("[" * 50_000,)).contains(Entity(user="a"))
    assert Selection(select=("user=[ab]*",)).contains(Entity(user="a"))
