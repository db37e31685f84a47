"""Describes and alters the SCRAM credentials of a running cluster (KIP-554).

Behaviour of brokers, observed on Kafka 4.3.1:

| request | response of a broker |
| --- | --- |
| all users, as a null list, without authorisation | none (a NullPointerException in the broker) |
| all users, as an empty list | all of them, or code 31 |
| one user twice in a request, even with two mechanisms | code 92, and none of it is done |
| under 4096 or over 16384 iterations | code 93, `Too few iterations`, `Too many iterations` |
| a name of over 32,767 bytes | nothing: it hangs up |

Names and passwords are hashed and sent as their UTF-8 bytes, without SASLprep: that is what Kafka's brokers and its
Java client do (`org.apache.kafka.common.security.scram.internals.ScramFormatter.normalize`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import pbkdf2_hmac
from pathlib import Path
from secrets import token_bytes
from typing import Final

from quotaform.cluster.broker import (
    MAX_BYTES,
    MAX_NAME_BYTES,
    NEEDS_SCRAM,
    grant_remedy,
    require_success,
    shorten_message,
)
from quotaform.cluster.kafka import BrokerGateway, send_in_turn
from quotaform.cluster.scram_credential import (
    DEFAULT_ITERATIONS,
    ScramAlteration,
    ScramCredential,
    ScramDeletion,
    ScramError,
    ScramMechanism,
    ScramResult,
    ScramRow,
    ScramUpsertion,
    ScramUser,
)
from quotaform.cluster.wire.failure import UnansweredError
from quotaform.cluster.wire.message import INT8, INT32, BrokerRequest, Described, Reader, Writer
from quotaform.model.alteration import CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_CODES, Outcome
from quotaform.model.entity import spell_name
from quotaform.model.errors import UnsupportedError, UsageError
from quotaform.model.text import Secret

ALTER_ACL: Final = f"The principal is not authorised to alter SCRAM credentials: {grant_remedy('ALTER')}"
MAX_ALTERATIONS: Final = 1_000
"""Alterations per request: a controller writes one record for each, and rejects more than 10,000."""

_DESCRIBE_TIMEOUT: Final = 10.0
"""Seconds for a read with all its retries; the answer takes milliseconds, and none comes without the right (above)."""
_SALT_BYTES: Final = 32
_CREDENTIAL_BYTES: Final = 256
"""More than a credential takes in a request or in a controller's log, its name aside."""


def make_upsertion(
    user: str, mechanism: ScramMechanism, password: Secret, iterations: int = DEFAULT_ITERATIONS
) -> ScramUpsertion:
    """Salt and hash a password; every call uses a new salt."""
    salt = token_bytes(_SALT_BYTES)
    salted = pbkdf2_hmac(mechanism.hash_name, password.reveal().encode(), salt, iterations)
    return ScramUpsertion(user=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted)


class ScramGateway(BrokerGateway):
    """The SCRAM credentials of one cluster."""

    @property
    def cluster_id(self) -> str | None:
        """The id that the cluster gave itself."""
        return self.connection.cluster_id

    def describe(self, users: Sequence[str] = ()) -> list[ScramUser]:
        """Return what the cluster keeps of some users, or of all that have credentials, by name.

        A user without credentials has an error code.
        """
        for user in users:
            require_name(user)
        with self._scram_api():
            answer = self._read(
                DescribeUserScramCredentials(tuple(users)),
                _DESCRIBE_TIMEOUT,
                problem=f"Cannot read the SCRAM credentials of {self.name}",
                hint=" Some brokers do not respond to a principal without DESCRIBE on the Cluster resource"
                " (kafka-cluster).",
            )
        require_success(
            answer,
            subject=f"the SCRAM credentials of {self.name}",
            right="DESCRIBE",
            problem=f"Cannot read the SCRAM credentials of {self.name}; the broker responded with",
        )
        return sorted(answer.found, key=lambda found: found.user)

    def upsert(
        self, passwords: Mapping[str, Secret], mechanisms: Sequence[ScramMechanism], iterations: int
    ) -> ScramResult:
        """Set the password of each user for each mechanism; see `alter`."""
        return self.alter(
            [
                make_upsertion(user, mechanism, password, iterations)
                for user, password in passwords.items()
                for mechanism in mechanisms
            ]
        )

    def delete(self, users: Sequence[str], mechanisms: Sequence[ScramMechanism]) -> ScramResult:
        """Delete the credential of each user for each mechanism; see `alter`."""
        return self.alter([ScramDeletion(user, mechanism) for user in users for mechanism in mechanisms])

    @contextmanager
    def _scram_api(self) -> Iterator[None]:
        try:
            yield
        except UnsupportedError:
            problem = f"The brokers of {self.name} have no SCRAM API"
            raise UnsupportedError(problem, remedy=f"{NEEDS_SCRAM}.") from None

    def alter(self, alterations: Sequence[ScramAlteration]) -> ScramResult:
        """Set and delete credentials, each at most once per user and mechanism.

        A broker takes a user once per request, so several mechanisms of one user go in several requests, in the
        given order. Nothing is sent after a request of unknown outcome. An interrupt is not raised but returned, with
        what was done until then. If nothing at all was sent, raises `ClusterError`; or `ValueError` for one credential
        twice, or a name that Kafka's protocol cannot carry.
        """
        rows: dict[int, ScramRow] = {}
        interrupt: BaseException | None = None
        requests = split_scram(alterations)
        parts = [[alterations[index] for index in indices] for indices in requests]
        try:
            for answers, indices in zip(send_in_turn(parts, self._alter_one, _rows_of), requests, strict=True):
                rows.update(zip(indices, answers, strict=True))
        except (KeyboardInterrupt, SystemExit) as error:
            interrupt = error
        return ScramResult(tuple(rows[index] for index in range(len(alterations))), interrupt)

    def _alter_one(self, part: Sequence[ScramAlteration]) -> tuple[ScramRow, ...]:
        try:
            with self._scram_api():
                answer = self._alter(AlterUserScramCredentials(part))
        except UnansweredError as error:
            return _rows_of(part, Outcome.UNKNOWN, f"{error} The change may have been made, or may still be made.")
        return tuple(_read_row(alteration, answer.get(alteration.user)) for alteration in part)


