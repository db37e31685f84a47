"""`kafka-client-quotas`: the command that KIP-546 specified and Kafka never shipped.

It behaves as one of Kafka's own scripts: their exit codes (0, 1), no output of a successful `--alter`, and nothing
but the result on stdout. It starts without typer, so that it is not slower than it has to be.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Container, Iterable, Iterator
from functools import partial
from re import compile as regex
from typing import TYPE_CHECKING, Final, NoReturn

from quotaform import __version__
from quotaform.cli.console import Console, cut_lines, guarded_streams, run_as_process
from quotaform.model.entity import (
    DEFAULT_WORD,
    ENTITY_TYPES,
    IP,
    Entity,
    desanitize,
    part_order,
    sanitize,
    sanitized_entity,
)
from quotaform.model.errors import ClusterError, QuotaformError, UsageError, as_usage_error
from quotaform.model.text import printable, quote
from quotaform.model.units import parse_number, plain
from quotaform.system.process import interrupt_code, signals_raised

if TYPE_CHECKING:
    from quotaform.model.quotas import Quotas
    from quotaform.resolve.index import Request
    from quotaform.resolve.quota_admin import QuotaAdmin

PROGRAM: Final = "kafka-client-quotas"

_EXAMPLES: Final = """\
names:
  A comma ends a name, and the first = of a pair ends its type. Names can be written percent-encoded, as --describe
  prints them: user=CN%3Da%2CO%3Db is the user CN=a,O=b. A name that differs from its --describe form is literal:
  user=CN=a and user=100% stand for the users CN=a and 100%. Only a user whose name is literally a%20b must be
  encoded, as a%2520b. In --describe, an omitted entity type is a wildcard; in --resolve, an omitted user or client-id
  and a default are one that no quota mentions. --names=user=some-user,client-id= is an empty client-id.

examples:
  kafka-client-quotas --bootstrap-server localhost:9092 --describe --names=client-id=my-client
  kafka-client-quotas --bootstrap-server localhost:9092 --resolve --names=user=user-two,client-id=my-client
  kafka-client-quotas --bootstrap-server localhost:9092 --alter --names=client-id=my-client --defaults=user \\
      --add=consumer_byte_rate=2000000 --delete=producer_byte_rate
"""


def main() -> NoReturn:
    """Run `kafka-client-quotas` with the arguments of the process and exit."""
    run_as_process(run)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code, as Kafka's scripts do: 0, or 1 whatever went wrong."""
    with guarded_streams() as output, signals_raised():
        code = _try(arguments)
        return code if output.loss is None else _fail(output.loss, max(code, 1))


def _try(arguments: list[str]) -> int:
    try:
        _run(build_parser().parse_args(arguments))
    except SystemExit as ended:
        return int(ended.code or 0)
    except KeyboardInterrupt as interrupt:
        sent = "--alter" in arguments and "--validate-only" not in arguments
        words = "interrupted" + ("; the quotas may or may not have been altered" if sent else "")
        return _fail(words, interrupt_code(interrupt))
    except QuotaformError as error:
        return _fail(str(error))
    except ValueError as error:
        return _fail(printable(str(error)))
    except Exception as error:
        return _fail(f"internal error: {type(error).__name__}: {printable(str(error))}")
    return 0


def _fail(message: str, code: int = 1) -> int:
    sys.stderr.write(cut_lines(f"{PROGRAM}: {message}\n"))
    return code


