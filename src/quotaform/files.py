"""The one way to read a file that a user names, and the one way to write one: whole or not at all.

What is read is a regular file and bounded, or the reading ends with the reason. Who named the file decides where it
may be:

| named by | argument | links | also read |
| --- | --- | --- | --- |
| the operator, on the command line | `within=None` | lead anywhere | open descriptors: `/dev/stdin`, `<(command)` |
| a repository | `within=folder` | lead to somewhere in the folder | nothing |

A named pipe, a socket and a device are refused and never waited for.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from re import compile as regex
from secrets import token_hex
from stat import S_IMODE, S_ISBLK, S_ISCHR, S_ISDIR, S_ISFIFO, S_ISREG, S_ISSOCK
from typing import Final

from quotaform.errors import FileReadError, NotTextError, UsageError

MIB: Final = 1 << 20
CONFIG_LIMIT: Final = 16 * MIB
"""The most bytes of quotaform.yaml."""
QUOTAS_LIMIT: Final = 64 * MIB
"""The most bytes of a file of quotas; 100,000 entries take about 10 MiB."""
PLAN_LIMIT: Final = 256 * MIB
"""The most bytes of a saved plan; 200,000 new entities take about 200 MiB."""
SNAPSHOT_LIMIT: Final = 64 * MIB
"""The most bytes of a snapshot; 100,000 entities take about 20 MiB."""
REQUESTS_LIMIT: Final = 64 * MIB
"""The most bytes of a file of requests to resolve; 1,000,000 requests take about 20 MiB."""
PROPERTIES_LIMIT: Final = MIB
"""The most bytes of a client properties file, which may hold PEM stores."""
PEM_LIMIT: Final = 16 * MIB
"""The most bytes of a PEM store; the certificates of a whole system take less than 1 MiB."""

LEADS_OUT: Final = "a link leads out of the directory that was given; links are followed only within it"
"""Why what a repository names is not read although it exists."""

WRITES_OUT: Final = "a link leads out of the current directory; give the path that it leads to"
"""Why nothing is written where the operator seems to have said."""

_CHUNK: Final = 1 << 16
_READER_SECONDS: Final = 2.0
"""How long a named pipe is given to be read from."""
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
# Absent on Windows, where creating a link is a privilege.
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_IS_LINK: Final = frozenset({errno.ELOOP, errno.EMLINK, getattr(errno, "EFTYPE", errno.ELOOP)})
_DESCRIPTOR: Final = regex(r"/dev/stdin|(?:/dev/fd|/proc/self/fd)/([0-9]{1,6})").fullmatch
_KINDS: Final = (
    (S_ISDIR, "Is a directory"),
    (S_ISFIFO, "it is a named pipe, not a regular file"),
    (S_ISSOCK, "it is a socket, not a regular file"),
    (S_ISCHR, "it is a device, not a regular file"),
    (S_ISBLK, "it is a device, not a regular file"),
)


def read_bytes(path: str | Path, limit: int, *, within: Path | None = None) -> bytes:
    """Read a file.

    Args:
        path: The file.
        limit: The most bytes that it may have.
        within: The folder that the file lies in, wherever links lead to, because a repository names it; `None` for a
            file that the operator names.

    Raises:
        FileReadError: It cannot be read, or is larger than the limit.
    """
    try:
        descriptor = _open(path, within)
        try:
            is_open = within is None and _DESCRIPTOR(os.fspath(path)) is not None
            return _read(path, descriptor, limit, takes_stream=is_open)
        finally:
            os.close(descriptor)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        if missing and is_link(path):
            raise FileReadError(str(path), "it is a link to a file that does not exist") from None
        raise FileReadError(str(path), reason_of(error), is_missing=missing) from error
    except ValueError as error:
        raise FileReadError(str(path), reason_of(error)) from error


def read_text(path: str | Path, limit: int, *, within: Path | None = None) -> str:
    """Read a file that is text in UTF-8, with or without a byte order mark; line ends become `\\n`.

    Args:
        path: The file.
        limit: The most bytes that it may have.
        within: As for `read_bytes`.

    Raises:
        FileReadError: It cannot be read, or is larger than the limit.
        NotTextError: It is not UTF-8.
    """
    try:
        text = read_bytes(path, limit, within=within).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotTextError(str(path)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_stdin(limit: int) -> bytes:
    """Read the standard input to its end.

    Raises:
        FileReadError: It is closed, cannot be read, or is larger than the limit.
    """
    name = "the standard input"
    if sys.stdin is None:
        raise FileReadError(name, "it is closed")
    stream = sys.stdin.buffer
    try:
        return _gather(lambda _: stream.read(_CHUNK), name, limit)
    except (OSError, ValueError) as error:
        raise FileReadError(name, reason_of(error) if isinstance(error, OSError) else "it is closed") from error


def reason_of(error: OSError | ValueError) -> str:
    """Return in words why a path cannot be used; never a text of the path itself."""
    if isinstance(error, OSError):
        if error.errno == errno.ENXIO:
            return "it is a socket or a device, not a regular file"
        return error.strerror or "the operating system gives no reason"
    if isinstance(error, UnicodeError):
        return "its name holds a character that no file name can hold"
    return "its name holds a NUL character"


def size_text(limit: int) -> str:
    """Return a limit as messages show it.

    >>> size_text(64 * MIB), size_text(1 << 16)
    ('64 MiB', '64 KiB')
    """
    return f"{limit // MIB} MiB" if limit >= MIB else f"{limit // 1024} KiB"


def trusted_folder(path: str | Path, folder: Path) -> Path:
    """Return the folder to read a path `within` that a file of a repository spells out.

    A path that plainly leads out of the repository (absolute, or with `..`) is followed: whoever reviews the file
    sees it. Where a link leads is not seen.

    >>> trusted_folder("repo/client.properties", Path("repo")), trusted_folder("repo/../x", Path("repo"))
    (PosixPath('repo'), PosixPath('/'))
    """
    # `Path.resolve` would follow links.
    top, spelled = os.path.abspath(folder), os.path.abspath(path)  # noqa: PTH100
    return folder if _holds(top, spelled) else Path(Path(spelled).anchor)


def is_folder(path: str | Path) -> bool:
    """Whether a path leads to a folder; false for what is no path, where `Path.is_dir` raises."""
    return os.path.isdir(path)  # noqa: PTH112


def is_link(path: str | Path) -> bool:
    """Whether a path is a symbolic link; false for what is no path, where `Path.is_symlink` raises."""
    return os.path.islink(path)  # noqa: PTH114


def is_within(path: str | Path, folder: str | Path) -> bool:
    """Whether a path leads to somewhere in a folder, or to the folder itself, once all links are followed."""
    return _holds(os.path.realpath(folder), os.path.realpath(path))


def _holds(folder: str, path: str) -> bool:
    try:
        return os.path.commonpath([folder, path]) == folder
    except ValueError:  # two drives
        return False


def _open(path: str | Path, within: Path | None) -> int:
    """Open a file without waiting for anybody; what it is shows in the descriptor."""
    if within is None:
        match = _DESCRIPTOR(os.fspath(path))
        return os.open(path, _FLAGS) if match is None else os.dup(int(match[1] or 0))
    if str(Path(path).parent) == str(within):
        try:
            return os.open(path, _FLAGS | _NO_LINK)
        except OSError as error:
            if error.errno not in _IS_LINK:
                raise
    if not is_within(path, within):
        raise PermissionError(errno.EPERM, LEADS_OUT)
    # Nothing is opened by way of a link: what was checked is what is read.
    return os.open(os.path.realpath(path), _FLAGS | _NO_LINK)


def _read(path: str | Path, descriptor: int, limit: int, *, takes_stream: bool) -> bytes:
    status = os.fstat(descriptor)
    is_stream = takes_stream and (S_ISFIFO(status.st_mode) or S_ISSOCK(status.st_mode))
    if not is_stream:
        for is_kind, reason in _KINDS:
            if is_kind(status.st_mode):
                raise FileReadError(str(path), reason)
    if status.st_size > limit:
        raise _too_large(path, limit)
    size = status.st_size
    return _gather(lambda done: os.read(descriptor, size + 1 - done if done < size else _CHUNK), str(path), limit)


def _gather(read: Callable[[int], bytes], name: str, limit: int) -> bytes:
    """Read to the end and count: a file may grow while it is read, and some have no size (/proc, a pipe)."""
    pieces: list[bytes] = []
    done = 0
    while piece := read(done):
        pieces.append(piece)
        done += len(piece)
        if done > limit:
            raise _too_large(name, limit)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(path: str | Path, limit: int) -> FileReadError:
    return FileReadError(str(path), f"it is larger than {size_text(limit)}")


def require_no_way_out(path: str | Path) -> None:
    """Make sure that a path in the current directory, by which a file is written, leads to somewhere in it.

    The current directory may be somebody's repository, with a link where the operator writes: `plan.json -> ~/.bashrc`.
    A path that is spelled as one elsewhere leads anywhere.

    Raises:
        PermissionError: A link leads out of the current directory.
    """
    try:
        current = os.getcwd()  # noqa: PTH109
    except FileNotFoundError:  # It was removed; nothing is in it.
        return
    if _holds(current, os.path.abspath(path)) and not is_within(path, current):  # noqa: PTH100
        raise PermissionError(errno.EPERM, WRITES_OUT)


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
    require_no_way_out(path)
    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode if target.exists() else None
    if target.is_dir():
        raise UsageError(f"{path} is a folder; give the name of a file in it.")
    if mode is not None and not S_ISREG(mode):
        with os.fdopen(_open_for_writing(path), "wb") as file:
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

    Args:
        path: The file to write; its folder must exist.
        text: What it will hold, whole or in pieces, encoded in UTF-8.

    Raises:
        FileExistsError: There is something of this name, which stays as it is.
        OSError: It cannot be written.
    """
    require_no_way_out(path)
    target = Path(path)
    temporary = target.with_name(f".quotaform-{token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:  # noqa: PTH123
            file.writelines(piece.encode() for piece in ((text,) if isinstance(text, str) else text))
            file.flush()
            os.fsync(file.fileno())
        try:
            target.hardlink_to(temporary)
        except FileExistsError:
            raise
        except OSError:  # Not every file system has hard links.
            target.touch(exist_ok=False)
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def remove_regular_file(path: str | Path) -> None:
    """Remove what `write_text_atomically` would replace: a regular file, or the one that a symbolic link leads to.

    Raises:
        OSError: It cannot be removed.
    """
    require_no_way_out(path)
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
