"""Files that are read from somewhere else than the work tree: whoever has a repository need not know."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import pytest

from quotaform.cluster.snapshot import SnapshotGateway
from quotaform.desired.config import Config
from quotaform.desired.tree import SourceFile, Tree
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.quotas import Snapshot
from quotaform.plan.validate import validate_files
from quotaform.repository.repository import Repository
from quotaform.review.init import import_cluster

ENTRY = b"quotas:\n  - match: {user: a}\n    profile: gold\n"
CONFIG = "clusters: {lab: {snapshot: lab.json}}\nprofiles: {gold: {producer_byte_rate: 1}}\n"


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
