"""The one way to read a file that a user names, and the one way to write one: whole or not at all.

What is read is a regular file and bounded, or the reading ends with the reason. Who named the file decides where it
may be:

| named by | argument | links | also read |
| --- | --- | --- | --- |
| the operator, on the command line | `within=None` | lead anywhere | open descriptors: `/dev/stdin`, `<(command)` |
| a repository | `within=folder` | lead to somewhere in the folder, not in its `.git` | nothing |

A named pipe, a socket and a device are refused and never waited for.

A folder that Spark fills is made beside its place, and what a killed process left there goes with the next.

Locks between processes (`flock`) are advisory, local, and released by the operating system when a process ends. Where
the file system has none, there is no lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from re import compile as regex
from stat import S_IMODE, S_ISBLK, S_ISCHR, S_ISFIFO, S_ISREG, S_ISSOCK
from types import MappingProxyType
from typing import Final

from quotaform.model.errors import FileReadError, QuotaformError, UsageError
from quotaform.model.text import MIB, size_text


@contextmanager
def writing(path: object, ends: str = "") -> Iterator[None]:
    """Raise `QuotaformError`, with what follows at its end, where a block cannot write a file."""
    try:
        yield
    except OSError as error:
        raise QuotaformError(f"{path} cannot be written: {error.strerror or error}{ends}") from error


def write_files(files: Mapping[str, str], before: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write files and make folders, or nothing at all; `before` is what those files hold that are there already.

    Raises `QuotaformError` if one cannot be written, or is there and not in `before`.
    """
    undo: list[Callable[[], object]] = []
    try:
        for name, text in files.items():
            path = Path(name)
            with writing(path, "; no file was changed"):
                for folder in reversed([folder for folder in path.parents if not folder.exists()]):
                    folder.mkdir(exist_ok=True)
                    undo.append(folder.rmdir)
                if name in before:
                    write_atomically(path, text)
                    undo.append(partial(write_atomically, path, before[name]))
                else:
                    write_new_text(path, text)
                    undo.append(path.unlink)
    except BaseException:
        for step in reversed(undo):
            with suppress(OSError, QuotaformError):
                step()
        raise


CONFIG_LIMIT: Final = 16 * MIB
QUOTAS_LIMIT: Final = 64 * MIB  # 100,000 entries take about 10 MiB
PLAN_LIMIT: Final = 256 * MIB  # 200,000 new entities take about 200 MiB
RECEIPT_LIMIT: Final = 128 * MIB  # 200,000 entities take about 60 MiB
SNAPSHOT_LIMIT: Final = 64 * MIB  # 100,000 entities take about 20 MiB
REQUESTS_LIMIT: Final = 64 * MIB  # 1,000,000 requests to resolve take about 20 MiB
POLICY_LIMIT: Final = MIB  # one with 100 rules takes about 50 KiB
PROPERTIES_LIMIT: Final = MIB  # client properties, which may hold PEM stores
PEM_LIMIT: Final = 16 * MIB  # the certificates of a whole system take less than 1 MiB
"""The most bytes of each kind of file."""

LEADS_OUT: Final = "a link leads out of the directory that was given; links are followed only within it"
"""Why what a repository names is not read although it exists."""

OF_GIT: Final = "it is part of .git, which may contain a token"
"""Why it is not read either, such as the configuration of a clone."""

WRITES_OUT: Final = "a link leads out of the current directory; give the path that it leads to"
"""Why nothing is written where the operator seems to have said."""

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_DESCRIPTOR: Final = regex(r"/dev/stdin|(?:/dev/fd|/proc/self/fd)/([0-9]{1,6})").fullmatch
_KINDS: Final = (
    (S_ISFIFO, "it is a named pipe, not a regular file"),
    (S_ISSOCK, "it is a socket, not a regular file"),
    (S_ISCHR, "it is a device, not a regular file"),
    (S_ISBLK, "it is a device, not a regular file"),
)


def read_bytes(path: str | Path, limit: int, *, within: Path | None = None, is_start: bool = False) -> bytes:
    """Read a file of at most `limit` bytes, or with `is_start` the start of a larger regular one; `within`: see above.

    Raises `FileReadError` if it cannot be read, or is larger.
    """
    try:
        is_open = within is None and _DESCRIPTOR(os.fspath(path)) is not None
        with open(path, "rb", opener=lambda *_: _open(path, within)) as file:
            mode = os.fstat(file.fileno()).st_mode
            is_stream = is_open and (S_ISFIFO(mode) or S_ISSOCK(mode))
            for reason in (reason for is_kind, reason in _KINDS if is_kind(mode) and not is_stream):
                raise FileReadError(str(path), reason)
            if is_stream:  # Else what is not there yet would be left out.
                os.set_blocking(file.fileno(), True)
            content = file.read(limit if is_start else limit + 1)
        return _bounded(content, path, limit)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        if missing and is_link(path):
            raise FileReadError(str(path), "it is a link to a file that does not exist") from None
        raise FileReadError(str(path), reason_of(error), is_missing=missing) from error
    except ValueError as error:
        raise FileReadError(str(path), reason_of(error)) from error