def split_scram(alterations: Sequence[ScramAlteration]) -> list[list[int]]:
    """Return the indices of each request: a user at most once, `MAX_ALTERATIONS` and `MAX_BYTES` at most."""
    seen: set[tuple[str, ScramMechanism]] = set()
    times: dict[str, int] = {}
    requests: dict[int, list[list[int]]] = {}
    sizes: dict[int, int] = {}
    for index, alteration in enumerate(alterations):
        user, mechanism = alteration.user, alteration.mechanism
        if (user, mechanism) in seen:
            raise ValueError(f"the {mechanism} credential of {spell_name(user)} is altered twice in one call")
        seen.add((user, mechanism))
        size = require_name(user) + _CREDENTIAL_BYTES
        turn = times[user] = times.get(user, 0) + 1
        same_turn = requests.setdefault(turn, [])
        if not same_turn or len(same_turn[-1]) == MAX_ALTERATIONS or sizes[turn] + size > MAX_BYTES:
            same_turn.append([])
            sizes[turn] = 0
        same_turn[-1].append(index)
        sizes[turn] += size
    return [request for same_turn in requests.values() for request in same_turn]


def require_name(user: str) -> int:
    """Check that Kafka's protocol can carry a user name, and return its size in bytes."""
    try:
        size = len(user.encode())
    except UnicodeEncodeError:
        raise ValueError(
            f"the user name {spell_name(user)} contains a lone surrogate, which is not valid Unicode"
        ) from None
    if size > MAX_NAME_BYTES:
        raise ValueError(f"a user name has {size:,} bytes in UTF-8; a broker reads at most {MAX_NAME_BYTES:,}")
    return size


def _read_row(alteration: ScramAlteration, answer: tuple[int, str | None] | None) -> ScramRow:
    if answer is None:
        return ScramRow.of(alteration, Outcome.UNKNOWN, None, "The response of the broker has no row for this user.")
    code, message = answer
    if code == 0:
        return ScramRow.of(alteration, Outcome.OK)
    if code == CLUSTER_AUTHORIZATION_FAILED:
        # The broker's own words are a dump of its request object.
        return ScramRow.of(alteration, Outcome.REFUSED, code, ALTER_ACL)
    outcome = Outcome.UNKNOWN if code in UNKNOWN_CODES else Outcome.REFUSED
    return ScramRow.of(
        alteration, outcome, code, shorten_message(message or "") or f"The broker returned error code {code}."
    )


def _rows_of(part: Iterable[ScramAlteration], outcome: Outcome, reason: str) -> tuple[ScramRow, ...]:
    return tuple(ScramRow.of(alteration, outcome, None, reason) for alteration in part)


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentials(BrokerRequest[Described[Sequence[ScramUser]]]):
    """Ask for the credentials of some users, or of all users if there are none."""

    API_KEY = 50
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0
    MAX_RESPONSE = 64 << 20

    users: Sequence[str] = ()

    def _write(self, writer: Writer, version: int) -> None:
        # No users are an empty list and not null, which means the same: to a principal without the right a broker
        # never answers it.
        writer.structures(self.users, writer.string)

    def _read(self, reader: Reader, version: int) -> Described[Sequence[ScramUser]]:
        def credential() -> ScramCredential:
            return ScramCredential(ScramMechanism.name_of(reader.int8()), reader.int32())

        def user() -> ScramUser:
            name, code, message = reader.string(), reader.int16(), reader.nullable_string()
            words = shorten_message(message or "") or f"The broker returned error code {code}."
            credentials = tuple(sorted(reader.structures(credential)))
            return ScramUser(name, credentials, ScramError(code, words) if code else None)

        return Described(reader.int16(), reader.nullable_string(), reader.structures(user))


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials(BrokerRequest[dict[str, tuple[int, str | None]]]):
    """Set and delete credentials, of each user one at most; get the error code and the broker's words by user."""

    API_KEY = 51
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0
    MAX_RESPONSE = 16 << 20

    alterations: Sequence[ScramAlteration]

    def _write(self, writer: Writer, version: int) -> None:
        def deletion(asked: ScramAlteration) -> None:
            writer.string(asked.user)
            writer.number(INT8, asked.mechanism.number)

        def upsertion(asked: ScramUpsertion) -> None:
            deletion(asked)
            writer.number(INT32, asked.iterations)
            writer.bytes(asked.salt)
            writer.bytes(asked.salted_password)

        writer.structures((each for each in self.alterations if isinstance(each, ScramDeletion)), deletion)
        writer.structures((each for each in self.alterations if isinstance(each, ScramUpsertion)), upsertion)

    def _read(self, reader: Reader, version: int) -> dict[str, tuple[int, str | None]]:
        return dict(reader.structures(lambda: (reader.string(), (reader.int16(), reader.nullable_string()))))


STDIN: Final = Path("-")
"""Stands for the standard input where a password file is asked for."""


def require_password(text: str, where: str) -> Secret:
    """Make sure that a text can be a password.

    `where`: where it comes from, as messages say it.
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
