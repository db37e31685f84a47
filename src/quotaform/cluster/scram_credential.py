"""SCRAM credentials (KIP-554)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final, Self

from msgspec import Struct

from quotaform.model.alteration import AlterationResults, Outcome, reason_of
from quotaform.model.entity import spell_name
from quotaform.model.errors import ExitCode
from quotaform.model.records.record import Record, about

RESOURCE_NOT_FOUND: Final = 91
"""The broker's error code for a user without credentials."""
DEFAULT_ITERATIONS: Final = 4096
"""The default of Kafka's tools and the minimum of brokers; the maximum is 16384."""


class ScramMechanism(StrEnum):
    """The mechanisms that Kafka has, in the order of their numbers in KIP-554 (RFC 5802, RFC 7677)."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def number(self) -> int:
        """The number on the wire."""
        return list(ScramMechanism).index(self) + 1

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
        return next((str(each) for each in cls if each.number == number), f"mechanism {number}")


class ScramCredential(Record, kw_only=False, order=True):
    """One credential."""

    mechanism: Annotated[str, about("The SCRAM mechanism.", "SCRAM-SHA-512")]
    iterations: Annotated[int, about("Iterations of hashing.")]


class ScramError(Record, kw_only=False):
    """Why the user could not be described."""

    code: Annotated[int, about("Kafka's error code.")]
    message: Annotated[str, about("The message of the broker.")]


class ScramUser(Record, kw_only=False):
    """One user."""

    user: Annotated[str, about("The user's name.")]
    credentials: Annotated[tuple[ScramCredential, ...], about("The user's credentials.")] = ()
    error: Annotated[ScramError | None, about("Why the user could not be described; null on success.")] = None

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that describes it: that of an error for a user without credentials."""
        return ExitCode.ERROR if self.error else ExitCode.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """Sets the credential of one user for one mechanism, new or not."""

    user: str
    mechanism: ScramMechanism
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)
    """What is as good as the password to an attacker; it stays out of `repr`."""


class ScramDeletion(Struct, frozen=True):
    """Removes the credential of one user for one mechanism."""

    user: str
    mechanism: ScramMechanism


ScramAlteration = ScramUpsertion | ScramDeletion


class ScramRow(Record, kw_only=False):
    """The result for one credential."""

    user: Annotated[str, about("The user's name.")]
    mechanism: Annotated[str, about("The SCRAM mechanism.", "SCRAM-SHA-512")]
    iterations: Annotated[int | None, about("Iterations of hashing; null for a deletion.")]
    outcome: Annotated[Outcome, about("The result.")]
    code: Annotated[int | None, about("Kafka's error code; 0 on success.")] = 0
    message: Annotated[str | None, about("The message of the broker.")] = ""

    @classmethod
    def of(cls, alteration: ScramAlteration, outcome: Outcome, code: int | None = 0, message: str = "") -> Self:
        """Return the result of an alteration; the code is `None` without a response, the message why there is none."""
        iterations = alteration.iterations if isinstance(alteration, ScramUpsertion) else None
        return cls(alteration.user, alteration.mechanism, iterations, outcome, code, message)

    @property
    def subject(self) -> str:
        """The user and the mechanism."""
        return f"{spell_name(self.user)} {self.mechanism}"

    @property
    def reason(self) -> str:
        """Why it failed, on one line: the broker's message, or its code if it has none."""
        return reason_of(self.code, self.message or "")


class ScramResult(AlterationResults[ScramRow], frozen=True):
    """The results of altering credentials.

    `interrupt` is the Ctrl-C or SIGTERM that cut the work short, to be raised again once the rows were seen.
    """

    interrupt: BaseException | None = None

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
