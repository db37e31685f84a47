"""What the options of `quotaform scram` mean: users, mechanisms, and where passwords come from."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from re import compile as regex
from typing import Final

from quotaform.cluster.scram import require_name
from quotaform.errors import FileReadError, UsageError
from quotaform.files import read_bytes, read_stdin
from quotaform.model.scram import ScramMechanism
from quotaform.model.secret import Secret
from quotaform.model.text import quote

STDIN: Final = Path("-")
"""Stands for the standard input where a password file is asked for."""
_MOST_BYTES: Final = 1 << 16
_VARIABLE: Final = regex(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


def read_mechanisms(names: Sequence[str]) -> tuple[ScramMechanism, ...]:
    """Read the names of mechanisms, each at most once.

    Raises:
        UsageError: One does not exist or is named twice.
    """
    known = {str(mechanism): mechanism for mechanism in ScramMechanism}
    for name in names:
        if name.upper() not in known:
            raise UsageError(f"unknown SCRAM mechanism {quote(name)}; choose {' or '.join(known)}")
    return tuple(known[name] for name in _require_once("--mechanism", [name.upper() for name in names]))


def require_users(names: Sequence[str]) -> Sequence[str]:
    """Make sure that these can be names of users, each given once.

    Raises:
        UsageError: One cannot.
    """
    for name in _require_once("--user", names):
        if not name:
            raise UsageError("--user has an empty name")
        try:
            require_name(name)
        except ValueError as error:
            raise UsageError(f"--user: {error}") from None
    return names


def _require_once(option: str, names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{option} {quote(name)} is given more than once")
    return names


def read_password_file(path: Path, where: str = "the password file") -> Secret:
    """Read a password: the one line of a file, without the line break at its end.

    Args:
        path: The file. No message shows its name: somebody may have given the password itself.
        where: What messages call the file.

    Raises:
        UsageError: The file cannot be read, or holds no password or more than a line; the message shows nothing of it.
    """
    try:
        content = read_stdin(_MOST_BYTES) if path == STDIN else read_bytes(path, _MOST_BYTES)
    except FileReadError as error:
        hint = "; --password-file takes the name of a file, not the password" if error.is_missing else ""
        raise UsageError(f"{where} cannot be read: {error.reason}{hint}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{where} is not UTF-8 text") from None
    return require_password(text.removesuffix("\n").removesuffix("\r"), where)


def read_password_variable(name: str) -> Secret:
    """Read a password from an environment variable.

    Raises:
        UsageError: It is not set, or holds no password; the message shows nothing of it.
    """
    if not _VARIABLE(name):
        # Somebody may have given the password itself, which is not repeated.
        raise UsageError("--password-env takes the name of an environment variable with the password")
    text = os.environ.get(name)
    if text is None:
        raise UsageError("the environment variable given with --password-env is not set")
    return require_password(text, f"the environment variable {name}")


def require_password(text: str, where: str) -> Secret:
    """Make sure that a text can be a password.

    Args:
        text: The text.
        where: Where it comes from, as messages say it.

    Raises:
        UsageError: It cannot; the message shows nothing of it.
    """
    if not text:
        raise UsageError(f"{where} is empty; a password must not be empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{where} is not UTF-8 text") from None
    if any(character in text for character in "\n\r\0"):
        raise UsageError(f"{where} has more than one line; a password is a single line")
    return Secret(text)


def is_open_to_all(path: Path) -> bool:
    """Whether others than its owner may read a password file."""
    if path == STDIN or os.name == "nt":
        return False
    status = path.stat()
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & (stat.S_IROTH | stat.S_IRGRP))
