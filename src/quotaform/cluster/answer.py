"""What a broker's answer to a describe means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from quotaform.errors import AuthorizationError, ClusterError, UnknownOutcomeError
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
    raise _error(code, f"Cannot read the quotas of {name}; the broker says error code {code}", message)


def _error(code: int, text: str, words: str | None) -> ClusterError:
    """Return the error of a read; that has no outcome which could be unknown."""
    kind = ERRORS_BY_CODE.get(code, ClusterError)
    if kind is UnknownOutcomeError:
        kind = ClusterError
    return kind(f"{text}: {inert(words)}" if words else text)


def read_config(node_id: int, response: Any) -> str | None:
    """Return the one configuration value that a broker was asked for; `None` when it has none.

    Raises:
        AuthorizationError: The principal may not read the configuration.
        ClusterError: The broker has another reason not to tell.
    """
    result = response.results[0]
    if result.error_code == 31:
        raise AuthorizationError(
            f"The principal may not read the configuration of broker {node_id}: "
            "grant it DESCRIBE_CONFIGS on the Cluster resource (kafka-cluster)."
        )
    if result.error_code:
        text = f"Broker {node_id} does not tell its configuration; it says error code {result.error_code}"
        raise _error(result.error_code, text, result.error_message)
    return next((config.value for config in result.configs), None) or None


def read_quotas(entries: Iterable[Any]) -> dict[Entity, dict[str, float]]:
    """Return the quotas of a describe's entries (`entity`, `values`), with every name and value as it came."""
    of = Entity.of
    return {
        of([(part.entity_type, part.entity_name) for part in entry.entity]): {
            value.key: value.value for value in entry.values
        }
        for entry in entries
    }
