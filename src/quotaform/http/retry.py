"""A request that is sent again after a failure that may pass, for a bounded time.

| what happened | sent again |
| --- | --- |
| the server was not reached, for a reason that may pass | always |
| a rate limit (429, or 403 with its marks), 503 with `Retry-After` | always, after the time that it asks for |
| another 5xx, or no answer to what was sent | only what may be sent twice (`Request.may_repeat`) |
| anything else | never |

When the time that a server asks for is longer than what is left, nothing is waited for: the answer is returned at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import random
from typing import Final

from quotaform.errors import HttpError
from quotaform.http.message import Request, Response

_SECONDARY_LIMIT_WAIT: Final = 60.0
"""Seconds that GitHub asks to wait after a secondary rate limit that says no time."""
_EPOCH: Final = 1_000_000_000
"""From this on a reset is a time (GitHub, GitLab); below it is a number of seconds (draft-ietf-httpapi-ratelimit)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a request is sent, and how time is measured.

    Attributes:
        sleep: Waits for a number of seconds.
        monotonic: Seconds that never go back.
        now: The time, in UTC.
        attempts: The most requests.
        first_wait: Seconds after the first failure; each further wait is twice as long.
        longest_wait: The most seconds of such a wait.
        total: Seconds from the beginning after which nothing is sent again.
        jitter: A random number from 0 to 1, by which a wait is up to a half longer, so that runs that failed together
            do not come back together.
        limited_wait: The fewest seconds after a rate limit that says no time.
    """

    sleep: Callable[[float], None]
    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    attempts: int = 5
    first_wait: float = 1.0
    longest_wait: float = 30.0
    total: float = 120.0
    jitter: Callable[[], float] = random
    limited_wait: float = _SECONDARY_LIMIT_WAIT


def send_again(request: Request, send: Callable[[Request], Response], retry: Retry) -> Response:
    """Send a request until there is an answer that would stay the same, and return the last answer.

    Raises `HttpError` if there is no answer.
    """
    deadline = retry.monotonic() + retry.total
    attempt = 0
    while True:
        outcome: Response | HttpError
        try:
            outcome = send(request)
        except HttpError as error:
            outcome = error
        attempt += 1
        wait = _wait(request, outcome, attempt, retry)
        if wait is None or attempt >= retry.attempts or retry.monotonic() + wait >= deadline:
            break
        retry.sleep(wait)
    if isinstance(outcome, HttpError):
        raise outcome
    return outcome


def _wait(request: Request, outcome: Response | HttpError, attempt: int, retry: Retry) -> float | None:
    """Return how many seconds to wait before the request is sent again; `None` when it is not."""
    asked = None
    if isinstance(outcome, HttpError):
        is_again = outcome.may_pass and (request.may_repeat or not outcome.may_have_arrived)
    else:
        asked = asked_wait(outcome, retry.now(), retry.limited_wait)
        is_again = asked is not None or (outcome.status >= 500 and request.may_repeat)
    if not is_again:
        return None
    backoff = min(retry.first_wait * 2.0 ** (attempt - 1), retry.longest_wait)
    return max(backoff, asked or 0.0) * (1 + retry.jitter() / 2)


def is_rate_limited(response: Response) -> bool:
    """Whether a server refused a request because there were too many.

    GitHub answers 429 or 403, and 403 otherwise means that the token may not do this.
    """
    if response.status != 403:
        return response.status == 429
    return "retry-after" in response.headers or _is_used_up(response) or b"rate limit" in response.body[:4096].lower()


def asked_wait(response: Response, now: datetime, unasked: float = _SECONDARY_LIMIT_WAIT) -> float | None:
    """Return after how many seconds a server says to come again; `None` when it does not say to come again.

    Args:
        now: The time in UTC, for answers that name a time.
        unasked: What is returned for a rate limit that says no time.
    """
    if not is_rate_limited(response) and not (response.status == 503 and "retry-after" in response.headers):
        return None
    after = _seconds(response.headers.get("retry-after"), now)
    if after is None and _is_used_up(response):
        after = _seconds(_header(response, "reset"), now)
    return unasked if after is None else after


def _is_used_up(response: Response) -> bool:
    return _header(response, "remaining") == "0"


def _header(response: Response, name: str) -> str | None:
    return response.headers.get(f"x-ratelimit-{name}") or response.headers.get(f"ratelimit-{name}")


def _seconds(value: str | None, now: datetime) -> float | None:
    """Read a number of seconds, a time in seconds since 1970, or a date of HTTP."""
    if value is None:
        return None
    if value.isascii() and value.isdecimal() and len(value) <= 12:
        number = int(value)
        return float(number) if number < _EPOCH else max(0.0, number - now.timestamp())
    try:
        date = parsedate_to_datetime(value)
    except (OverflowError, ValueError):  # An hour may have any number of digits.
        return None
    return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())
