"""Reads and writes of brokers over plain sockets with kafka-python's messages.

What quotaform says of a cluster is judged by this, so nothing here is quotaform's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from socket import create_connection, socket
from struct import pack, unpack
from time import monotonic, sleep
from typing import Any, Final, TypeAlias

User: TypeAlias = str | None
"""The name of a user; `None` is the default user."""
Values: TypeAlias = Mapping[str, float]
State: TypeAlias = dict[User, Values]
"""The quotas of users; one without quotas is not in it."""

DESCRIBE_QUORUM, DESCRIBE, ALTER = 55, 48, 49
_OPS_PER_REQUEST: Final = 1_500
_PAUSE: Final = 0.1


class RawError(Exception):
    """A broker cannot be read."""


def read_state(server: str, timeout: float = 5.0) -> State:
    """Return what one broker says that the quotas of users are.

    Raises `RawError`: it gives no answer.
    """
    from kafka.protocol import admin

    request = admin.DescribeClientQuotasRequest(components=[], strict=False, version=1)
    answer = _ask(server, DESCRIBE, 1, request, admin.DescribeClientQuotasResponse, timeout)
    if answer.error_code:
        raise RawError(f"{server} answers with code {answer.error_code}")
    state: State = {}
    for entry in answer.entries or ():
        parts = [(part.entity_type, part.entity_name) for part in entry.entity]
        if len(parts) == 1 and parts[0][0] == "user":
            state[parts[0][1]] = {value.key: value.value for value in entry.values}
    return state


def read_settled(servers: Sequence[str], timeout: float = 60.0) -> State:
    """Return what all brokers of a cluster say, once they say the same twice in a row.

    Raises `RawError`: they did not agree in time.
    """
    deadline = monotonic() + timeout
    before: State | None = None
    problem = "they do not agree"
    while monotonic() < deadline:
        try:
            states = [read_state(server) for server in servers]
        except (OSError, RawError) as error:
            before, problem = None, str(error)
        else:
            if before is not None and all(state == before for state in states):
                return before
            before = states[0]
        sleep(_PAUSE)
    raise RawError(f"the brokers cannot be judged by: {problem}")


def write_state(servers: Sequence[str], state: State, timeout: float = 60.0) -> None:
    """Make a cluster hold these quotas of users and no other ones.

    Raises `RawError`: it cannot be done.
    """
    live = read_settled(servers, timeout)
    changes: dict[User, dict[str, float | None]] = {}
    for user in live.keys() | state.keys():
        old, new = live.get(user, {}), state.get(user, {})
        if old != new:
            changes[user] = {**dict.fromkeys(old.keys() - new.keys()), **new}
    items = iter(changes.items())
    deadline = monotonic() + timeout
    while some := dict(islice(items, _OPS_PER_REQUEST // 2)):
        _write(servers, some, deadline)
    while read_settled(servers, timeout) != state:
        if monotonic() > deadline:
            raise RawError("the cluster does not show what was written")


def _write(servers: Sequence[str], changes: Mapping[User, Mapping[str, float | None]], deadline: float) -> None:
    from kafka.protocol import admin

    entries = [
        ([("user", user)], [(key, 0.0 if value is None else value, value is None) for key, value in ops.items()])
        for user, ops in changes.items()
    ]
    request = admin.AlterClientQuotasRequest(entries=entries, validate_only=False, version=1)
    while True:
        with suppress(OSError, RawError):
            answer = _ask(servers[0], ALTER, 1, request, admin.AlterClientQuotasResponse, 10.0)
            if not any(entry.error_code for entry in answer.entries):
                return
        if monotonic() > deadline:
            raise RawError("the cluster takes no changes")
        sleep(_PAUSE)


def find_controller(servers: Iterable[str]) -> int:
    """Return the node id of the active controller.

    Raises `RawError`: no broker knows one.
    """
    from kafka.protocol import admin

    request = admin.DescribeQuorumRequest(topics=[("__cluster_metadata", [(0,)])], version=0)
    for server in servers:
        with suppress(OSError, RawError):
            answer = _ask(server, DESCRIBE_QUORUM, 0, request, admin.DescribeQuorumResponse, 5.0)
            for topic in answer.topics or ():
                for partition in topic.partitions:
                    if partition.leader_id > 0:
                        return int(partition.leader_id)
    raise RawError("no broker knows the active controller")


def _ask(server: str, api_key: int, version: int, request: Any, answer: Any, timeout: float) -> Any:
    """Send a request in a flexible version over a connection of its own and return its answer."""
    body = bytes(request.encode(version=version))
    header = pack(">hhi", api_key, version, 7) + pack(">h", 3) + b"raw" + b"\0"
    host, _, port = server.rpartition(":")
    with create_connection((host, int(port)), timeout) as connection:
        connection.settimeout(timeout)
        connection.sendall(pack(">i", len(header) + len(body)) + header + body)
        (size,) = unpack(">i", read_exactly(connection, 4))
        data = read_exactly(connection, size)
    # The correlation id, and no tagged fields.
    return answer.decode(data[5:], version=version)


def read_exactly(connection: socket, size: int) -> bytes:
    """Return so many bytes.

    Raises `RawError`: the connection ended before.
    """
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 16))
        if not part:
            raise RawError("the connection ended")
        data += part
    return bytes(data)
