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

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import pbkdf2_hmac
from secrets import token_bytes
from typing import Final

from quotaform.cluster.broker import (
    MAX_BYTES,
    NEEDS_SCRAM,
    cut,
    grant_remedy,
    outcome_of,
    require_success,
    shorten_message,
)
from quotaform.cluster.kafka import BrokerGateway, send_in_turn
from quotaform.cluster.records import ScramCredential, ScramError, ScramMechanism, ScramResult, ScramRow, ScramUser
from quotaform.cluster.wire.failure import UnansweredError
from quotaform.cluster.wire.message import (
    INT8,
    INT32,
    BrokerRequest,
    DescribeResponse,
    ResponseReader,
    Writer,
    encode_text,
)
from quotaform.model.alteration import Outcome
from quotaform.model.entity import spell_name
from quotaform.model.text import Secret

ALTER_ACL: Final = f"The principal is not authorised to alter SCRAM credentials; {grant_remedy('ALTER')}"
MAX_ALTERATIONS: Final = 1_000
"""Alterations per request: a controller writes one record for each, and rejects more than 10,000."""

_DESCRIBE_TIMEOUT: Final = 10.0
"""Seconds for a read with all its retries; the answer takes milliseconds, and none comes without the right (above)."""
_SALT_BYTES: Final = 32
_CREDENTIAL_BYTES: Final = 256  # more than a credential takes in a request or in a controller's log, its name aside


DEFAULT_ITERATIONS: Final = 4096
"""The default of Kafka's tools and the minimum of brokers; the maximum is 16384."""


@dataclass(frozen=True, slots=True)
class ScramAlteration:
    """Sets the credential of one user for one mechanism, new or not; without iterations, deletes it."""

    user: str
    mechanism: ScramMechanism
    iterations: int | None = None
    salt: bytes = field(default=b"", repr=False)
    salted_password: bytes = field(default=b"", repr=False)  # as good as the password to an attacker


def make_upsertion(
    user: str, mechanism: ScramMechanism, password: Secret, iterations: int = DEFAULT_ITERATIONS
) -> ScramAlteration:
    """Salt and hash a password; every call uses a new salt."""
    salt = token_bytes(_SALT_BYTES)
    salted = pbkdf2_hmac(mechanism.hash_name, password.reveal().encode(), salt, iterations)
    return ScramAlteration(user, mechanism, iterations, salt, salted)


class ScramGateway(BrokerGateway):
    """The SCRAM credentials of one cluster."""

    @property
    def cluster_id(self) -> str | None:
        return self.connection.cluster_id

    def describe(self, users: Sequence[str] = ()) -> list[ScramUser]:
        """Return what the cluster keeps of some users, or of all with credentials; one without has an error code."""
        subject, request = f"the SCRAM credentials of {self.name}", DescribeUserScramCredentials(tuple(users))
        hint = " Some brokers do not respond to a principal without DESCRIBE on the Cluster resource (kafka-cluster)."
        answer = self._read(request, _DESCRIBE_TIMEOUT, subject=subject, hint=hint)
        require_success(answer, subject=subject, right="DESCRIBE")
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
        return self.alter([ScramAlteration(user, mechanism) for user in users for mechanism in mechanisms])

    def alter(self, alterations: Sequence[ScramAlteration]) -> ScramResult:
        """Set and delete credentials, each at most once per user and mechanism.

        A broker takes a user once per request, so several mechanisms of one user go in several requests, in the
        given order. Nothing is sent after a request of unknown outcome. An interrupt is not raised but returned, with
        what was done until then. If nothing at all was sent, raises `ClusterError`; or `ValueError` for one credential
        twice, or a name that Kafka's protocol cannot carry.
        """
        rows: dict[tuple[str, str], ScramRow] = {}
        interrupt: BaseException | None = None
        requests = split_scram(alterations)
        try:
            for answers in send_in_turn(requests, self._alter_one, _rows_of):
                rows |= {(row.user, row.mechanism): row for row in answers}
        except (KeyboardInterrupt, SystemExit) as error:
            interrupt = error
        return ScramResult(tuple(rows[each.user, each.mechanism] for each in alterations), interrupt)

    def _alter_one(self, part: Sequence[ScramAlteration]) -> tuple[ScramRow, ...]:
        try:
            answer = self.connection.send(AlterUserScramCredentials(part), timeout=self._alter_timeout)
        except UnansweredError as error:
            return _rows_of(part, Outcome.UNKNOWN, f"{error} The change may have been made, or may still be made.")
        rows: list[ScramRow] = []
        for each in part:
            outcome, code, words = Outcome.UNKNOWN, None, "The response of the broker has no row for this user."
            if found := answer.get(each.user):
                outcome, code, words = outcome_of(*found, denied=ALTER_ACL)
            rows += _rows_of([each], outcome, words, code)
        return tuple(rows)


