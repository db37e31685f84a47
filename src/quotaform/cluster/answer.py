"""What a broker's answer to a describe means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from quotaform.errors import AuthorizationError, ClusterError
from quotaform.model.alteration import ERRORS_BY_CODE
from quotaform.model.entity import Entity
from quotaform.model.text import inert


def require_described(name: str, code: int, message: str | None) -> None:
    """Raise the error of an answer that has one.

    Raises:
        AuthorizationError: Code 31, which comes without any words of the broker.
        ClusterError: Any other code but 0.
    """
    if code == 0:
        return
    if code == 31:
        raise AuthorizationError(
            f"The principal may not read the client quotas of {name}: "
            "grant it DESCRIBE_CONFIGS on the Cluster resource (kafka-cluster)."
        )
    words = f": {inert(message)}" if message else ""
    raise ERRORS_BY_CODE.get(code, ClusterError)(
        f"Cannot read the quotas of {name}; the broker says error code {code}{words}"
    )


def read_quotas(entries: Iterable[Any]) -> dict[Entity, dict[str, float]]:
    """Return the quotas of a describe's entries (`entity`, `values`), with every name and value as it came."""
    of = Entity.of
    return {
        of([(part.entity_type, part.entity_name) for part in entry.entity]): {
            value.key: value.value for value in entry.values
        }
        for entry in entries
    }
