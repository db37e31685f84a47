"""Finds free ports on the loopback interface."""

from __future__ import annotations

import secrets
import socket

from quotaform.errors import SandboxError

HOST = "127.0.0.1"

# Below the ranges from which Linux (32768) and macOS (49152) take the local ports of outgoing connections:
# a broker that is restarted must find its port free, and a stray connection would have taken it.
_RANGE = range(18_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that nobody listens on at this moment.

    Another process may take one before its use: whoever uses them must be ready to try others.

    Raises:
        SandboxError: A thousand tries found too few.
    """
    found: set[int] = set()
    for _ in range(1000):
        if len(found) == count:
            return sorted(found)
        port = _RANGE[secrets.randbelow(len(_RANGE))]
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.add(port)
    raise SandboxError(f"There are no {count} free ports between {_RANGE.start} and {_RANGE.stop} on {HOST}.")
