"""SCRAM credentials (KIP-554)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from quotaform.model.alteration import Outcome, Result, reason_of
from quotaform.model.entity import spell_name
from quotaform.model.errors import ExitCode

RESOURCE_NOT_FOUND: Final = 91
"""The broker's error code for a user without credentials."""
DEFAULT_ITERATIONS: Final = 4096
"""The default of Kafka's tools and the minimum of brokers; the maximum is 16384."""


class ScramMechanism(StrEnum):
    """The mechanisms that Kafka has, with their numbers in KIP-554 and the hash of each (RFC 5802, RFC 7677)."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def number(self) -> int:
        """The number on the wire."""
        return _NUMBERS[self]

    @property
    def hash_name(self) -> str:
        """The hash, as `hashlib` calls it.

        >>> ScramMechanism.SHA_512.hash_name
        'sha512'
        """
        return self.replace("SCRAM-", "").replace("-", "").lower()

    @classmethod
    def name_of(cls, number: int) -> str:
        """Return the name of a number; one that this version does not know is passed through.

        >>> ScramMechanism.name_of(1), ScramMechanism.name_of(9)
        ('SCRAM-SHA-256', 'mechanism 9')
        """
        return next((str(each) for each, known in _NUMBERS.items() if known == number), f"mechanism {number}")


_NUMBERS: Final = {ScramMechanism.SHA_256: 1, ScramMechanism.SHA_512: 2}


@dataclass(frozen=True, slots=True, order=True)
class ScramCredential:
    """A credential as the cluster describes it, without the password, which it does not know."""

    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUser:
    """A user as the cluster describes it."""

    user: str
    credentials: tuple[ScramCredential, ...] = ()
    code: int = 0  # the broker's error code, 0 for none
    message: str = ""

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that describes it: that of an error for a user without credentials."""
        return ExitCode.ERROR if self.code else ExitCode.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """Sets the credential of one user for one mechanism, new or not."""

    user: str
    mechanism: ScramMechanism
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)
    """What is as good as the password to an attacker; it stays out of `repr`."""


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """Removes the credential of one user for one mechanism."""

    user: str
    mechanism: ScramMechanism


ScramAlteration = ScramUpsertion | ScramDeletion


@dataclass(frozen=True, slots=True)
class ScramRow:
    """The result of one alteration."""

    alteration: ScramAlteration
    outcome: Outcome
    code: int | None = 0  # the broker's error code, 0 for none; `None` without a response
    message: str = ""  # the broker's message, or the reason why there is none; empty on success

    @property
    def subject(self) -> str:
        """The user and the mechanism."""
        return f"{spell_name(self.alteration.user)} {self.alteration.mechanism}"

    @property
    def reason(self) -> str:
        """Why it failed, on one line: the broker's message, or its code if it has none."""
        return reason_of(self.code, self.message)


@dataclass(frozen=True, slots=True)
class ScramResult(Result[ScramRow]):
    """The results of altering credentials.

    `interrupt` is the Ctrl-C or SIGTERM that cut the work short, to be raised again once the rows were seen.
    """

    interrupt: BaseException | None = field(default=None, compare=False)

    @property
    def wrote_anything(self) -> bool:
        """Whether anything was or may have been written."""
        return any(row.outcome in (Outcome.OK, Outcome.UNKNOWN) for row in self.rows)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that alters credentials."""
        if not self.failed:
            return ExitCode.DONE
        return ExitCode.PARTIAL if self.wrote_anything else ExitCode.ERROR
