"""A quotas directory and quotaform.yaml, on disk or elsewhere, whoever made them: what is read, what not, and why."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import pytest

from quotaform.cluster.snapshot import SnapshotGateway
from quotaform.desired.config import Cluster, Config
from quotaform.desired.tree import Layout, SourceFile, Tree
from quotaform.model.entity import Entity
from quotaform.model.errors import FileReadError, InvalidFilesError
from quotaform.model.quotas import Snapshot
from quotaform.model.scope import MAX_PATTERN, Selection
from quotaform.plan.validate import validate_files
from quotaform.repository import revision as tree_reading
from quotaform.repository.gateway import open_gateway
from quotaform.repository.repository import Repository
from quotaform.repository.revision import WORK_TREE, WorkTree
from quotaform.review.init import import_cluster
from quotaform.system.files import LEADS_OUT, QUOTAS_LIMIT

QUOTAS = b"quotas: []\n"
ENTRY = b"quotas:\n  - match: {user: a}\n    profile: gold\n"
CONFIG = "clusters: {lab: {snapshot: lab.json}}\nprofiles: {gold: {producer_byte_rate: 1}}\n"
TWO = "clusters: {lab: {snapshot: lab.json}, prod-eu: {snapshot: prod.json}}\n"
GONE = "it is a link to a file that does not exist"


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


def test_a_configuration_that_was_found_leads_nowhere_else_and_one_that_was_named_may(
    quotas: Path, tmp_path: Path
) -> None:
    make(tmp_path, elsewhere_yaml=b"prune: report\n", repository__quotaform_yaml="../elsewhere.yaml")
    link = quotas.parent / "quotaform.yaml"
    with pytest.raises(InvalidFilesError, match=LEADS_OUT):
        Repository.at(quotas.parent, None).config()
    assert Repository.at(quotas.parent, link).config().prune == "report"


@pytest.mark.parametrize("is_named", [True, False])
def test_a_configuration_that_cannot_be_read_is_never_taken_for_none(tmp_path: Path, is_named: bool) -> None:
    """A dangling link counted as no quotaform.yaml at all, and its scope and pins as not there."""
    path = tmp_path / "quotaform.yaml"
    path.symlink_to("nowhere")
    tree = WorkTree(named=frozenset({path})) if is_named else WORK_TREE
    with pytest.raises(FileReadError, match=GONE):
        tree.read_config(path)
    path.unlink()
    assert tree.read_config(path) is None
    os.mkfifo(path)
    with pytest.raises(FileReadError, match="named pipe"):
        tree.read_config(path)


@pytest.mark.parametrize("field", ["snapshot", "command_config"])
def test_what_quotaform_yaml_names_is_not_reached_by_a_link_out_of_the_repository(tmp_path: Path, field: str) -> None:
    make(tmp_path, secret=b"sasl.jaas.config=hunter2\n", repository__link="../secret", pipe=None)
    folder = tmp_path / "repository"
    expected = {"link": LEADS_OUT, "../pipe": "named pipe", "/dev/zero": "device"}
    for name, words in expected.items():
        if field == "snapshot":
            cluster = Cluster(name="lab", snapshot=folder / name, folder=folder)
        else:
            cluster = Cluster(
                name="lab", bootstrap_servers=("127.0.0.1:1",), command_config=folder / name, folder=folder
            )
        with pytest.raises(InvalidFilesError, match=words) as caught:
            open_gateway(cluster)
        assert "hunter2" not in str(caught.value)


@dataclass(frozen=True)
class Commit:
    """Files in memory, as a git commit holds them."""

    config: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)

    def read_config(self, path: Path) -> SourceFile | None:
        return None if self.config is None or path.name == "approvals.yaml" else SourceFile(f"base:{path}", self.config)

    def read_tree(self, directory: Path, files: MutableMapping[str, bytes] | None = None) -> Tree:
        return Tree(name=f"base:{directory}", files=self.files)


def test_configuration_and_files_come_from_one_revision(tmp_path: Path) -> None:
    """Only the quotas directory could be read elsewhere; quotaform.yaml was opened on disk by its reader."""
    here = Repository.at(tmp_path / "quotas.d", None)
    base = replace(here, config_path=tmp_path / "quotaform.yaml", revision=Commit(CONFIG, {"a.yaml": ENTRY}))
    config = base.config()
    assert config.clusters["lab"].snapshot == tmp_path / "lab.json"
    assert base.load(config, date(2026, 1, 1)).desired("lab")[Entity({"user": "a"})].values == {"producer_byte_rate": 1}
    assert validate_files(base).report.is_valid
    assert not validate_files(here).report.is_valid


def test_what_is_wrong_is_named_as_the_revision_names_it() -> None:
    base = Repository(directory=Path("quotas.d"), config_path=Path("q.yaml"), revision=Commit("cluster: {}\n"))
    with pytest.raises(InvalidFilesError, match=r"^base:q\.yaml:1:1: "):
        base.config()


@pytest.mark.parametrize("needs_config", [True, False])
def test_a_configuration_that_is_not_there_is_wrong_only_when_it_is_named(needs_config: bool) -> None:
    base = Repository(directory=Path("d"), config_path=Path("q"), needs_config=needs_config, revision=Commit())
    if not needs_config:
        assert base.config() == Config()
        return
    with pytest.raises(InvalidFilesError, match=r"^q: error: does not exist; "):
        base.config()


def test_an_import_goes_beside_files_that_do_not_count(tmp_path: Path) -> None:
    """Import looked for files in its own way, found a hidden one, and refused to write beside it."""
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d" / ".old.yaml").write_text("quotas: []\n")
    quotas = {Entity({"user": "a"}): {"producer_byte_rate": 1.0}}
    taken = Snapshot(cluster_name="lab", cluster_id="id", captured_at="2026-01-01T00:00:00Z", quotas=quotas)
    done = import_cluster(Repository.at(tmp_path, None), Config(), "lab", SnapshotGateway(taken, name="lab"))
    assert list(done.files) == [str(tmp_path / "quotas.d" / "imported.yaml")]


@pytest.fixture
def layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("quotas.d/lab", "quotas.d/prod-eu", "other/lab", "lab"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "quotaform.yaml").write_text(TWO)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("given", ["quotas.d", ".", "lab", "other/lab"])
def test_other_directories_are_read(layers: Path, given: str) -> None:
    assert list(Repository.at(Path(given), layers / "quotaform.yaml").config().clusters) == ["lab", "prod-eu"]


def test_a_pattern_is_limited_in_length(layers: Path) -> None:
    """A pattern of 50,000 brackets took a quarter of a minute to read."""
    (layers / "quotaform.yaml").write_text(f"scope: {{include: [{{user: '{'[' * 50_000}'}}]}}\n")
    with pytest.raises(InvalidFilesError) as raised:
        Repository.at(Path("quotas.d"), None).config()
    assert [problem.message for problem in raised.value.problems] == [
        f"a pattern has at most {MAX_PATTERN:,} characters, and this one has 50,000; shorten it"
    ]
    assert not Selection(select=("[" * 50_000,)).contains(Entity(user="a"))
    assert Selection(select=("user=[ab]*",)).contains(Entity(user="a"))
