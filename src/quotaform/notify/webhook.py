"""Notifications posted to webhooks, signed, and sent again for a bounded time.

With a key, a request has the header `X-Quotaform-Signature: t=TIME,v1=HEX`: the time in seconds since 1970, and the
HMAC-SHA256 of the time, a dot and the body, byte for byte as it is sent.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final, Self

from quotaform.errors import HttpError
from quotaform.http.client import Limits, send
from quotaform.http.message import Request, Url
from quotaform.http.retry import Retry, send_again
from quotaform.model.secret import Secret

SIGNATURE_HEADER: Final = "X-Quotaform-Signature"
_LIMITS: Final = Limits(connect=5.0, total=10.0)
_ATTEMPTS: Final = 3
_TOTAL: Final = 30.0


class MessageFormat(StrEnum):
    """What a receiver takes."""

    GENERIC = "generic"
    SLACK = "slack"


@dataclass(frozen=True, slots=True)
class Receiver:
    """Who receives notifications. It prints without its path, which may hold a token."""

    url: Url
    format: MessageFormat = MessageFormat.GENERIC

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read URL, generic=URL or slack=URL.

        Raises `ValueError` if it is none of these; the message does not show it.
        """
        for each in MessageFormat:
            prefix = f"{each.value}="
            if text.startswith(prefix):
                return cls(Url.parse(text.removeprefix(prefix)), each)
        if "=" in text.partition(":")[0]:
            raise ValueError(
                f"it must be a URL, alone or after {' or '.join(f'{each.value}=' for each in MessageFormat)}"
            )
        return cls(Url.parse(text))

    @property
    def id(self) -> str:
        """A digest that identifies it; the URL does not follow from it."""
        return sha256(f"{self.format} {self.url.reveal()}".encode()).hexdigest()[:16]


def sign(body: bytes, key: Secret, moment: datetime) -> str:
    """Return the value of the signature header.

    >>> from datetime import UTC
    >>> sign(b"{}", Secret("key"), datetime(2026, 11, 20, tzinfo=UTC))[:20]
    't=1795132800,v1=e8ba'

    Args:
        body: What is sent, byte for byte.
    """
    seconds = int(moment.timestamp())
    signed = hmac.new(key.reveal().encode(), f"{seconds}.".encode() + body, sha256)
    return f"t={seconds},v1={signed.hexdigest()}"


def post(
    receiver: Receiver,
    body: bytes,
    *,
    key: Secret | None,
    now: Callable[[], datetime],
    monotonic: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Post a notification; it may arrive twice when an answer is lost.

    Args:
        key: What it is signed with, if anything.
        now: The time in UTC.
        monotonic: Seconds that never go back.
        sleep: Waits for a number of seconds.

    Raises:
        HttpError: It was not delivered within some 35 seconds.
    """
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers[SIGNATURE_HEADER] = sign(body, key, now())
    request = Request(method="POST", url=receiver.url, headers=headers, body=body, is_repeatable=True)
    retry = Retry(sleep=sleep, monotonic=monotonic, now=now, attempts=_ATTEMPTS, total=_TOTAL, longest_wait=5.0)
    response = send_again(request, lambda each: send(each, _LIMITS), retry)
    if not response.is_success:
        raise HttpError(receiver.url.origin, f"answered with status {response.status}", status=response.status)