def split_scram(alterations: Sequence[ScramAlteration]) -> list[Sequence[ScramAlteration]]:
    """Return the alterations of each request: a user at most once, `MAX_ALTERATIONS` and `MAX_BYTES` at most."""
    seen: set[tuple[str, ScramMechanism]] = set()
    turns: list[list[ScramAlteration]] = []
    times: Counter[str] = Counter()
    for each in alterations:
        if (each.user, each.mechanism) in seen:
            raise ValueError(f"the {each.mechanism} credential of {spell_name(each.user)} is altered twice in one call")
        seen.add((each.user, each.mechanism))
        if times[each.user] == len(turns):
            turns.append([])
        turns[times[each.user]].append(each)
        times[each.user] += 1
    return [part for turn in turns for part in cut(turn, _measure, MAX_ALTERATIONS, MAX_BYTES)]


def _measure(alteration: ScramAlteration) -> tuple[int, int]:
    return 1, len(encode_text(alteration.user)) + _CREDENTIAL_BYTES


def _rows_of(
    part: Iterable[ScramAlteration], outcome: Outcome, reason: str, code: int | None = None
) -> tuple[ScramRow, ...]:
    return tuple(ScramRow(each.user, each.mechanism, each.iterations, outcome, code, reason) for each in part)


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentials(BrokerRequest[DescribeResponse[Sequence[ScramUser]]]):
    """Ask for the credentials of some users, or of all users if there are none."""

    API_KEY = 50
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0
    MAX_RESPONSE = 64 << 20
    NEEDS = NEEDS_SCRAM

    users: Sequence[str] = ()

    def _write(self, writer: Writer, version: int) -> None:
        # No users are an empty list and not null, which means the same: to a principal without the right a broker
        # never answers it.
        writer.array(self.users, writer.string)

    def _read(self, reader: ResponseReader, version: int) -> DescribeResponse[Sequence[ScramUser]]:
        def credential() -> ScramCredential:
            return ScramCredential(ScramMechanism.name_of(reader.int8()), reader.int32())

        def user() -> ScramUser:
            name, code, message = reader.string(), reader.int16(), reader.nullable_string()
            words = shorten_message(message or "") or f"The broker returned error code {code}."
            credentials = tuple(sorted(reader.array(credential)))
            return ScramUser(name, credentials, ScramError(code, words) if code else None)

        return DescribeResponse(reader.int16(), reader.nullable_string(), reader.array(user))


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials(BrokerRequest[dict[str, tuple[int, str | None]]]):
    """Set and delete credentials, of each user one at most; get the error code and the broker's words by user."""

    API_KEY = 51
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0
    MAX_RESPONSE = 16 << 20
    NEEDS = NEEDS_SCRAM

    alterations: Sequence[ScramAlteration]

    def _write(self, writer: Writer, version: int) -> None:
        def deletion(asked: ScramAlteration) -> None:
            writer.string(asked.user)
            writer.number(INT8, asked.mechanism.number)

        def upsertion(asked: ScramAlteration) -> None:
            deletion(asked)
            writer.number(INT32, asked.iterations or 0)
            writer.bytes(asked.salt)
            writer.bytes(asked.salted_password)

        writer.array((each for each in self.alterations if each.iterations is None), deletion)
        writer.array((each for each in self.alterations if each.iterations is not None), upsertion)

    def _read(self, reader: ResponseReader, version: int) -> dict[str, tuple[int, str | None]]:
        return dict(reader.array(lambda: (reader.string(), (reader.int16(), reader.nullable_string()))))
