"""Files that are replaced, grow or are pipes while somebody uses them; others: `tests/golden/reading-*.txt`."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Thread

import pytest

from quotaform.model.errors import FileReadError
from quotaform.model.text import MIB
from quotaform.system.files import (
    LEADS_OUT,
    read_bytes,
    trusted_folder,
    write_text_atomically,
)


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
