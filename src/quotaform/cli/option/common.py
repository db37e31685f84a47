"""How options are declared and read, which go together, and those that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final, get_type_hints

import typer

from quotaform.model.errors import ArgumentError, QuotaformError, UsageError
from quotaform.model.moment import duration_text, parse_duration, parse_moment
from quotaform.model.text import inert, option_of
from quotaform.system.clock import SYSTEM_CLOCK

REQUIRED: Final = MISSING
"""The default of an option that must be given."""
_DECLARED: Final = "quotaform"
"""Where a default holds its name on the command line, and itself as typer takes it."""


def option(
    form: str,
    text: str,
    default: Any = None,
    *,
    read: Callable[[str], Any] | None = None,
    complete: Any = None,
    **more: Any,
) -> Any:
    """Return what a parameter of a command, or a field of a group, has as its default to be an option.

    `form`: its names and what it takes, as help shows them, such as `--output -o DIR`. `default`: its value when it is
    not given; `REQUIRED` if it must be. `read`: reads its value, or raises `ValueError`.
    `complete`: what a shell offers. `more`: as for `typer.Option`.
    """
    words = form.split()
    names = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(names) :]) or None

    def parse(given: str) -> Any:
        try:
            return given if read is None else read(given)
        except ValueError as error:
            raise UsageError(f"{names[0]}: {error}") from None

    more |= {} if read is None else {"parser": parse}
    info = typer.Option(*names, metavar=metavar, help=text, autocompletion=complete, **more)
    return field(default=default, metadata={_DECLARED: (names[0].rpartition("/")[2], info)})


def flag(form: str, text: str) -> Any:
    """Return an option without a value."""
    return option(form, text, default=False)


def argument(metavar: str, text: str, default: Any = None, *, complete: Any = None, **more: Any) -> Any:
    """Return an argument; see `option`."""
    info = typer.Argument(metavar=metavar, help=text, autocompletion=complete, **more)
    return field(default=default, metadata={_DECLARED: (metavar.strip("[]."), info)})


def choice(name: str, words: Iterable[str], text: str, default: str | None = None) -> Any:
    """Return an option that takes one of several words."""
    known = tuple(words)

    def read(given: str) -> str:
        return require_choice(name.removeprefix("--").replace("-", " "), given, known)

    return option(f"{name} {'|'.join(known)}", text, default, read=read, complete=complete_from(known))


def with_options(command: Callable[..., int]) -> Callable[..., int]:
    """Return a function as the command that typer reads.

    Its options are parameters with an `option` as their default. A parameter whose type is a dataclass is a group of
    options: its fields are options, which stand in its place. What some of its fields are in this command, options or
    values, is its default, a dict.
    """
    hints = get_type_hints(command)
    parameters: list[Parameter] = []
    names: dict[str, str] = {}
    groups: dict[str, tuple[type[Any], Mapping[str, Any]]] = {}

    def add(name: str, kind: Any, made: Any) -> None:
        default = Parameter.empty if made.default is REQUIRED else made.default
        names[name], info = made.metadata[_DECLARED]
        annotation = Annotated[kind, info]
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    for name, parameter in signature(command).parameters.items():
        if is_dataclass(hints[name]):
            group = hints[name]
            of_group = get_type_hints(group)
            here = {} if parameter.default is Parameter.empty else parameter.default
            made = {each.name: each for each in fields(group)} | here
            groups[name] = group, made
            for each, default in made.items():
                if isinstance(default, Field) and default.metadata:
                    add(each, of_group[each], default)
        else:
            add(name, hints[name], parameter.default)

    @wraps(command)
    def run(**values: Any) -> int:
        given = {names[each.name] for each in parameters if values[each.name] not in (each.default, None, [])}
        _require_together(command.__name__, given)
        for name, (group, made) in groups.items():
            own = {each: default for each, default in made.items() if not isinstance(default, Field)}
            values[name] = group(**own, **{each: values.pop(each) for each in made if each in values})
        return command(**values)

    run.__signature__ = Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": int}
    return run


def complete_from(words: Iterable[str] | Callable[[], Iterable[str]], end: str = "") -> Callable[[str], list[str]]:
    """Return a completion of a value, or of the last item of a list; a function is called for the words when asked."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        known = words() if callable(words) else words
        return [f"{before}{comma}{word}{end}" for word in known if word.startswith(last)]

    return complete


def read_moment(text: str) -> datetime:
    """Read a time: ISO 8601 in UTC, a day, an age, or `now`. Raises `ValueError`."""
    return parse_moment(text, SYSTEM_CLOCK.now())


def read_seconds(text: str, *, longest: float = 24 * 3600.0) -> float:
    """Read a duration in seconds. Raises `ValueError`."""
    seconds = parse_duration(text).total_seconds()
    if seconds > longest:
        raise ValueError(f"{inert(text)} is more than {duration_text(timedelta(seconds=longest))}")
    return seconds