def read_text(path: str | Path, limit: int, *, within: Path | None = None) -> str:
    """Read a file that is text in UTF-8, with or without a byte order mark; line ends become `\\n`; see `read_bytes`.

    Raises `FileReadError` if it is not UTF-8.
    """
    try:
        text = read_bytes(path, limit, within=within).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileReadError(str(path), "it is not UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_stdin(limit: int) -> bytes:
    """Read the standard input to its end. Raises `FileReadError` if it is closed, or as for `read_bytes`."""
    name = "the standard input"
    if sys.stdin is None:
        raise FileReadError(name, "it is closed")
    with suppress(OSError, ValueError):
        os.set_blocking(sys.stdin.fileno(), True)
    try:
        return _bounded(sys.stdin.buffer.read(limit + 1), name, limit)
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


def trusted_folder(path: str | Path, folder: Path) -> Path:
    """Return the folder to read a path `within` that a file of a repository spells out.

    A path that plainly leads out of the repository (absolute, or with `..`) is followed: a reviewer of the file
    sees it. Where a link leads is not seen.
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
    folder, real = os.path.realpath(within), os.path.realpath(path)
    _require_within(folder, real)
    descriptor = os.open(real, _FLAGS | os.O_NOFOLLOW)
    try:
        # Where the open file lies, whatever became of the path meanwhile; without a `/proc` that is not known.
        with suppress(OSError):
            real = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
        _require_within(folder, real)
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


def _bounded(content: bytes, path: str | Path, limit: int) -> bytes:
    """Return what was read: a file may grow meanwhile, and some have no size (/proc, a pipe)."""
    if len(content) > limit:
        raise FileReadError(str(path), f"it is larger than {size_text(limit)}")
    return content


def require_no_way_out(path: str | Path) -> None:
    """Make sure that a path in the current directory, by which a file is written, leads to somewhere in it.

    The current directory may be somebody's repository, with a link where the operator writes: `plan.json -> ~/.bashrc`.
    A path that is spelled as one elsewhere leads anywhere. Raises `PermissionError` if a link leads out.
    """
    try:
        current = os.getcwd()  # noqa: PTH109
    except FileNotFoundError:  # It was removed; nothing is in it.
        return
    if _holds(current, os.path.abspath(path)) and not is_within(path, current):  # noqa: PTH100
        raise PermissionError(errno.EPERM, WRITES_OUT)


_HAS_NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK})
TEMPORARY: Final = ".quotaform-*.tmp"
"""What temporary files are called; a process that is killed leaves one."""
_READER_SECONDS: Final = 2.0  # how long a named pipe is given to be read from

Content = str | Iterable[str | bytes]
"""What is written: text, in UTF-8 with its line ends as they are, or pieces of text or bytes."""


def write_atomically(path: str | Path, content: Content) -> None:
    """Write a file by way of a temporary one in its folder, so that a reader sees the old or the new one, never a part.

    Its folder must exist. The mode of an existing file stays, a symbolic link stays a link, and what is no regular file
    (a pipe, `/dev/stdout`) is written to as it is.

    Raises `OSError` if it cannot be written, and what was before is still there; `UsageError` for a folder.
    """
    require_no_way_out(path)
    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode if target.exists() else None
    if target.is_dir():
        raise UsageError(f"{path} is a directory; give the name of a file in it.")
    if mode is not None and not S_ISREG(mode):
        with os.fdopen(_open_for_writing(path), "wb") as file:
            file.writelines(_encoded(content))
        return
    with _temporary_file(target, content, mode) as temporary:
        temporary.replace(target)
    sync_folder(target.parent)


def _open_for_writing(path: str | Path) -> int:
    """Open what is no regular file; a named pipe without a reader is waited for only a moment."""
    deadline = time.monotonic() + _READER_SECONDS
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.ENXIO, "nothing reads from it") from None
            time.sleep(0.02)
        else:
            os.set_blocking(descriptor, True)
            return descriptor


def require_writable(path: Path, *, makes_folder: bool = True) -> None:
    """Make sure that a file can be written later, before anything else is done.

    Unless its folder is made, the nearest one that exists must be one to write to.
    """
    with writing(path, "; nothing was done"):
        require_no_way_out(path)
        folder = path.parent
        if makes_folder:
            folder.mkdir(parents=True, exist_ok=True)
        while not makes_folder and not folder.exists() and folder != folder.parent:
            folder = folder.parent
        is_folder = path.is_dir()  # Raises for a name that is too long, which must not show after an apply.
    if is_folder or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise QuotaformError(f"{path} cannot be written; nothing was done: name another file")


def write_new_text(path: str | Path, text: Content) -> None:
    """Write a file of text in UTF-8 that does not exist yet, so that a reader sees all of it or no file.

    Its folder must exist. Where the file system has no hard links, a reader may see an empty file for a moment.

    Raises `FileExistsError` if there is something of this name; `OSError` if it cannot be written, and there is none.
    """
    require_no_way_out(path)
    target = Path(path)
    with _temporary_file(target, text) as temporary:
        try:
            target.hardlink_to(temporary)
        except OSError as error:
            if error.errno not in _HAS_NO_HARD_LINKS:
                raise
            # By way of an empty file, which no other process can create as well.
            target.touch(exist_ok=False)
            try:
                temporary.replace(target)
            except BaseException:
                target.unlink(missing_ok=True)
                raise
    sync_folder(target.parent)


@contextmanager
def _temporary_file(target: Path, content: Content, mode: int | None = None) -> Iterator[Path]:
    """Yield a file next to the target that holds this, even after a power cut, and remove it if it is still there."""
    temporary = target.with_name(TEMPORARY.replace("*", os.urandom(8).hex()))
    try:
        with open(temporary, "xb") as file:  # noqa: PTH123
            if mode is not None:
                os.fchmod(file.fileno(), S_IMODE(mode))
            file.writelines(_encoded(content))
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _encoded(content: Content) -> Iterator[bytes]:
    pieces = (content,) if isinstance(content, str) else content
    return (piece.encode() if isinstance(piece, str) else piece for piece in pieces)


def append_to_regular_file(path: Path, text: str, limit: int | None = None) -> bool:
    """Append a text to a file that exists in one write, and return whether that leaves it within the limit of bytes.

    Raises `OSError` if it is no regular file, or cannot be written.
    """
    content = text.encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
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
    """Remove what `write_atomically` would replace, and return whether it was there. Raises `OSError`."""
    require_no_way_out(path)
    target = Path(os.path.realpath(path))
    is_there = target.is_file()
    if is_there:
        target.unlink()
    return is_there


def sync_tree(folder: Path) -> None:
    """Make what other processes wrote into a folder last through a power cut, names included. Raises `OSError`."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            _sync(path)
    sync_folder(folder)
    sync_folder(folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder last through a power cut; not every file system can."""
    with suppress(OSError):
        _sync(folder)


_MOST_SECONDS: Final = 10.0  # how long another process is waited for; anybody who may read a folder can lock it
_PAUSE: Final = 0.02


def take_lock(descriptor: int, *, shared: bool = False, patience: float = 0.0) -> bool:
    """Lock an open file, or share its lock, and return whether no other process holds it.

    Another process is waited for up to `patience` seconds. The lock lives in every process that inherited the
    descriptor, and goes with the last of them.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE)
        except OSError:  # A file system without locks.
            return True
        else:
            return True


@contextmanager
def update_lock(path: Path) -> Iterator[str | None]:
    """Hold the lock under which a file is read and written anew, so that no other process's change is lost meanwhile.

    The folder is locked: the file is replaced by each write, and a lock file next to it would have to stay. After
    `_MOST_SECONDS`, the file is updated without the lock. Yields a warning if another process holds it then.
    """
    folder = Path(os.path.realpath(path)).parent
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError):
        yield None
        return
    try:
        is_locked = take_lock(descriptor, patience=_MOST_SECONDS)
        unlocked = (
            f"{path} is written without a lock, because another process keeps its folder locked; "
            "what other runs write to it at the same time may be lost"
        )
        yield None if is_locked else unlocked
    finally:
        os.close(descriptor)


