"""`quotaform scram`: the SCRAM credentials of a cluster's users (KIP-554)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from re import fullmatch
from stat import S_IRGRP, S_IROTH, S_ISREG
from typing import TYPE_CHECKING, Final

from quotaform.cli.console import Console, require_confirmed
from quotaform.cli.option.cluster import ONE_CLUSTER, Clusters
from quotaform.cli.option.common import AUTO_APPROVE, NO_ARGV, REQUIRED, argument, complete_from, option
from quotaform.cli.option.run import Output, printed
from quotaform.model.entity import USER, parse_address, spell_name
from quotaform.model.errors import ExitCode, FileReadError, UsageError, as_usage_error
from quotaform.model.text import Secret, quote
from quotaform.system.files import read_bytes, read_stdin

if TYPE_CHECKING:
    from quotaform.cluster.records import ScramMechanism, ScramResult
    from quotaform.cluster.scram import ScramGateway


USERS: Final = argument("[ENTITY]...", "Users by address, e.g. user=alice.", complete=complete_from(["user="]))
MECHANISMS: Final = option("--mechanism NAME", "SCRAM-SHA-512 or SCRAM-SHA-256. Repeatable.", REQUIRED)


def describe(
    *,
    entities: list[str] | None = USERS,
    target: Clusters = ONE_CLUSTER,
    output: Output = printed("scram"),
) -> int:
    """Show which users have SCRAM credentials, with mechanisms and iterations; clusters do not store passwords.

    Without an argument, all users. Exit 1 if a user that is given has none.

    \b
    Examples:
      quotaform scram describe
      quotaform scram describe user=alice user=bob --format json
    """
    from quotaform.repository.run import open_scram

    console = output.console
    names = read_users(entities or (), takes_all=True)
    with open_scram(target.choose_one()) as gateway:
        console.progress("Reading SCRAM credentials", 0, 0)
        users = gateway.describe(names)
        output.print(users, cluster_name=gateway.name, cluster_id=gateway.cluster_id)
    return ExitCode.most_severe(user.exit_code for user in users)


def upsert(
    *,
    entities: list[str] | None = USERS,
    mechanism: list[str] = MECHANISMS,
    iterations: int = option(
        "--iterations N", "Number of hash iterations; brokers accept 4096 to 16384.", 4096, min=1, max=100_000
    ),
    password_file: list[Path] | None = option(
        "--password-file FILE", "File with the password as its only line; - is stdin. Repeatable."
    ),
    password_env: list[str] | None = option(
        "--password-env VAR", "Environment variable with the password. Repeatable."
    ),
    target: Clusters = ONE_CLUSTER,
    auto_approve: bool = AUTO_APPROVE,
    output: Output = printed("scram-result"),
) -> int:
    """Create or update the SCRAM credentials of users: each user with each mechanism, all with the same iterations.

    Passwords are read from the terminal (asked for twice), files or environment variables: one for all users, or one
    per user in the same order. They are salted and hashed locally; only the result is sent. Names and passwords are
    used as their UTF-8 bytes, without SASLprep, as in Kafka's own tools.

    Exit 1 if nothing was set, 6 if only some credentials were.

    \b
    Examples:
      quotaform scram upsert user=alice --mechanism SCRAM-SHA-512
      quotaform scram upsert user=alice --mechanism SCRAM-SHA-512 --password-file alice.password
      quotaform scram upsert user=a user=b --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512 --password-env PW
    """
    from quotaform.repository.run import open_scram

    console = output.console
    console.keep_code()
    mechanisms = read_mechanisms(mechanism)
    users = read_users(entities or ())
    chosen = target.choose_one()
    require_confirmed(console, chosen, auto_approve=auto_approve)
    passwords = read_passwords(users, password_file or (), password_env or (), console)
    with open_scram(chosen) as gateway:
        if not passwords:
            passwords = {name: ask_password(name) for name in users}
        console.progress("Setting SCRAM credentials", 0, 0)
        result = gateway.upsert(passwords, mechanisms, iterations)
        return _conclude(result, gateway, output)


def delete(
    *,
    entities: list[str] | None = USERS,
    mechanism: list[str] = MECHANISMS,
    target: Clusters = ONE_CLUSTER,
    auto_approve: bool = AUTO_APPROVE,
    output: Output = printed("scram-result"),
) -> int:
    """Delete the SCRAM credentials of users: those of each user for each mechanism.

    Quotas are not changed. Exit 1 if nothing was deleted, 6 if only some credentials were. Brokers that restart soon
    afterwards may lose all users of the mechanism (seen on Kafka 4.3.1): check with quotaform scram describe.

    \b
    Examples:
      quotaform scram delete user=alice --mechanism SCRAM-SHA-256
    """
    from quotaform.repository.run import open_scram

    console = output.console
    console.keep_code()
    mechanisms = read_mechanisms(mechanism)
    users = read_users(entities or ())
    chosen = target.choose_one()
    require_confirmed(console, chosen, auto_approve=auto_approve)
    with open_scram(chosen) as gateway:
        console.progress("Deleting SCRAM credentials", 0, 0)
        result = gateway.delete(users, mechanisms)
        code = _conclude(result, gateway, output)
    if result.wrote_anything:
        console.warn(
            "Note: Kafka brokers (seen on 4.3.1) that restart soon after a SCRAM user was deleted may lose all users "
            "of that mechanism. Check with quotaform scram describe after a restart."
        )
    return code


def _conclude(result: ScramResult, gateway: ScramGateway, output: Output) -> int:
    output.print(result, cluster_name=gateway.name, cluster_id=gateway.cluster_id)
    if result.interrupt is not None:
        raise result.interrupt
    return result.exit_code


def read_mechanisms(names: Sequence[str]) -> tuple[ScramMechanism, ...]:
    """Read the names of mechanisms, each at most once."""
    from quotaform.cluster.records import ScramMechanism

    known = {str(mechanism): mechanism for mechanism in ScramMechanism}
    for name in names:
        if name.upper() not in known:
            raise UsageError(f"unknown SCRAM mechanism {quote(name)}; choose {' or '.join(known)}")
    return tuple(known[name] for name in _require_once("--mechanism", [name.upper() for name in names]))


def read_users(addresses: Sequence[str], *, takes_all: bool = False) -> Sequence[str]:
    """Return the names of users from their addresses; with `takes_all`, none stands for all users.

    No message shows an argument that is no address: it may be a password.
    """
    from quotaform.cluster.wire.message import encode_text

    users: list[str] = []
    for text in addresses:
        with suppress(ValueError):
            parts = parse_address(text).names
            if parts.keys() == {USER} and (name := parts[USER]):
                users.append(name)
                continue
        raise UsageError(
            "an argument is not the address of a user; write user=NAME, or 'user=\"CN=a,O=b\"' in quotes. If it was a "
            f"password: {NO_ARGV}"
        )
    if not users and not takes_all:
        raise UsageError("no user is given; write the address, as in user=NAME")
    for name in _require_once("user", users):
        with as_usage_error("user: "):
            encode_text(name)
    return users


def _require_once(option: str, names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{option} {quote(name)} is given more than once")
    return names


STDIN: Final = Path("-")
"""Stands for the standard input where a password file is asked for."""
_MOST_BYTES: Final = 1 << 16


def read_passwords(
    users: Sequence[str], files: Sequence[Path], variables: Sequence[str], console: Console
) -> Mapping[str, Secret]:
    """Return the password of each user from files or the environment; none when they are to be asked for."""
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
            console.warn_of(f"every user of this machine can read {where}; run chmod 600 on it.")
    return dict(zip(users, passwords * (1 if count == len(users) else len(users)), strict=True))


def ask_password(user: str) -> Secret:
    """Ask for a password on the terminal, twice, without showing it."""
    from getpass import GetPassWarning, getpass
    from warnings import catch_warnings, simplefilter

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

    No message shows the name of the file: somebody may have given the password itself.
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
    """Read a password from an environment variable; no message shows anything of it."""
    if not fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        # Somebody may have given the password itself, which is not repeated.
        raise UsageError("--password-env takes the name of an environment variable with the password")
    text = os.environ.get(name)
    if text is None:
        raise UsageError("the environment variable given with --password-env is not set")
    return require_password(text, f"the environment variable {name}")


def require_password(text: str, where: str) -> Secret:
    """Make sure that a text can be a password. `where`: where it comes from, as messages say it."""
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
    if path == STDIN:
        return False
    status = path.stat()
    return S_ISREG(status.st_mode) and bool(status.st_mode & (S_IROTH | S_IRGRP))
