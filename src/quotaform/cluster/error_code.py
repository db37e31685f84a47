"""The meaning of broker error codes (org.apache.kafka.common.protocol.Errors)."""

from __future__ import annotations

from typing import Final

from quotaform.errors import AuthorizationError, ClusterError, UnknownOutcomeError
from quotaform.model.alteration import CLUSTER_AUTHORIZATION_FAILED, ERRORS_BY_CODE
from quotaform.model.text import inert

_MOST_WORDS: Final = 1_000
_OF_A_SERVICE: Final = frozenset({35, 42})


def grant(right: str) -> str:
    """Return the remedy for a missing permission.

    >>> grant("ALTER")
    'grant it ALTER on the Cluster resource (kafka-cluster).'
    """
    return f"grant it {right} on the Cluster resource (kafka-cluster)."


def asking_for_alter(error: AuthorizationError) -> AuthorizationError:
    """Return the error of a read with the permission to alter as its remedy, which includes that to read."""
    if error.remedy and not error.remedy.startswith("grant "):
        # A service manages quotas itself.
        return error
    remedy = f"{grant('ALTER_CONFIGS').rstrip('.')}, which includes DESCRIBE_CONFIGS"
    return AuthorizationError(error.problem, remedy=remedy, code=error.code)


def require_success(code: int, message: str | None, *, subject: str, right: str, problem: str, hint: str = "") -> None:
    """Raise the error of an answer to a read that has one.

    Args:
        code: The answer's error code.
        message: The broker's words, if any.
        subject: What was read.
        right: What one needs to read it.
        problem: How the sentence about any other error begins.
        hint: What to do instead, if the cluster is of a service that refuses such requests.

    Raises:
        AuthorizationError: Code 31, which comes without any words of the broker.
        ClusterError: Any other code but 0.
    """
    if code == 0:
        return
    if code == CLUSTER_AUTHORIZATION_FAILED:
        raise AuthorizationError(
            f"The principal is not authorised to read {subject}", remedy=hint or grant(right), code=code
        )
    kind = ERRORS_BY_CODE.get(code, ClusterError)
    if kind is UnknownOutcomeError:
        # A read has no outcome that could be unknown.
        kind = ClusterError
    text = f"{problem} error code {code}"
    text = f"{text}: {inert(cut_words(message))}" if message else text
    raise kind(text, remedy=hint if hint and code in _OF_A_SERVICE else None, code=code)


def cut_words(message: str) -> str:
    """Return a broker's message, shortened to a readable length."""
    return message if len(message) <= _MOST_WORDS else f"{message[:_MOST_WORDS]}…"
