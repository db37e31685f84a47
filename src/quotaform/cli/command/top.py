"""`quotaform top`: who is throttled at this moment, and by which quota."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from re import fullmatch
from select import select
from shutil import get_terminal_size
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, Self

from quotaform.cli.console import Console, write_raw
from quotaform.cli.option.cluster import Clusters
from quotaform.cli.option.common import SOURCE, flag, option, read_seconds
from quotaform.cli.option.run import Output, printed
from quotaform.cli.present import Results, report_failures
from quotaform.model.errors import ExitCode, UsageError
from quotaform.model.outcome import ClusterOutcome, exit_code
from quotaform.model.settings import read_sources
from quotaform.model.text import inert, listed
from quotaform.report.format import render
from quotaform.system.process import in_thread, signal_name

if TYPE_CHECKING:
    from quotaform.usage.top import Top
    from quotaform.usage.top_reader import TopReader

_TICK: Final = 0.1


def top(
    *,
    target: Clusters,
    source: list[str] | None = SOURCE,
    prometheus: str | None = option(
        "--prometheus URL",
        "A Prometheus that has the measurements. [default: metrics.prometheus of the cluster, if it has no "
        "metrics.brokers]",
    ),
    label: list[str] | None = option(
        "--label NAME=VALUE", "Label of the cluster's series in Prometheus. Repeatable. [default: metrics.labels]"
    ),
    interval: float = option(
        "--interval DURATION", "Time between two readings.", "5s", read=partial(read_seconds, longest=3600.0)
    ),
    once: bool = flag("--once", "Read once, print and exit."),
    limit: int | None = option("--limit N", "Show at most N buckets.", min=1),
    everything: bool = flag("--all-buckets", "Also show buckets that are far below their limit, or have none."),
    output: Output = printed("top"),
) -> int:
    """Show who is throttled now, by which entity's quota, and how far over it; then who is close to a limit.

    Limits are the live quotas of the cluster. On a terminal the view is redrawn; q or Ctrl-C ends it. In a pipe, table
    follows table. Throttled means that requests were delayed in the last 30 to 60 seconds: the broker reports no
    shorter time. What cannot be read is one line and hides nothing else; with --once, it exits 1. The variable
    QUOTAFORM_PROMETHEUS_TOKEN holds a bearer token for Prometheus, or QUOTAFORM_PROMETHEUS_USER and
    QUOTAFORM_PROMETHEUS_PASSWORD a login; QUOTAFORM_PROMETHEUS_TENANT is the tenant.

    \b
    Examples:
      quotaform top --cluster prod-eu
      quotaform top --bootstrap-server localhost:9092 --source 1=http://localhost:7071/metrics
      quotaform top --cluster prod-eu --prometheus http://prometheus:9090 --label cluster=prod-eu
      quotaform top --all --once --format json
    """
    console = output.console
    given = read_sources(source or ())
    labels: dict[str, str] = {}
    for text in label or ():
        name, _, value = text.partition("=")
        if not fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or not value:
            raise UsageError(f"--label {inert(text)}: write NAME=VALUE, as in cluster=prod-eu")
        labels[name] = value
    chosen = target.choose(needs_name=False)
    from quotaform.usage.top_reader import read_all, top_readers

    results = Results(output, limit=limit, shows_all=everything)
    opened = top_readers(chosen, given, prometheus=prometheus, labels=labels, once=once, progress=console.progress)
    with opened as (found, failed):
        if not found:
            failed[0].require()
        if once:
            outcomes = [*read_all(found), *failed]
            results.present(outcomes)
            return exit_code(outcomes)
        report_failures(console, failed)
        try:
            if sys.stdout.isatty():
                _show(found, interval, console, {"limit": limit, "shows_all": everything})
            else:
                # One table follows another until the output is closed, or a signal comes.
                while True:
                    begun = monotonic()
                    results.present(read_all(found))
                    console.echo("\n")
                    if console.is_lost:
                        break
                    sleep(max(0.0, interval - (monotonic() - begun)))
        except KeyboardInterrupt as interrupt:
            if signal_name(interrupt) != "SIGINT":
                raise
    return ExitCode.DONE


def _show(readers: Sequence[TopReader], seconds: float, console: Console, options: Mapping[str, Any]) -> None:
    from quotaform.usage.top_reader import read_all

    style = console.style()

    def draw(found: Iterable[ClusterOutcome[Top]]) -> None:
        columns, lines = get_terminal_size()
        size = {"style": style, "width": columns, "height": (lines + 1) // len(readers) - (len(readers) > 1)}
        parts = ["".join(render("top", "text", each.require(), **size, **options)) for each in found]
        screen.draw("\n".join("\n".join(parts).split("\n")[:lines]))

    with Screen() as screen:
        screen.draw(f"Reading {inert(listed([each.cluster for each in readers]))} ...")
        while not console.is_lost:
            begun = monotonic()
            reading = in_thread(lambda: read_all(readers))
            while not reading.done():
                if screen.key(_TICK) in ("q", "Q"):
                    return
            draw(reading.result())
            size = get_terminal_size()
            while (left := seconds - (monotonic() - begun)) > 0:
                key = screen.key(min(left, _TICK))
                if key in ("q", "Q"):
                    return
                if key == " ":
                    break
                if get_terminal_size() != size:
                    size = get_terminal_size()
                    draw(reading.result())


class Screen:
    """Takes the terminal over until it is left, however that happens; it is drawn again and again."""

    def __enter__(self) -> Self:
        """Take the terminal over: keys are read as they are pressed, and not shown."""
        self._before: Any = None
        # Without a terminal whose keys can be read, only Ctrl-C ends what runs.
        with suppress(ImportError, OSError):
            import termios
            import tty

            if sys.stdin.isatty():
                self._before = termios.tcgetattr(sys.stdin.fileno())
                tty.setcbreak(sys.stdin.fileno())
        # The other screen of the terminal, whose content goes when it is left; and no cursor.
        write_raw(sys.stdout, "\x1b[?1049h\x1b[?25l")
        return self

    def __exit__(self, *_: object) -> None:
        """Give the terminal back as it was."""
        write_raw(sys.stdout, "\x1b[?25h\x1b[?1049l")
        if self._before is not None:
            import termios

            with suppress(OSError, termios.error):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)

    def draw(self, text: str) -> None:
        """Show a text in the place of what is shown; it fits the terminal."""
        write_raw(sys.stdout, "\x1b[H")  # back to the first line
        lines = text.rstrip("\n").split("\n")
        for number, line in enumerate(lines, start=1):
            sys.stdout.write(line)
            # A line end in the last line of the terminal would move everything up.
            write_raw(sys.stdout, "\x1b[K\n" if number < len(lines) else "\x1b[K")
        write_raw(sys.stdout, "\x1b[J")  # nothing is left below

    def key(self, seconds: float) -> str | None:
        """Return the next key that is pressed, or `None` if there is none in time."""
        if self._before is None:
            sleep(max(0.0, seconds))
            return None
        if not select([sys.stdin], [], [], max(0.0, seconds))[0]:
            return None
        # Not by the buffer of stdin: what that takes ahead is never ready again.
        typed = os.read(sys.stdin.fileno(), 1)
        if not typed:  # The terminal is gone.
            sleep(max(0.0, seconds))
        return typed.decode(errors="replace") or None