class _Parser(ArgumentParser):
    """Ends with 1 on wrong usage, as Kafka's scripts do."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. Try '{PROGRAM} --help'.")


def build_parser() -> ArgumentParser:
    """Return the whole command."""
    parser = _Parser(
        prog=PROGRAM,
        description="Describe, resolve and alter the client quotas of a Kafka cluster (KIP-546).",
        epilog=_EXAMPLES,
        formatter_class=partial(RawDescriptionHelpFormatter, width=110, max_help_position=36),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")

    def lists(option: str, metavar: str, text: str) -> None:
        parser.add_argument(option, action="append", default=[], metavar=metavar, help=text)

    lists("--bootstrap-server", "HOST:PORT,...", "bootstrap servers")
    parser.add_argument("--command-config", metavar="FILE", help="client properties file")
    lists(
        "--adminclient-property",
        "KEY=VALUE,...",
        "client properties, which override those of the file; passwords belong in the file",
    )
    operation = parser.add_mutually_exclusive_group()
    for name, text in (
        ("describe", "print the matching entities and their values"),
        ("resolve", "print the effective quotas of the entity and their sources"),
        ("alter", "add, update and delete values of the entity"),
    ):
        operation.add_argument(f"--{name}", dest="operation", action="store_const", const=name, help=text)
    lists("--names", "TYPE=NAME,...", "names by entity type, e.g. user=some-user,client-id=some-client-id")
    lists("--defaults", "TYPE,...", "entity types of which to use the default, e.g. user,client-id")
    lists("--add", "KEY=VALUE,...", "with --alter: values to add or update")
    lists("--delete", "KEY,...", "with --alter: values to delete")
    parser.add_argument(
        "--validate-only", action="store_true", help="with --alter: validate on the broker, change nothing"
    )
    return parser


def _run(options: Namespace) -> None:
    if options.operation is None:
        raise UsageError(f"give one of --describe, --resolve, --alter. Try '{PROGRAM} --help'.")
    is_alter = options.operation == "alter"
    only = [f"--{name}" for name in ("add", "delete", "validate-only") if getattr(options, name.replace("-", "_"))]
    if only and not is_alter:
        raise UsageError(f"{' and '.join(only)} can only be used with --alter")
    if options.operation != "describe" and not (options.names or options.defaults):
        raise UsageError(f"--{options.operation} requires an entity: give --names or --defaults")
    if is_alter and not (options.add or options.delete):
        raise UsageError("--alter requires --add or --delete")
    entity = Entity(read_parts(options.names, options.defaults))
    ops = read_ops(options.add, options.delete)
    properties = read_properties(options.adminclient_property)
    request = None
    if options.operation == "resolve":
        from quotaform.resolve.index import request_of

        request = request_of(entity, allows_defaults=True)
    from quotaform.resolve.quota_admin import QuotaAdmin

    servers = ",".join(options.bootstrap_server)
    with QuotaAdmin.connect(servers, command_config=options.command_config, properties=properties or None) as admin:
        try:
            if is_alter:
                from quotaform.model.alteration import Alteration

                admin.alter([Alteration(entity, ops)], validate_only=options.validate_only).raise_for_errors()
            elif request is not None:
                _resolve(admin, request)
            else:
                from quotaform.model.filter import EntityFilter

                Console().echo(render_described(admin.describe(EntityFilter.contains(dict(entity.parts)))))
        except ClusterError as error:
            unknown = [entity_type for entity_type in entity.types if entity_type not in ENTITY_TYPES]
            if not unknown:
                raise
            types = f"Kafka's entity types are {', '.join(ENTITY_TYPES)}"
            raise error.with_more(f" ({types}; is {quote(unknown[0])} part of a name? {COMMA})") from error


def _resolve(admin: QuotaAdmin, request: Request) -> None:
    """Print a line per quota key that is limited: `consumer_byte_rate=1000000 {user=<default>, client-id=x}`.

    Which names were assumed for a request that has none, and for how many others the result differs, goes to stderr.
    """
    from quotaform.resolve.effect import differs_text
    from quotaform.resolve.index import QuotaIndex, unmentioned_types

    resolved = sorted(QuotaIndex(admin.describe()).resolve(request).items())
    if unmentioned := unmentioned_types(request):
        assumed = " and ".join(f"{'an' if kind == IP else 'a'} {kind}" for kind in unmentioned)
        notes = [f"; {sanitize(key)} {differs_text(found.differs)}" for key, found in resolved if found.differs]
        sys.stderr.write(f"{PROGRAM}: resolved for {assumed} that no quota mentions{''.join(notes)}\n")
    for key, found in resolved:
        if found.value is not None and found.source is not None:
            Console().echo(f"{sanitize(key)}={plain(found.value)} {sanitized_entity(found.source)}\n")


COMMA: Final = "A name with a comma is written whole as --describe prints it: user=CN%3Da%2CO%3Db."
"""The remedy when a name was cut at a comma."""


_PROPERTY_PIECES: Final = regex(r'(?:[^,"]|"(?:[^"\\]|\\.)*"|")+').findall
_PROPERTY_NAME: Final = regex(r"[A-Za-z][A-Za-z0-9._-]*").fullmatch


def _items(
    option: str, lists: Iterable[str], taken: Container[str], problem: str, *, is_pair: bool = False, hint: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield what is listed: names, each with its value in a pair; none may be taken already."""
    for text in lists:
        for piece in text.split(","):
            if not piece:
                raise UsageError(f"{option} {quote(text)} has an empty item; remove the extra comma")
            name, separator, value = piece.partition("=")
            if not name or bool(separator) is not is_pair:
                raise UsageError(f"{option}: {quote(piece)} {problem}")
            if (name := desanitize(name)) in taken:
                raise UsageError(f"{option}: {quote(name)} is given twice{hint}")
            yield name, value


