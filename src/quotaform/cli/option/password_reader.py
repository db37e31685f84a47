"""Where the passwords of `quotaform scram upsert` come from: files, environment variables, or a terminal."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from re import compile as regex
from typing import TYPE_CHECKING, Final

from quotaform.errors import FileReadError, UsageError
from quotaform.files import read_bytes, read_stdin
from quotaform.model.secret import Secret

if TYPE_CHECKING:
    from quotaform.cli.console import Console

STDIN: Final = Path("-")
"""Stands for the standard input where a password file is asked for."""
_MOST_BYTES: Final = 1 << 16
_VARIABLE: Final = regex(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


def read_passwords(
    users: Sequence[str], files: Sequence[Path], variables: Sequence[str], console: Console
) -> Mapping[str, Secret]:
    """Return the password of each user from files or the environment; none when they are to be asked for."""
    if files and variables:
        raise UsageError("--password-file and --password-env cannot be combined; give one of them")
    if not files and not variables:
        if not sys.stdin.isatty():
            raise UsageError("there is no terminal for the password prompt; use --password-file or --password-env")
        return {}
    option = "--password-file" if files else "--password-env"
    count = len(files or variables)
    if count not in (1, len(users)):
        raise UsageError(f"{option} is given {count} times for {len(users)} users; give one for all or one for each")
    passwords = [read_password_variable(name) for name in variables]
    for number, path in enumerate(files, 1):
        where = "the password file" if count == 1 else f"password file {number}"
        passwords.append(read_password_file(path, where))
        if is_open_to_all(path):
            console.warn(f"Warning: every user of this machine can read {where}; run chmod 600 on it.")
    return dict(zip(users, passwords * (1 if count == len(users) else len(users)), strict=True))


def ask_password(user: str) -> Secret:
    """Ask for a password on the terminal, twice, without showing it."""
    from getpass import GetPassWarning, getpass
    from warnings import catch_warnings, simplefilter

    from quotaform.model.entity import spell_name

    name = spell_name(user)
    try:
        with catch_warnings():
            # It would go on and show what is typed.
            simplefilter("error", GetPassWarning)
            first = require_password(getpass(f"Password for {name}: "), f"the password for {name}")
            is_same = getpass(f"Repeat the password for {name}: ") == first.reveal()
    except GetPassWarning:
        raise UsageError("this terminal would display the password; use --password-file or --password-env") from None
    except EOFError:
        raise UsageError(f"no password was given for {name}; nothing was changed") from None
    if not is_same:
        raise UsageError(f"the two passwords for {name} differ; nothing was changed")
    return first


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

    Raises `UsageError` if it is not set, or holds no password; the message shows nothing of it.
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
