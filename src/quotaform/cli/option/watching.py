"""The options of a process that goes on: how often it compares, and where it says what it knows."""

from __future__ import annotations

from dataclasses import dataclass
from re import compile as regex
from typing import Annotated, Final

import typer

from quotaform.cli.usage import shorten
from quotaform.errors import UsageError
from quotaform.model.server import Server, parse_server

DEFAULT_LISTEN: Final = "127.0.0.1:9464"
_INTERVAL: Final = regex(r"([0-9]{1,6})(s|m|h)").fullmatch
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_LONGEST: Final = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """Comparing again and again."""

    watch: Annotated[
        str | None,
        typer.Option(
            "--watch",
            metavar="INTERVAL",
            help="Go on and compare every INTERVAL (30s, 5m, 1h); log changes to stderr, and serve /metrics and "
            "/healthz. Changed files are read again.",
        ),
    ] = None
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help=f"Where --watch serves /metrics and /healthz. [default: {DEFAULT_LISTEN}]",
        ),
    ] = None

    def interval(self) -> float:
        """Return the interval in seconds."""
        match = _INTERVAL(self.watch or "")
        seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
        if not 1 <= seconds <= _LONGEST:
            raise UsageError(
                f"--watch {shorten(self.watch or '')}: write an interval from 1s to 24h, as in 30s, 5m or 1h"
            )
        return float(seconds)

    def address(self) -> Server:
        """Return where to listen."""
        try:
            return parse_server(DEFAULT_LISTEN if self.listen is None else self.listen)
        except ValueError:
            raise UsageError(
                f"--listen: {shorten(self.listen or '')} is not host:port; write for example {DEFAULT_LISTEN}"
            ) from None
