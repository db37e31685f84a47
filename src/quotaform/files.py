"""The one way to read a file that a user names; `quotaform.atomic_file` is the one way to write one.

What is read is a regular file and bounded, or the reading ends with the reason. Who named the file decides where it
may be:

| named by | argument | links | also read |
| --- | --- | --- | --- |
| the operator, on the command line | `within=None` | lead anywhere | open descriptors: `/dev/stdin`, `<(command)` |
| a repository | `within=folder` | lead to somewhere in the folder, not in its `.git` | nothing |

A named pipe, a socket and a device are refused and never waited for.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from re import compile as regex
from stat import S_ISBLK, S_ISCHR, S_ISDIR, S_ISFIFO, S_ISSOCK
from typing import Final

from quotaform.errors import FileReadError, NotTextError

MIB: Final = 1 << 20
CONFIG_LIMIT: Final = 16 * MIB
"""The most bytes of quotaform.yaml."""
QUOTAS_LIMIT: Final = 64 * MIB
"""The most bytes of a file of quotas; 100,000 entries take about 10 MiB."""
PLAN_LIMIT: Final = 256 * MIB
"""The most bytes of a saved plan; 200,000 new entities take about 200 MiB."""
RECEIPT_LIMIT: Final = 128 * MIB
"""The most bytes of a receipt; 200,000 entities take about 60 MiB."""
SNAPSHOT_LIMIT: Final = 64 * MIB
"""The most bytes of a snapshot; 100,000 entities take about 20 MiB."""
REQUESTS_LIMIT: Final = 64 * MIB
"""The most bytes of a file of requests to resolve; 1,000,000 requests take about 20 MiB."""
POLICY_LIMIT: Final = MIB
"""The most bytes of a policy; one with 100 rules takes about 50 KiB."""
PROPERTIES_LIMIT: Final = MIB
"""The most bytes of a client properties file, which may hold PEM stores."""
PEM_LIMIT: Final = 16 * MIB
"""The most bytes of a PEM store; the certificates of a whole system take less than 1 MiB."""

LEADS_OUT: Final = "a link leads out of the directory that was given; links are followed only within it"
"""Why what a repository names is not read although it exists."""

OF_GIT: Final = "it is part of .git, which may contain a token"
"""Why it is not read either, such as the configuration of a clone."""

WRITES_OUT: Final = "a link leads out of the current directory; give the path that it leads to"
"""Why nothing is written where the operator seems to have said."""

_CHUNK: Final = 1 << 16
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


def read_bytes(path: str | Path, limit: int, *, within: Path | None = None, is_start: bool = False) -> bytes:
    """Read a file.

    Args:
        limit: The most bytes that it may have.
        within: The folder that the file lies in, outside of `.git` and wherever links lead to, because a repository
            names it; `None` for a file that the operator names.
        is_start: Whether only the start of a larger regular file is wanted.

    Raises:
        FileReadError: It cannot be read, or is larger than the limit.
    """
    try:
        descriptor = _open(path, within)
        try:
            is_open = within is None and _DESCRIPTOR(os.fspath(path)) is not None
            return _read(path, descriptor, limit, takes_stream=is_open, is_start=is_start)
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
        return "its name contains a character that file names cannot contain"
    return "its name contains a NUL character"


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
    if str(Path(path).parent) == str(within) and Path(path).name.lower() != ".git":
        try:
            return os.open(path, _FLAGS | _NO_LINK)
        except OSError as error:
            if error.errno not in _IS_LINK:
                raise
    folder, real = os.path.realpath(within), os.path.realpath(path)
    _require_within(folder, real)
    descriptor = os.open(real, _FLAGS | _NO_LINK)
    try:
        _require_within(folder, _opened_path(descriptor) or real)
    except PermissionError:
        os.close(descriptor)
        raise
    return descriptor


def _require_within(folder: str, real: str) -> None:
    if not _holds(folder, real):
        raise PermissionError(errno.EPERM, LEADS_OUT)
    # Some file systems know no case.
    if ".git" in Path(real[len(folder) :].lower()).parts:
        raise PermissionError(errno.EPERM, OF_GIT)


def _opened_path(descriptor: int) -> str | None:
    """Return where an open file lies, whatever became of the path meanwhile; `None` where there is no `/proc`.

    Without it, a folder that somebody replaces by a link between two steps is followed.
    """
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    except OSError:
        return None


def _read(path: str | Path, descriptor: int, limit: int, *, takes_stream: bool, is_start: bool) -> bytes:
    status = os.fstat(descriptor)
    is_stream = takes_stream and (S_ISFIFO(status.st_mode) or S_ISSOCK(status.st_mode))
    if not is_stream:
        for is_kind, reason in _KINDS:
            if is_kind(status.st_mode):
                raise FileReadError(str(path), reason)
    if status.st_size > limit:
        if is_start:
            return os.read(descriptor, limit)
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
