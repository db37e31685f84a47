"""The values of options: choices, times, completion; and one sentence about a command line that is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from re import fullmatch
from typing import TYPE_CHECKING, Any, Final

from quotaform.model.entity import ENTITY_TYPES, USER, meant_type
from quotaform.model.errors import ArgumentError, QuotaformError, UsageError
from quotaform.model.moment import duration_text, parse_duration, parse_moment
from quotaform.model.text import inert, option_of
from quotaform.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    import typer


def complete_from(words: Iterable[str] | Callable[[], Iterable[str]], end: str = "") -> Callable[[str], list[str]]:
    """Return a completion of a value, or of the last item of a list; a function is called for the words when asked."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        known = words() if callable(words) else words
        return [f"{before}{comma}{word}{end}" for word in known if word.startswith(last)]

    return complete


def _quota_keys() -> Iterable[str]:
    from quotaform.model.quota_key import QUOTA_KEYS

    return QUOTA_KEYS


complete_quota_key = complete_from(_quota_keys)
complete_value = complete_from(_quota_keys, "=")
complete_entity_type = complete_from(ENTITY_TYPES)
complete_name = complete_from(ENTITY_TYPES, "=")
"""Names are not known without asking a cluster."""


def read_moment(text: str) -> datetime:
    """Read a time: ISO 8601 in UTC, a day, an age, or `now`. Raises `ValueError`."""
    return parse_moment(text, SYSTEM_CLOCK.now())


def read_seconds(text: str, *, longest: float = 24 * 3600.0) -> float:
    """Read a duration in seconds. Raises `ValueError`."""
    seconds = parse_duration(text).total_seconds()
    if seconds > longest:
        raise ValueError(f"{inert(text)} is more than {duration_text(timedelta(seconds=longest))}")
    return seconds


def require_order(since: datetime | None, until: datetime | None) -> None:
    """Make sure that one time is before another; `None` is no bound."""
    if since is not None and until is not None and since >= until:
        raise UsageError("--since must be before --until")


_LONGEST_LINE: Final = 2_000
_BEGIN: Final = 200
_END: Final = 500
"""How much is left of a longer one; the end of a message is its remedy."""


NO_ARGV: Final = (
    "other processes of this machine can read a command line, and shells keep it in their history; "
    "use --password-file, --password-env or the prompt"
)


def usage_text(error: typer.TyperException, command: str) -> str:
    """Return what is wrong with a command line, in one sentence, and where its help is.

    Typer's exceptions carry what the sentence is built from, by these names. `command` is for those without one.
    """
    context: Any = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    parameter: Any = getattr(error, "param", None)
    kind: Any = getattr(parameter, "type", None)
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if hasattr(error, "possibilities") and option is not None:
        text = f"No such option: {inert(option)}{_meant_option(error)}"
    elif least is not None and most is not None:
        # Not shown: what was given may be a password in the wrong place.
        text = f"{parameter.opts[0]} takes a whole number from {least:,} to {most:,}."
    else:
        text = inert(str(getattr(error, "format_message", lambda: str(error))()))
    if text.startswith("Got unexpected extra argument") and any(f"({each}=" in text for each in ENTITY_TYPES):
        text += "; the parts of one address are joined by a comma, as in user=alice,client-id=app1"
    end = "" if text.endswith((".", "?")) else "."
    return f"{text}{end} Try '{command if context is None else context.command_path} --help'."


def _meant_option(error: Any) -> str:
    """Return which option is near an unknown one, or that entities are addresses."""
    parameters = error.ctx.command.params if error.ctx is not None else ()
    known = [name for each in parameters if not each.hidden for name in each.opts]
    typed = error.option_name.lstrip("-")
    if typed == "password" and "--password-file" in known:
        return f": {NO_ARGV}."
    entity_type = meant_type(typed)
    if entity_type is not None or typed.startswith(("entity", "name", "default", "target")):
        address = f"{entity_type or USER}=NAME"
        if any("ENTITY" in (each.metavar or "") for each in parameters):
            return f"; give the address as an argument, as in {address}."
        if "--select" in known:
            return f"; did you mean --select {address}?"
    # Possibilities may have little but the dashes in common, and may be hidden.
    alike = (name for name in error.possibilities or () if name in known and name[:3] == error.option_name[:3])
    near = next(alike, None)
    return "" if near is None else f"; did you mean {near}?"


def name_options(error: QuotaformError | None) -> None:
    """Let the message of an error have options where it names arguments."""
    if isinstance(error, ArgumentError):
        error.args = (error.spelled(option_of),)


def redact(text: str, arguments: list[str]) -> str:
    """Return a message without the values of arguments; names of files that exist stay."""
    for given in arguments:
        name, _, value = given.partition("=") if given.startswith("-") else ("", "", given)
        # The name of an option stays, known or not; a password with a digit or a capital letter is none.
        for word in ("" if fullmatch("--[a-z]+(-[a-z]+)*", name) else name.lstrip("-"), value):
            # A shorter text is part of many words.
            if len(word) >= 4 and word not in ENTITY_TYPES and not os.path.lexists(word):
                text = text.replace(word, "…")
    return text


def cut_lines(message: str) -> str:
    """Return a message whose very long lines lose their middle: an argument may be as long as a file."""
    lines = message.split("\n")
    for at, line in enumerate(lines):
        if len(line) > _LONGEST_LINE:
            begin, end = line[:_BEGIN], line[-_END:]
            lines[at] = f"{begin}… ({len(line) - len(begin) - len(end):,} more characters) …{end}"
    return "\n".join(lines)


def require_choice(what: str, name: str, allowed: Sequence[str]) -> str:
    """Return a word if it is one of those that an option takes."""
    if name in allowed:
        return name
    raise UsageError(f"unknown {what} {inert(name)!r}; choose {one_of(allowed)}")


def one_of(words: Iterable[str]) -> str:
    """Return alternatives: `text, json or csv`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
