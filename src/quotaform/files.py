"""The one way to read a file that a user names, and the one way to write one: whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from stat import S_IMODE, S_ISREG

from quotaform.errors import FileReadError, NotTextError, UsageError


def read_bytes(path: str | Path, limit: int | None = None) -> bytes:
    """Read a file.

    Args:
        path: The file.
        limit: Read no more than this number of bytes; everything if left out.

    Raises:
        FileReadError: It cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read() if limit is None else file.read(limit)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise FileReadError(str(path), error.strerror or str(error), is_missing=missing) from error


def read_text(path: str | Path) -> str:
    """Read a file that is text in UTF-8, with or without a byte order mark; line ends become `\\n`.

    Raises:
        FileReadError: It cannot be read.
        NotTextError: It is not UTF-8.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotTextError(str(path)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write_text_atomically(path: str | Path, text: str | Iterable[str]) -> None:
    """Write a file by way of a temporary one beside it, so that a reader sees the old or the new text and never a part.

    The mode of an existing file stays, a symbolic link stays a link, and what is no regular file (a pipe,
    `/dev/stdout`) is written to as it is.

    Args:
        path: The file to write; its folder must exist.
        text: What it will hold, whole or in pieces, encoded in UTF-8 with its line ends as they are.

    Raises:
        OSError: It cannot be written; what was there before is still there.
        UsageError: The path is a folder.
    """
    pieces = (text,) if isinstance(text, str) else text
    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode if target.exists() else None
    if target.is_dir():
        raise UsageError(f"{path} is a folder; give the name of a file in it.")
    if mode is not None and not S_ISREG(mode):
        with Path(path).open("wb") as file:
            file.writelines(piece.encode() for piece in pieces)
        return
    temporary = target.with_name(f".quotaform-{token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), S_IMODE(mode))
            file.writelines(piece.encode() for piece in pieces)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def remove_regular_file(path: str | Path) -> None:
    """Remove what `write_text_atomically` would replace: a regular file, or the one that a symbolic link leads to.

    Raises:
        OSError: It cannot be removed.
    """
    target = Path(os.path.realpath(path))
    if target.is_file():
        target.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut; not every file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
