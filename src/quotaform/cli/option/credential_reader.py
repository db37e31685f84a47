"""What the words of `quotaform scram` mean that name users and mechanisms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quotaform.cluster.scram import require_name
from quotaform.errors import UsageError
from quotaform.model.address import parse_address
from quotaform.model.entity import USER
from quotaform.model.scram import ScramMechanism
from quotaform.model.text import quote

NO_ARGV: Final = (
    "other processes of this machine can read a command line, and shells keep it in their history; "
    "use --password-file, --password-env or the prompt"
)
_ADDRESS: Final = "user=NAME"


def read_mechanisms(names: Sequence[str]) -> tuple[ScramMechanism, ...]:
    """Read the names of mechanisms, each at most once."""
    known = {str(mechanism): mechanism for mechanism in ScramMechanism}
    for name in names:
        if name.upper() not in known:
            raise UsageError(f"unknown SCRAM mechanism {quote(name)}; choose {' or '.join(known)}")
    return tuple(known[name] for name in _require_once("--mechanism", [name.upper() for name in names]))


def read_users(addresses: Sequence[str], names: Sequence[str], *, takes_all: bool = False) -> Sequence[str]:
    """Return the names of users from their addresses, or from `--user`; each can be a name, and is given once.

    Args:
        addresses: The arguments. No message shows one that is no address: it may be a password.
        takes_all: Whether none stands for all users.

    Raises:
        UsageError: One is not the address of a user, or there are none, or both ways.
    """
    if addresses and names:
        raise UsageError("users are given by their addresses; leave --user out")
    users = [_read_user(text) for text in addresses] or list(names)
    if not users and not takes_all:
        raise UsageError(f"no user is given; write the address, as in {_ADDRESS}")
    for name in _require_once("user", users):
        try:
            require_name(name)
        except ValueError as error:
            raise UsageError(f"user: {error}") from None
    return users


def _read_user(text: str) -> str:
    try:
        names = parse_address(text).names
    except ValueError:
        names = {}
    if names.keys() == {USER} and (name := names[USER]):
        return name
    raise UsageError(
        f"an argument is not the address of a user; write {_ADDRESS}, or 'user=\"CN=a,O=b\"' in quotes. If it was a "
        f"password: {NO_ARGV}"
    )


def _require_once(option: str, names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{option} {quote(name)} is given more than once")
    return names
