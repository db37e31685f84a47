"""What is sent again, when, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from quotaform.http.client import Retry, asked_wait, send_again
from quotaform.http.message import Request, Response, Url
from quotaform.model.errors import HttpError

URL = Url.parse("https://api.example.com/")
GET = Request(method="GET", url=URL)
POST = Request(method="POST", url=URL)
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def response(status: int, body: bytes = b"", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(url=URL, status=status, headers=named, body=body)


LOST = HttpError(URL.origin, "closed the connection", may_pass=True)
UNREACHED = HttpError(URL.origin, "cannot be reached", may_have_arrived=False, may_pass=True)
UNENCRYPTED = HttpError(URL.origin, "would receive the token", may_have_arrived=False)
REDIRECTED = HttpError(URL.origin, "redirects", status=302)


@dataclass
class Play:
    """Outcomes that come one after the other, and a clock that moves when somebody waits."""

    outcomes: Iterator[Response | HttpError]
    waits: list[float] = field(default_factory=list)
    sent: int = 0

    def send(self, request: Request) -> Response:
        self.sent += 1
        outcome = next(self.outcomes)
        if isinstance(outcome, HttpError):
            raise outcome
        return outcome

    def retry(self, **options: float) -> Retry:
        return Retry(
            sleep=self.waits.append,
            monotonic=lambda: sum(self.waits),
            now=lambda: NOW + timedelta(seconds=sum(self.waits)),
            jitter=lambda: 0.0,
            **options,  # type: ignore[arg-type]
        )


def play(request: Request, *outcomes: Response | HttpError, **options: float) -> tuple[Play, Response | HttpError]:
    played = Play(iter(outcomes))
    try:
        return played, send_again(request, played.send, played.retry(**options))
    except HttpError as error:
        return played, error


@pytest.mark.parametrize(
    ("request_", "first", "is_again"),
    [
        (GET, response(500), True),
        (GET, response(502), True),
        (GET, LOST, True),
        (GET, UNREACHED, True),
        (GET, response(429), True),
        (GET, response(404), False),
        (GET, response(401), False),
        (GET, response(403), False),
        (GET, REDIRECTED, False),
        (GET, UNENCRYPTED, False),
        (POST, response(500), False),
        (POST, response(503), False),
        (POST, LOST, False),
        (POST, response(503, retry_after="1"), True),
        (POST, UNREACHED, True),
        (POST, response(429), True),
        (POST, response(403, retry_after="2"), True),
        (POST, response(403, x_ratelimit_remaining="0"), True),
        (POST, response(403, b'{"message":"You have exceeded a secondary rate limit"}'), True),
        (POST, response(422), False),
        (Request(method="PATCH", url=URL), response(500), False),
        (Request(method="PATCH", url=URL, is_repeatable=True), response(500), True),
    ],
)
def test_a_request_is_sent_again_where_that_can_do_no_harm(
    request_: Request, first: Response | HttpError, is_again: bool
) -> None:
    played, outcome = play(request_, first, response(200))
    assert played.sent == (2 if is_again else 1)
    assert outcome is first or (isinstance(outcome, Response) and outcome.status == 200)


def test_each_wait_is_twice_as_long_up_to_a_limit() -> None:
    played, outcome = play(GET, *[response(500)] * 6, attempts=6, longest_wait=4.0)
    assert played.waits == [1, 2, 4, 4, 4]
    assert isinstance(outcome, Response)
    assert outcome.status == 500


def test_nothing_is_sent_again_after_the_total_time() -> None:
    played, outcome = play(GET, *[LOST] * 100, attempts=100, total=10.0)
    assert sum(played.waits) < 10
    assert outcome is LOST


def test_a_server_that_asks_for_more_time_than_there_is_is_not_waited_for() -> None:
    played, outcome = play(GET, response(429, retry_after="3600"))
    assert (played.sent, played.waits) == (1, [])
    assert isinstance(outcome, Response)
    assert asked_wait(outcome, NOW) == 3600


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7),
        ({"retry_after": "Sun, 22 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry_after": "Sun, 22 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry_after": "Sun, 22 Nov 2026 12:00:30 -0000"}, 30),
        ({"retry_after": "soon"}, 60),
        ({"retry_after": "Sun, 22 Nov 2026 99999999999999999999:00:30 GMT"}, 60),
        ({"retry_after": "-5"}, 60),
        ({"retry_after": "9" * 400}, 60),
        ({"retry_after": "\u0663"}, 60),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(int(NOW.timestamp()) + 90)}, 90),
        ({"ratelimit_remaining": "0", "ratelimit_reset": "12"}, 12),
        ({"x_ratelimit_remaining": "5", "x_ratelimit_reset": str(int(NOW.timestamp()) + 90)}, 60),
        ({}, 60),
    ],
)
def test_the_server_says_when(headers: dict[str, str], seconds: float) -> None:
    assert asked_wait(response(429, b"", **headers), NOW) == seconds


def test_a_wait_is_at_least_what_the_server_asks_for() -> None:
    played, _ = play(GET, response(429, retry_after="7"), response(429, retry_after="0"), response(200))
    assert played.waits == [7, 2]


def test_the_wait_is_made_longer_at_random() -> None:
    played = Play(iter([response(500), response(200)]))
    send_again(
        GET, played.send, Retry(sleep=played.waits.append, monotonic=lambda: 0, now=lambda: NOW, jitter=lambda: 1)
    )
    assert played.waits == [1.5]
