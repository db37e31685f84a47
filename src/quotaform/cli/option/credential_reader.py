"""What the options of `quotaform scram` mean that name users and mechanisms."""

from __future__ import annotations

from collections.abc import Sequence

from quotaform.cluster.scram import require_name
from quotaform.errors import UsageError
from quotaform.model.scram import ScramMechanism
from quotaform.model.text import quote


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