def read_parts(names: Iterable[str], defaults: Iterable[str]) -> dict[str, str | None]:
    """Read `--names` and `--defaults`: entity type to name, `None` for the default."""
    parts: dict[str, str | None] = {}
    hint = f". {COMMA}"
    for entity_type, name in _items("--names", names, parts, f"is not type=name{hint}", is_pair=True, hint=hint):
        if name == DEFAULT_WORD:
            raise UsageError(
                f"--names: for the default write --defaults={entity_type}; a literal name {DEFAULT_WORD} is "
                f"written {sanitize(name)}"
            )
        parts[entity_type] = desanitize(name)
    problem = "is not an entity type; names go into --names"
    for entity_type, _ in _items("--defaults", defaults, parts, problem, hint=hint):
        parts[entity_type] = None
    return parts


def read_ops(added: Iterable[str], deleted: Iterable[str]) -> dict[str, float | None]:
    """Read `--add` and `--delete`: quota key to the value to set, `None` to remove it.

    A value is a decimal number, of which the nearest double is sent, as Kafka's own tools do.
    """
    ops: dict[str, float | None] = {}
    for key, text in _items("--add", added, ops, "is not key=value", is_pair=True):
        with as_usage_error("--add: ", " (quotaform alter takes units, too)"):
            ops[key] = parse_number(text)
    for key, _ in _items("--delete", deleted, ops, "is not the name of a quota key; leave the value out"):
        ops[key] = None
    return ops


def read_properties(lists: Iterable[str]) -> dict[str, str]:
    """Read `--adminclient-property` (KIP-248); a comma in double quotes, or before what is no key, is of the value."""
    properties: dict[str, str] = {}
    for text in lists:
        last = None
        for piece in _PROPERTY_PIECES(text):
            key, separator, value = piece.partition("=")
            if separator and _PROPERTY_NAME(key.strip()):
                last = key.strip()
                if last in properties:
                    raise UsageError("--adminclient-property: a key is given twice")
                properties[last] = value
            elif last is not None:
                properties[last] += f",{piece}"
            else:
                # Not shown: it may be half of a password.
                raise UsageError("--adminclient-property is not key=value")
    return properties


# Quotas as KIP-546 has `kafka-client-quotas` print them: one line each, keys by name, values as plain numbers.


def render_described(quotas: Quotas) -> str:
    """Return a line per entity: `{user=<default>, client-id=x} consumer_byte_rate=1000000`.

    Ordered by user, then client-id, then ip, the names before the default.
    """

    def order(entity: Entity) -> list[tuple[int, str, bool, str]]:
        return [(*part_order(part), part[1] is None, part[1] or "") for part in entity.parts]

    lines = []
    for entity in sorted(quotas, key=order):
        values = (f" {sanitize(key)}={plain(value)}" for key, value in sorted(quotas[entity].items()))
        lines.append(f"{sanitized_entity(entity)}{''.join(values)}\n")
    return "".join(lines)
