"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quotaform.cluster.wire.codec import INT8, INT32, Reader, Writer
from quotaform.cluster.wire.message import BrokerRequest, BrokerResponse
from quotaform.model.scram import ScramAlteration, ScramDeletion, ScramUpsertion


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedUser:
    """One user of an answer; `credentials` are (mechanism, iterations) in Kafka's numbers."""

    user: str
    error_code: int
    error_message: str | None
    credentials: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedCredentials(BrokerResponse):
    """What a cluster keeps of its users."""

    error_code: int
    error_message: str | None
    users: Sequence[DescribedUser]


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentials(BrokerRequest[DescribedCredentials]):
    """Ask for the credentials of some users, or of all users if there are none."""

    API_KEY = 50
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0
    MAX_RESPONSE = 64 << 20

    users: Sequence[str] = ()

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields.

        No users are an empty list and not null, which means the same: to a principal without the right a broker never
        answers it.
        """

        def user(name: str) -> None:
            writer.string(name)
            writer.tags()

        writer.array(self.users, user)
        writer.tags()

    def read(self, reader: Reader, version: int) -> DescribedCredentials:
        """Return the credentials."""

        def credential() -> tuple[int, int]:
            found = reader.int8(), reader.int32()
            reader.tags()
            return found

        def user() -> DescribedUser:
            name, code, message = reader.string(), reader.int16(), reader.nullable_string()
            credentials = reader.array(credential)
            reader.tags()
            return DescribedUser(user=name, error_code=code, error_message=message, credentials=credentials)

        throttle, code, message = reader.int32(), reader.int16(), reader.nullable_string()
        users = reader.array(user)
        reader.tags()
        return DescribedCredentials(throttle_time_ms=throttle, error_code=code, error_message=message, users=users)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredCredentials(BrokerResponse):
    """The outcome by user: the error code and the broker's words."""

    outcomes: dict[str, tuple[int, str | None]]


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials(BrokerRequest[AlteredCredentials]):
    """Set and delete credentials, of each user one at most."""

    API_KEY = 51
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0
    MAX_RESPONSE = 16 << 20

    alterations: Sequence[ScramAlteration]

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields."""

        def deletion(asked: ScramDeletion) -> None:
            writer.string(asked.user)
            writer.number(INT8, asked.mechanism.number)
            writer.tags()

        def upsertion(asked: ScramUpsertion) -> None:
            writer.string(asked.user)
            writer.number(INT8, asked.mechanism.number)
            writer.number(INT32, asked.iterations)
            writer.bytes(asked.salt)
            writer.bytes(asked.salted_password)
            writer.tags()

        writer.array((each for each in self.alterations if isinstance(each, ScramDeletion)), deletion)
        writer.array((each for each in self.alterations if isinstance(each, ScramUpsertion)), upsertion)
        writer.tags()

    def read(self, reader: Reader, version: int) -> AlteredCredentials:
        """Return the outcomes."""

        def outcome() -> tuple[str, tuple[int, str | None]]:
            found = reader.string(), (reader.int16(), reader.nullable_string())
            reader.tags()
            return found

        throttle = reader.int32()
        outcomes = dict(reader.array(outcome))
        reader.tags()
        return AlteredCredentials(throttle_time_ms=throttle, outcomes=outcomes)
