"""The one way to write a file: whole or not at all."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from stat import S_IMODE, S_ISREG
from typing import Final

from quotaform.errors import UsageError
from quotaform.files import require_no_way_out

_HAS_NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK})
TEMPORARY: Final = ".quotaform-*.tmp"
"""What temporary files are called; a process that is killed leaves one."""
_READER_SECONDS: Final = 2.0
"""How long a named pipe is given to be read from."""


def write_text_atomically(path: str | Path, text: str | Iterable[str]) -> None:
    """Write a file of text; see `write_bytes_atomically`.

    Args:
        path: The file to write; its folder must exist.
        text: What it will hold, whole or in pieces, encoded in UTF-8 with its line ends as they are.

    Raises:
        OSError: It cannot be written; what was there before is still there.
        UsageError: The path is a folder.
    """
    write_bytes_atomically(path, _encoded(text))


def write_bytes_atomically(path: str | Path, content: Iterable[bytes]) -> None:
    """Write a file by way of a temporary one beside it, so that a reader sees the old or the new one and never a part.

    The mode of an existing file stays, a symbolic link stays a link, and what is no regular file (a pipe,
    `/dev/stdout`) is written to as it is.

    Args:
        path: The file to write; its folder must exist.
        content: What it will hold, in pieces.

    Raises:
        OSError: It cannot be written; what was there before is still there.
        UsageError: The path is a folder.
    """
    require_no_way_out(path)
    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode if target.exists() else None
    if target.is_dir():
        raise UsageError(f"{path} is a directory; give the name of a file in it.")
    if mode is not None and not S_ISREG(mode):
        with os.fdopen(_open_for_writing(path), "wb") as file:
            file.writelines(content)
        return
    with _temporary_file(target, content, mode) as temporary:
        temporary.replace(target)
    sync_folder(target.parent)


def _open_for_writing(path: str | Path) -> int:
    """Open what is no regular file; a named pipe that nobody opens for reading is waited for only a moment.

    Raises:
        OSError: It cannot be opened.
    """
    deadline = time.monotonic() + _READER_SECONDS
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.ENXIO, "nothing reads from it") from None
            time.sleep(0.02)
        else:
            os.set_blocking(descriptor, True)
            return descriptor


def write_new_text(path: str | Path, text: str | Iterable[str]) -> None:
    """Write a file that does not exist yet, so that a reader sees all of it or no file.

    Where the file system has no hard links, a reader may see an empty file for a moment.

    Args:
        path: The file to write; its folder must exist.
        text: What it will hold, whole or in pieces, encoded in UTF-8.

    Raises:
        FileExistsError: There is something of this name, which stays as it is.
        OSError: It cannot be written, and there is no file.
    """
    require_no_way_out(path)
    target = Path(path)
    with _temporary_file(target, _encoded(text)) as temporary:
        try:
            target.hardlink_to(temporary)
        except OSError as error:
            if error.errno not in _HAS_NO_HARD_LINKS:
                raise
            _take_name(temporary, target)
    sync_folder(target.parent)


def _take_name(temporary: Path, target: Path) -> None:
    """Rename a file to a name that nothing has, by way of an empty file, which nobody else can create as well."""
    target.touch(exist_ok=False)
    try:
        temporary.replace(target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


@contextmanager
def _temporary_file(target: Path, content: Iterable[bytes], mode: int | None = None) -> Iterator[Path]:
    """Yield a file beside the target that holds this, even after a power cut, and remove it if it is still there."""
    temporary = target.with_name(TEMPORARY.replace("*", token_hex(8)))
    try:
        with open(temporary, "xb") as file:  # noqa: PTH123
            if mode is not None:
                os.fchmod(file.fileno(), S_IMODE(mode))
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _encoded(text: str | Iterable[str]) -> Iterator[bytes]:
    return (piece.encode() for piece in ((text,) if isinstance(text, str) else text))


def append_to_regular_file(path: Path, text: str, limit: int | None = None) -> bool:
    """Append a text in one write, and return whether there was room for it.

    Args:
        path: A regular file that exists.
        limit: How many bytes the file may have then.

    Raises:
        OSError: It is no such file, or cannot be written.
    """
    content = text.encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if limit is not None and status.st_size + len(content) > limit:
            return False
        if os.write(descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, "no space left")
    finally:
        os.close(descriptor)
    return True


def remove_regular_file(path: str | Path) -> bool:
    """Remove what `write_text_atomically` would replace: a regular file, or the one that a symbolic link leads to.

    Returns:
        Whether there was one.

    Raises:
        OSError: It cannot be removed.
    """
    require_no_way_out(path)
    target = Path(os.path.realpath(path))
    is_there = target.is_file()
    if is_there:
        target.unlink()
    return is_there


def sync_tree(folder: Path) -> None:
    """Make what other processes of this machine wrote into a folder last through a power cut, names included.

    Args:
        folder: The folder; what is in it is not written any more.

    Raises:
        OSError: A file cannot be written to the disk.
    """
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            sync_file(path)
    sync_folder(folder)
    sync_folder(folder.parent)


def sync_file(path: Path) -> None:
    """Make what another process wrote into a file last through a power cut.

    Raises:
        OSError: It cannot be written to the disk.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder last through a power cut; not every file system can."""
    with suppress(OSError):
        sync_file(folder)