def require_choice(what: str, name: str, allowed: Sequence[str]) -> str:
    """Return a word if it is one of those that an option takes."""
    if name in allowed:
        return name
    raise UsageError(f"unknown {what} {inert(name)!r}; choose {one_of(allowed)}")


def one_of(words: Iterable[str]) -> str:
    """Return alternatives: `text, json or csv`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def name_options(error: QuotaformError | None) -> None:
    """Let the message of an error have options where it names arguments."""
    if isinstance(error, ArgumentError):
        error.args = (error.spelled(option_of),)


NO_ARGV: Final = (
    "other processes of this machine can read a command line, and shells keep it in their history; "
    "use --password-file, --password-env or the prompt"
)


# Which options need another one, and which cannot be given together.

_SPARK: Final = "--engine --master --remote --spark-conf"

NEEDED: Final = {
    "validate --check-principals": "--bootstrap-server --command-config",
    "plan --principals": "--principals-out",
    "describe ENTITY|--name|--default|--any|--prefix|--not": "--strict",
    "drift --watch": "--listen",
    "top --once": "--format",
    "drift --history": "--against",
    "drift --against": "--history",
    "ingest --prometheus": "--since --query",
    "ingest --since": "--prometheus",
    "ingest --topic": "--bootstrap-server --command-config --topic-cluster --checkpoint --until-empty --for",
    "ingest --bootstrap-server": "--command-config",
    "ingest --bootstrap-server|--topic-cluster": "--topic",
    "ingest --checkpoint": "--topic",
}
"""An option of a command, with its alternatives, to those that cannot be given without it."""

EXCLUSIVE: Final = {
    "--all": "--cluster --bootstrap-server",
    "--snapshot": "--bootstrap-server --all",
    "ENTITY": "--name --default --any --prefix --not",
    "--base": "--no-base",
    "plan --summary": "--format",
    "plan --backtest": "--engine",
    "plan --revert": f"--snapshot --base --no-base --prune {_SPARK}",
    "apply --dry-run": f"--format --report --receipt --audit {_SPARK}",
    "drift --against": "--baseline",
    "drift --watch": f"--format --out --report --exit-zero --against --snapshot --select --exclude {_SPARK}",
    "resolve --from": "ENTITY --name",
    "resolve --out": "--format --omit-overridden",
    "upsert --password-file": "--password-env",
    "demo --fleet": "--usage",
    "top --source": "--prometheus --label",
    "append SNAPSHOT": "--cluster --all --bootstrap-server",
    "headroom --quotas": "--cluster --all --bootstrap-server --snapshot",
    "recommend --diff": "--write --format",
    "ingest SOURCE": "--topic --prometheus",
    "ingest --topic": "--prometheus",
    "ingest --topic-cluster": "--bootstrap-server",
    "ingest --until-empty": "--for",
}
"""An option or argument of all commands or of one, to those that cannot be given with it."""


def _require_together(command: str, given: set[str]) -> None:
    """Make sure that options go together. Raises `UsageError`."""
    for table in (EXCLUSIVE, NEEDED):
        for key, others in table.items():
            only, _, name = key.rpartition(" ")
            is_given = not given.isdisjoint(name.split("|"))
            for other in others.split() if only in ("", command) else ():
                if other in given and is_given and table is EXCLUSIVE:
                    raise UsageError(f"{name} and {other} cannot be combined; give one of them")
                if other in given and not is_given and table is NEEDED:
                    raise UsageError(f"{other} requires {name.replace('|', ' or ')}")


def _rules() -> Iterable[str]:
    from quotaform.model.rule import ALLOWED_RULES

    return ALLOWED_RULES


DIRECTORY: Final = argument("DIR", "Quotas directory, or its parent directory. [default: quotas.d]")
ALLOW: Final = option(
    "--allow RULE[=N]",
    "Apply although this rule blocks, e.g. to-unlimited or delete=8. Repeatable.",
    complete=complete_from(_rules),
)
AUTO_APPROVE: Final = flag("--auto-approve", "Do not ask for approval, even with confirm: name in quotaform.yaml.")
USAGE: Final = option("--usage DIR|TABLE", "The usage table, as quotaform usage record or ingest writes it.", REQUIRED)
SOURCE: Final = option(
    "--source [BROKER=]URL",
    "Source of a broker's metrics: http://HOST:PORT/metrics of an exporter, or jmx:HOST:PORT. "
    "Repeatable. [default: metrics.brokers of the cluster in quotaform.yaml]",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The times between which recorded usage counts."""

    since: datetime | None = option(
        "--since TIME", "Only usage from this time on: ISO 8601, a day, or an age (30d).", read=read_moment
    )
    until: datetime | None = option("--until TIME", "Only usage before this time.", read=read_moment)

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise UsageError("--since must be before --until")