_STAGED: Final = "_staged-"
_STAGED_BY: Final = "host"
_LONGEST_STAGED: Final = 7 * 24 * 3600  # seconds


@contextmanager
def staged_folder(table: Path) -> Iterator[Path]:
    """Yield the path of a folder in a table that does not exist yet; it is removed if it is there at the end.

    No reader of Parquet looks there. The folder of the table is made, and what killed processes have left in it goes.
    """
    table.mkdir(parents=True, exist_ok=True)
    remove_dead(table, time.time())
    staged = table / f"{_STAGED}{os.urandom(6).hex()}"
    staged.mkdir()
    descriptor = os.open(staged, os.O_RDONLY)
    try:
        if take_lock(descriptor) and _is_locked(staged):
            (staged / _STAGED_BY).write_text(os.uname().nodename, encoding="utf-8")
        yield staged / "rows"
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        os.close(descriptor)


def remove_dead(table: Path, now: float) -> None:
    """Remove what processes that were killed have left in a table; `now` is in seconds since the epoch."""
    for staged in table.glob(f"{_STAGED}*"):
        # Another process may do the same now, or may not let this one.
        with suppress(OSError):
            host = staged / _STAGED_BY
            if host.exists() and host.read_text(encoding="utf-8") == os.uname().nodename:
                is_dead = not _is_locked(staged)
            else:
                changed = max(path.lstat().st_mtime for path in (staged, *staged.rglob("*")))
                is_dead = now - changed > _LONGEST_STAGED
            if is_dead:
                shutil.rmtree(staged, ignore_errors=True)


def _is_locked(folder: Path) -> bool:
    """Whether a process holds the lock of a folder; never where there are no locks."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return not take_lock(descriptor)
    finally:
        os.close(descriptor)
