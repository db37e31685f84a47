"""Files are read in one way, and written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from stat import S_IMODE
from threading import Thread

import pytest

from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.errors import FileReadError, QuotaformError, UsageError
from quotaform.model.quotas import Snapshot
from quotaform.model.text import MIB
from quotaform.system.files import (
    LEADS_OUT,
    read_bytes,
    remove_regular_file,
    trusted_folder,
    write_new_files,
    write_new_text,
    write_text_atomically,
)


def test_a_new_file_gets_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    path = tmp_path / "new.json"
    before = os.umask(0o027)
    try:
        write_text_atomically(path, "é\r\nb\n")
    finally:
        os.umask(before)
    assert path.read_bytes() == "é\r\nb\n".encode()
    assert S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o600)
    write_text_atomically(str(path), "new")
    assert path.read_text(encoding="utf-8") == "new"
    assert S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old", encoding="utf-8")
    link.symlink_to(target)
    write_text_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "new"


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")

    with pytest.raises(UnicodeEncodeError):
        write_text_atomically(path, "\ud800")
    monkeypatch.setattr(Path, "replace", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left on device"):
        write_text_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_appears_whole_or_not_at_all_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name was taken first, by an empty file, and that one stayed when the file itself could not take its place."""
    monkeypatch.setattr(Path, "hardlink_to", failing(errno.EPERM))
    write_new_text(tmp_path / "a", "text")
    assert (tmp_path / "a").read_text() == "text"
    with pytest.raises(FileExistsError):
        write_new_text(tmp_path / "a", "other")
    monkeypatch.setattr(Path, "replace", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left on device"):
        write_new_text(tmp_path / "b", "text")
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
    assert (tmp_path / "a").read_text() == "text"


def test_a_full_disk_is_not_taken_for_one_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever kept the link from being made, the name was taken by an empty file."""
    touched: list[object] = []
    monkeypatch.setattr(Path, "hardlink_to", failing(errno.ENOSPC))
    monkeypatch.setattr(Path, "touch", lambda *arguments, **_: touched.append(arguments))
    with pytest.raises(OSError, match="No space left on device"):
        write_new_text(tmp_path / "a", "text")
    assert not touched
    assert list(tmp_path.iterdir()) == []


def failing(code: int) -> Callable[..., None]:
    """Return a function that fails as the operating system does."""

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_new_files_replace_no_other_and_are_written_all_or_none(tmp_path: Path) -> None:
    """An import replaced a file that appeared meanwhile; the files before one that could not be written stayed."""
    (tmp_path / "b").write_text("mine")
    with pytest.raises(QuotaformError, match="b cannot be written: File exists"):
        write_new_files({str(tmp_path / "new" / "a"): "a", str(tmp_path / "b"): "b"})
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert (tmp_path / "b").read_text() == "mine"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory; give the name of a file in it"):
        write_text_atomically(tmp_path, "x")


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotaform.system.files._READER_SECONDS", 60.0)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    write_text_atomically(pipe, "through")
    reader.join(60)
    assert read == ["through"]
    assert pipe.is_fifo()


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`snapshot --output PIPE` hung until somebody read from the pipe."""
    monkeypatch.setattr("quotaform.system.files._READER_SECONDS", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="nothing reads from it"):
        write_text_atomically(pipe, "text")


def test_a_file_that_has_no_size_or_grows_is_bounded_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file of /proc says that it is empty, and one that is being written is larger than it was."""
    assert len(read_bytes("/proc/self/maps", MIB)) > 1000
    assert reason("/proc/self/maps", 1024) == "it is larger than 1 KiB"
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    read = os.read

    def grow(descriptor: int, count: int) -> bytes:
        with path.open("ab") as file:
            file.write(b"y" * 700)
        return read(descriptor, count)

    monkeypatch.setattr("os.read", grow)
    assert reason(path, 1024) == "it is larger than 1 KiB"


def test_a_file_without_the_right_to_read_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's answer is made up here, because tests may run as a user who may read everything."""

    def refuse(path: object, *_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = tmp_path / "file"
    path.touch()
    monkeypatch.setattr(os, "open", refuse)
    assert reason(path) == "Permission denied"


def test_a_folder_that_is_replaced_by_a_link_meanwhile_does_not_lead_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a path leads was found out once to check it and once more to open it, by way of the new link."""
    repository, secrets, folder = tmp_path / "repository", tmp_path / "secrets", tmp_path / "repository" / "folder"
    folder.mkdir(parents=True)
    secrets.mkdir()
    (folder / "file").write_bytes(b"x")
    (secrets / "file").write_bytes(b"secret")
    open_file = os.open

    def swap_and_open(path: str, flags: int) -> int:
        folder.rename(tmp_path / "gone")
        folder.symlink_to(secrets)
        return open_file(path, flags)

    monkeypatch.setattr(os, "open", swap_and_open)
    assert reason(folder / "file", within=repository) == LEADS_OUT


def test_the_operator_may_give_an_open_pipe_as_a_shell_does(tmp_path: Path) -> None:
    """`<(command)` is /dev/fd/63: the pipe of a process that was started for it, not a name that waits."""
    for spelled in ("/dev/fd/{}", "/proc/self/fd/{}"):
        reading, writing = os.pipe()
        os.write(writing, b"through")
        os.close(writing)
        assert read_bytes(spelled.format(reading), MIB) == b"through"
        os.close(reading)
    reading, writing = os.pipe()
    os.write(writing, b"x" * 2000)
    assert reason(f"/dev/fd/{reading}", 1024) == "it is larger than 1 KiB"
    assert reason(f"/dev/fd/{reading}", within=Path("/")) == "it is a link to a file that does not exist"
    os.close(reading)
    os.close(writing)
    assert reason("/dev/fd/999999") == "Bad file descriptor"


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("repo/a", "repo"),
        ("repo/x/../a", "repo"),
        ("repo/../a", "/"),
        ("/etc/a", "/"),
        ("a", "."),
        ("../a", "/"),
    ],
)
def test_a_path_that_plainly_leads_out_of_a_repository_is_followed(path: str, folder: str) -> None:
    given = Path("repo") if folder == "repo" or path.startswith(("repo", "/")) else Path()
    assert trusted_folder(path, given) == Path(folder)


def reason(path: str | Path, limit: int = MIB, within: Path | None = None) -> str:
    """Return why a file is not read."""
    with pytest.raises(FileReadError) as caught:
        read_bytes(path, limit, within=within)
    return caught.value.reason


def test_a_link_in_the_current_directory_leads_no_writing_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository with `plan.json -> ~/.bashrc` had that file overwritten by whoever ran `plan --out plan.json`."""
    other, repository = tmp_path / "bashrc", tmp_path / "repository"
    (repository / "plans").mkdir(parents=True)
    other.write_text("old")
    monkeypatch.chdir(repository)
    Path("plan.json").symlink_to(other)
    Path("new.json").symlink_to(tmp_path / "new")
    Path("out").symlink_to(tmp_path)
    Path("in").symlink_to("plans")
    for path in ("plan.json", repository / "plan.json", "new.json", "out/bashrc", "plans/../plan.json"):
        for write in (write_text_atomically, write_new_text):
            with pytest.raises(PermissionError, match="leads out of the current directory"):
                write(path, "new")
        with pytest.raises(PermissionError, match="leads out of the current directory"):
            remove_regular_file(path)
    assert other.read_text() == "old"
    assert not (tmp_path / "new").exists()
    write_text_atomically("in/plan.json", "new")
    write_text_atomically("../bashrc", "new")
    assert (Path("plans/plan.json").read_text(), other.read_text()) == ("new", "new")


def test_no_command_writes_by_a_link_out_of_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other, repository = tmp_path / "bashrc", tmp_path / "repository"
    (repository / "quotas.d").mkdir(parents=True)
    other.write_text("old")
    monkeypatch.chdir(repository)
    Path("link").symlink_to(other)
    Path("folder").symlink_to(tmp_path)
    taken = Snapshot(cluster_name="lab", cluster_id="id", captured_at="2026-01-01T00:00:00Z", quotas={})
    Path("lab.json").write_text(dump_snapshot(taken))
    Path("quotas.d/a.yaml").write_text("quotas: []\n")
    Path("quotaform.yaml").write_text("clusters: {lab: {snapshot: lab.json}}\n")
    for line in (
        "plan --out link",
        "plan --out folder/bashrc",
        "drift --out json=link",
        "snapshot --output link",
        "snapshot --output folder/new",
        "schema --output folder",
    ):
        assert run(line.split()) == 1, line
        assert "a link leads out of the current directory; give the path that it leads to" in capsys.readouterr().err
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["bashrc", "repository"]
    assert other.read_text() == "old"
