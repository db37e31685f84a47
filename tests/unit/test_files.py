"""Files are read in one way, and written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IMODE
from threading import Thread

import pytest

from quotaform.errors import FileReadError, NotTextError, UsageError
from quotaform.files import read_bytes, read_text, write_text_atomically


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


def test_text_that_is_no_unicode_touches_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_text_atomically(tmp_path / "file", "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_text_atomically(tmp_path / "none" / "file", "x")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; give the name of a file in it"):
        write_text_atomically(tmp_path, "x")


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    write_text_atomically(pipe, "through")
    reader.join(10)
    assert read == ["through"]
    assert pipe.is_fifo()


def test_a_file_is_read_whole_or_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc\xff")
    assert read_bytes(path) == b"abc\xff"
    assert read_bytes(str(path), 2) == b"ab"


def test_text_has_no_byte_order_mark_and_one_kind_of_line_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbf\xc3\xa9\r\nb\rc\n")
    assert read_text(path) == "é\nb\nc\n"


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileReadError) as missing:
        read_bytes(path)
    assert (missing.value.path, missing.value.is_missing) == (str(path), True)
    assert str(missing.value) == f"{path} cannot be read: No such file or directory"
    with pytest.raises(FileReadError) as folder:
        read_text(tmp_path)
    assert (folder.value.reason, folder.value.is_missing) == ("Is a directory", False)
    path.write_bytes(b"\xff")
    with pytest.raises(NotTextError, match="it is not text in UTF-8"):
        read_text(path)
