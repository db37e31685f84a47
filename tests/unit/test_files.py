"""Files are read in one way, and written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from socket import AF_UNIX, socket
from stat import S_IMODE
from threading import Thread

import pytest

from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.errors import FileReadError, NotTextError, UsageError
from quotaform.model.quotas import Snapshot
from quotaform.model.text import MIB
from quotaform.system.files import (
    LEADS_OUT,
    OF_GIT,
    is_folder,
    read_bytes,
    read_text,
    remove_regular_file,
    trusted_folder,
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

    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
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


def test_text_that_is_no_unicode_touches_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_text_atomically(tmp_path / "file", "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_text_atomically(tmp_path / "none" / "file", "x")


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


def test_a_file_is_read_whole_up_to_a_limit(tmp_path: Path) -> None:
    """What a user named was read whole, however large: a link to /dev/zero took all memory."""
    path = tmp_path / "file"
    path.write_bytes(b"abc\xff")
    assert read_bytes(path, 4) == b"abc\xff"
    path.write_bytes(b"x" * 1025)
    assert reason(path, 1024) == "it is larger than 1 KiB"
    os.truncate(path, 1 << 40)
    assert reason(path, 64 * MIB) == "it is larger than 64 MiB"


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


def test_text_has_no_byte_order_mark_and_one_kind_of_line_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbf\xc3\xa9\r\nb\rc\n")
    assert read_text(path, MIB) == "é\nb\nc\n"


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileReadError) as missing:
        read_bytes(path, MIB)
    assert (missing.value.path, missing.value.is_missing) == (str(path), True)
    assert str(missing.value) == f"{path} cannot be read: No such file or directory"
    with pytest.raises(FileReadError) as folder:
        read_text(tmp_path, MIB)
    assert (folder.value.reason, folder.value.is_missing) == ("Is a directory", False)
    path.write_bytes(b"\xff")
    with pytest.raises(NotTextError, match="it is not UTF-8 text"):
        read_text(path, MIB)


@pytest.mark.parametrize("within", [True, False])
def test_only_a_regular_file_is_read(tmp_path: Path, within: bool) -> None:
    """A named pipe was waited for, and a device read for ever."""
    folder = tmp_path if within else None
    os.mkfifo(tmp_path / "pipe")
    listener = socket(AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    assert reason(tmp_path / "pipe", within=folder) == "it is a named pipe, not a regular file"
    assert reason(tmp_path / "socket", within=folder) == "it is a socket or a device, not a regular file"
    listener.close()
    assert reason("/dev/zero", within=None if folder is None else Path("/")) == "it is a device, not a regular file"
    (tmp_path / "loop").symlink_to("loop")
    assert reason(tmp_path / "loop", within=folder) == "Too many levels of symbolic links"
    (tmp_path / "gone").symlink_to("nowhere")
    assert reason(tmp_path / "gone", within=folder) == "it is a link to a file that does not exist"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x" * 300, "File name too long"),
        ("a\0b", "its name contains a NUL character"),
        ("\ud800", "its name contains a character that file names cannot contain"),
        ("file/inner", "Not a directory"),
    ],
)
@pytest.mark.parametrize("within", [True, False])
def test_a_name_that_no_file_can_have_is_a_reason_and_no_crash(
    tmp_path: Path, name: str, why: str, within: bool
) -> None:
    """Names that are too long for the file system, or hold a NUL, ended as internal errors."""
    (tmp_path / "file").touch()
    assert reason(tmp_path / name, within=tmp_path if within else None) == why
    assert not is_folder(tmp_path / name)


def test_a_file_without_the_right_to_read_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's answer is made up here, because tests may run as a user who may read everything."""

    def refuse(path: object, *_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = tmp_path / "file"
    path.touch()
    monkeypatch.setattr(os, "open", refuse)
    assert reason(path) == "Permission denied"


def test_a_link_of_a_repository_is_followed_only_within_it(tmp_path: Path) -> None:
    """A pull request could have any file of the machine read by a link to it."""
    repository, secret = tmp_path / "repository", tmp_path / "secret"
    (repository / "real").mkdir(parents=True)
    secret.write_bytes(b"secret")
    (repository / "real" / "file").write_bytes(b"x")
    (repository / "inside").symlink_to("real/file")
    (repository / "folder").symlink_to("real")
    (repository / "outside").symlink_to(secret)
    (repository / "up").symlink_to("..")
    for good in ("inside", "folder/file", "real/file"):
        assert read_bytes(repository / good, MIB, within=repository) == b"x"
    for bad in ("outside", "up/secret", "../secret"):
        assert reason(repository / bad, within=repository) == LEADS_OUT
    assert read_bytes(repository / "outside", MIB) == b"secret"


def test_what_a_repository_names_is_not_in_its_git_folder(tmp_path: Path) -> None:
    """A pull request could have `.git/config`, with the token of a CI job, sent to a server of its author."""
    for folder in (".git", "sub/.git", ".GIT", "x.git"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "config").write_bytes(b"x")
    (tmp_path / "link").symlink_to(".git/config")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").write_bytes(b"gitdir: x")
    for bad in (".git/config", "sub/.git/config", ".GIT/config", "link", "x.git/../.git/config", ".git/none"):
        assert reason(tmp_path / bad, within=tmp_path) == OF_GIT
        assert reason(tmp_path / bad, within=Path("/")) == OF_GIT
    assert reason(tmp_path / "tree" / ".git", within=tmp_path / "tree") == OF_GIT
    assert read_bytes(tmp_path / "x.git" / "config", MIB, within=tmp_path) == b"x"
    assert read_bytes(tmp_path / ".git" / "config", MIB) == b"x"


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


def test_a_folder_of_a_similar_name_is_another_folder(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo-secret").mkdir()
    (tmp_path / "repo-secret" / "file").touch()
    (tmp_path / "repo" / "link").symlink_to(tmp_path / "repo-secret" / "file")
    assert reason(tmp_path / "repo" / "link", within=tmp_path / "repo") == LEADS_OUT


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
