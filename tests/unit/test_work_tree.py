"""A quotas directory and quotaform.yaml on disk, whoever made them: what is read, what is not, and why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quotaform.desired.config import Cluster
from quotaform.desired.tree import Layout, Root, Tree
from quotaform.model.errors import FileReadError, InvalidFilesError
from quotaform.repository import revision as tree_reading
from quotaform.repository.gateway import open_gateway
from quotaform.repository.repository import Repository
from quotaform.repository.revision import WORK_TREE, WorkTree
from quotaform.system.files import LEADS_OUT, QUOTAS_LIMIT

QUOTAS = b"quotas: []\n"
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


def test_the_files_of_a_config_map_are_read(tmp_path: Path) -> None:
    """Kubernetes mounts each file as a link to a folder that is a link itself, so that it can change all at once."""
    version = tmp_path / "..2026_11_21_10_00_00.123456"
    (version / "lab").mkdir(parents=True)
    (version / "a.yaml").write_bytes(QUOTAS)
    (version / "quotaform.yaml").write_bytes(b"prune: report\n")
    (version / "lab" / "b.yaml").write_bytes(QUOTAS)
    (tmp_path / "..data").symlink_to(version.name)
    for name in ("a.yaml", "lab", "quotaform.yaml"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    tree = read(tmp_path)
    assert set(tree.files) == {"a.yaml", "lab/b.yaml", "quotaform.yaml"}
    assert (list(tree.folders), tree.unreadable) == (["lab"], {})
    config = WORK_TREE.read_config(tmp_path / "quotaform.yaml")
    assert config is not None
    assert config.text == b"prune: report\n"


def test_a_link_out_of_the_directory_is_not_followed(quotas: Path, tmp_path: Path) -> None:
    """A pull request could have files of the machine that plans read, and shown in messages."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "s.yaml").write_bytes(QUOTAS)
    (quotas.parent / "beside.yaml").write_bytes(QUOTAS)
    (quotas / "file.yaml").symlink_to(secret / "s.yaml")
    (quotas / "beside.yaml").symlink_to("../beside.yaml")
    (quotas / "folder").symlink_to(secret)
    (quotas / "device.yaml").symlink_to("/dev/zero")
    (quotas / "lab").mkdir()
    (quotas / "lab" / "common.yaml").symlink_to("../a.yaml")
    (quotas / "lab" / "out.yaml").symlink_to(secret / "s.yaml")
    tree = read(quotas)
    assert set(tree.files) == {"a.yaml", "lab/common.yaml"}
    names = {"file.yaml", "beside.yaml", "folder", "device.yaml", "lab/out.yaml"}
    assert tree.unreadable == dict.fromkeys(names, LEADS_OUT)


def test_what_is_no_regular_file_has_a_reason_and_the_rest_is_read(quotas: Path) -> None:
    """A pipe hung the command, and a link to nowhere hid what was wrong with all other files."""
    os.mkfifo(quotas / "pipe.yaml")
    (quotas / "folder.yaml").mkdir()
    (quotas / "gone.yaml").symlink_to("nowhere.yaml")
    (quotas / "gone").symlink_to("nowhere")
    (quotas / "loop.yaml").symlink_to("loop.yaml")
    (quotas / "big.yaml").touch()
    os.truncate(quotas / "big.yaml", QUOTAS_LIMIT + 1)
    tree = read(quotas)
    assert set(tree.files) == {"a.yaml"}
    assert tree.unreadable == {
        "big.yaml": "it is larger than 64 MiB",
        "gone": GONE,
        "gone.yaml": GONE,
        "loop.yaml": "Too many levels of symbolic links",
        "pipe.yaml": "it is a named pipe, not a regular file",
    }
    assert list(tree.folders) == ["folder.yaml"]


def test_what_is_not_read_is_not_opened(quotas: Path) -> None:
    os.mkfifo(quotas / "README")
    os.mkfifo(quotas / ".hidden.yaml")
    tree = read(quotas)
    assert (list(tree.others), tree.unreadable) == (["README"], {})


def test_the_number_and_the_size_of_the_files_are_bounded(quotas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_reading, "MOST_BYTES", 25)
    for name in "bc":
        (quotas / f"{name}.yaml").write_bytes(QUOTAS)
    assert read(quotas).unreadable == {"": "its files are larger than 0 MiB together"}
    monkeypatch.setattr(tree_reading, "MOST_ENTRIES", 2)
    assert read(quotas).unreadable == {"": "it contains more than 2 files and directories"}
    [problem] = Layout(read(quotas)).problems(None)
    assert problem.message == "cannot be read: it contains more than 2 files and directories"


def test_a_directory_that_was_found_leads_nowhere_else_and_one_that_was_named_may(
    quotas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull request that makes quotas.d a link chooses what is read; an operator who names one means it."""
    (tmp_path / "checkout").mkdir()
    link = tmp_path / "checkout" / "quotas.d"
    link.symlink_to(quotas)
    monkeypatch.chdir(link.parent)
    for found in (None, Path(), link.parent):
        repository = Repository.at(found, None)
        assert repository.revision.read_tree(repository.directory).unreadable == {"": LEADS_OUT}
    named = Repository.at(link, None)
    assert set(named.revision.read_tree(named.directory).files) == {"a.yaml"}


def test_a_configuration_that_was_found_leads_nowhere_else_and_one_that_was_named_may(
    quotas: Path, tmp_path: Path
) -> None:
    config = tmp_path / "elsewhere.yaml"
    config.write_bytes(b"prune: report\n")
    link = quotas.parent / "quotaform.yaml"
    link.symlink_to(config)
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


@pytest.mark.parametrize(
    ("name", "root", "unreadable"),
    [
        ("nowhere", Root.MISSING, {}),
        ("quotas.d/a.yaml", Root.FILE, {}),
        ("quotas.d/a.yaml/inner", Root.MISSING, {}),
        ("x" * 300, Root.DIRECTORY, {"": "File name too long"}),
        ("a\0b", Root.DIRECTORY, {"": "its name contains a NUL character"}),
    ],
)
def test_a_path_that_is_no_directory_is_told_apart(
    quotas: Path, name: str, root: Root, unreadable: dict[str, str]
) -> None:
    """A name that is too long for the file system ended as an internal error."""
    repository = Repository.at(quotas.parent / name, None)
    tree = repository.revision.read_tree(repository.directory)
    assert (tree.root, tree.unreadable) == (root, unreadable)


@pytest.mark.parametrize("field", ["snapshot", "command_config"])
def test_what_quotaform_yaml_names_is_not_reached_by_a_link_out_of_the_repository(tmp_path: Path, field: str) -> None:
    folder, secret = tmp_path / "repository", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("sasl.jaas.config=hunter2\n")
    (folder / "link").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe")
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
