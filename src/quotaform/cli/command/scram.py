"""`quotaform scram`: the SCRAM credentials of a cluster's users (KIP-554)."""

from __future__ import annotations

from pathlib import Path
from re import compile as regex
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from typer.core import TyperCommand

from quotaform.app.rendering import render
from quotaform.cli.approval import require_confirmed
from quotaform.cli.console import Console
from quotaform.cli.exit_code import judge_scram, judge_scram_users
from quotaform.cli.format import format_option, require_format
from quotaform.cli.option.cluster import OneCluster
from quotaform.cli.option.completion import complete_from
from quotaform.cli.option.entity import ENTITY
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.cli.usage import usage_text
from quotaform.errors import InvalidFilesError, UsageError
from quotaform.model.entity import ENTITY_TYPES

if TYPE_CHECKING:
    from quotaform.cluster.scram import ScramGateway
    from quotaform.model.scram import ScramResult


_OPTION: Final = regex("--[a-z]+(-[a-z]+)*").fullmatch
"""What is the name of an option, known or not; a password with a digit or a capital letter is none."""
_SHOWN: Final = "…"
_SHORTEST: Final = 4
"""A shorter text is part of many words."""


class RedactedCommand(TyperCommand):
    """A command that repeats no value of its command line in what it says of wrong usage and invalid files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and leave the values out of what is wrong."""
        given = list(args)
        ctx.meta["quotaform.given"] = given
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            raise UsageError(redact(usage_text(error, ctx.command_path), given)) from None
        except UsageError as error:
            raise UsageError(redact(str(error), given)) from None

    def invoke(self, ctx: Any) -> Any:
        """Run, and leave the values out of what is wrong."""
        try:
            return super().invoke(ctx)
        except (UsageError, InvalidFilesError) as error:
            error.args = (redact(str(error), ctx.meta["quotaform.given"]),)
            raise


class PasswordCommand(RedactedCommand):
    """Says why there is no `--password`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and refuse what may be a password."""
        if not ctx.resilient_parsing and any(argument.partition("=")[0] == "--password" for argument in args):
            from quotaform.cli.option.credential_reader import NO_ARGV

            raise UsageError(f"there is no --password: {NO_ARGV}")
        return super().parse_args(ctx, args)


def redact(text: str, arguments: list[str]) -> str:
    """Return a message without the values of arguments; names of files that exist stay.

    >>> redact('unknown format "hunter2"; choose text or json', ["--format=hunter2"])
    'unknown format "…"; choose text or json'
    """
    for argument in arguments:
        name, _, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
        for word in ("" if _OPTION(name) else name.lstrip("-"), value):
            if len(word) >= _SHORTEST and word not in ENTITY_TYPES and not _exists(word):
                text = text.replace(word, _SHOWN)
    return text


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


app = typer.Typer(help="Manage the SCRAM credentials of users (KIP-554).", no_args_is_help=True)

UsersArgument: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar=f"[{ENTITY}]...", help="Users by address, e.g. user=alice.", autocompletion=complete_from(["user="])
    ),
]
FormerUserOption: TypeAlias = Annotated[list[str] | None, typer.Option("--user", hidden=True)]
MechanismOption: TypeAlias = Annotated[
    list[str], typer.Option("--mechanism", metavar="NAME", help="SCRAM-SHA-512 or SCRAM-SHA-256. Repeatable.")
]

_RESTART_BUG = (
    "Note: Kafka brokers (seen on 4.3.1) that restart soon after a SCRAM user was deleted may lose all users of that "
    "mechanism. Check with quotaform scram describe after a restart."
)


@app.command("describe", cls=RedactedCommand, short_help="Show users and their SCRAM credentials.")
@with_option_groups
def describe(
    *,
    entities: UsersArgument = None,
    user: FormerUserOption = None,
    target: OneCluster,
    format_name: Annotated[str, format_option("scram")] = "text",
    output: Output,
) -> int:
    """Show which users have SCRAM credentials, with mechanisms and iterations; clusters do not store passwords.

    Without an argument, all users. Exit 1 if a user that is given has none.

    \b
    Examples:
      quotaform scram describe
      quotaform scram describe user=alice user=bob --format json
    """
    from quotaform.app.scram import open_scram
    from quotaform.cli.option.credential_reader import read_users

    console = output.console()
    require_format("scram", format_name)
    names = read_users(entities or (), user or (), takes_all=True)
    with open_scram(target.choose()) as gateway:
        console.progress("Reading SCRAM credentials", 0, 0)
        users = gateway.describe(names)
        cluster = {"cluster_name": gateway.name, "cluster_id": gateway.cluster_id}
        console.echo(render("scram", format_name, users, style=console.style(), **cluster))
    return judge_scram_users(users)


ApproveOption: TypeAlias = Annotated[
    bool, typer.Option("--auto-approve", help="Do not ask for approval, even with confirm: name in quotaform.yaml.")
]


@app.command("upsert", cls=PasswordCommand, short_help="Create or update credentials.")
@with_option_groups
def upsert(
    *,
    entities: UsersArgument = None,
    user: FormerUserOption = None,
    mechanism: MechanismOption,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            metavar="N",
            min=1,
            max=100_000,
            help="Number of hash iterations; brokers accept 4096 to 16384.",
        ),
    ] = 4096,
    password_file: Annotated[
        list[Path] | None,
        typer.Option(
            "--password-file", metavar="FILE", help="File with the password as its only line; - is stdin. Repeatable."
        ),
    ] = None,
    password_env: Annotated[
        list[str] | None,
        typer.Option("--password-env", metavar="VAR", help="Environment variable with the password. Repeatable."),
    ] = None,
    target: OneCluster,
    auto_approve: ApproveOption = False,
    format_name: Annotated[str, format_option("scram-result")] = "text",
    output: Output,
) -> int:
    """Create or update the SCRAM credentials of users: each user with each mechanism, all with the same iterations.

    Passwords are read from the terminal (asked for twice), files or environment variables: one for all users, or one
    per user in the same order. They are salted and hashed locally; only the result is sent. Names and passwords are
    used as their UTF-8 bytes, without SASLprep, as in Kafka's own tools.

    Exit 1 if nothing was set, 6 if only some credentials were.

    \b
    Examples:
      quotaform scram upsert user=alice --mechanism SCRAM-SHA-512
      quotaform scram upsert user=alice --mechanism SCRAM-SHA-512 --password-file alice.password
      quotaform scram upsert user=a user=b --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512 --password-env PW
    """
    from quotaform.app.scram import open_scram, upsertions
    from quotaform.cli.option.credential_reader import read_mechanisms, read_users
    from quotaform.cli.option.password_reader import ask_password, read_passwords

    console = output.console()
    console.keep_code()
    require_format("scram-result", format_name)
    mechanisms = read_mechanisms(mechanism)
    users = read_users(entities or (), user or ())
    chosen = target.choose()
    require_confirmed(console, chosen, auto_approve=auto_approve)
    passwords = read_passwords(users, password_file or (), password_env or (), console)
    with open_scram(chosen) as gateway:
        if not passwords:
            passwords = {name: ask_password(name) for name in users}
        console.progress("Setting SCRAM credentials", 0, 0)
        result = gateway.alter(upsertions(passwords, mechanisms, iterations))
        return _conclude(result, gateway, format_name, console)


@app.command("delete", cls=RedactedCommand, short_help="Delete credentials.")
@with_option_groups
def delete(
    *,
    entities: UsersArgument = None,
    user: FormerUserOption = None,
    mechanism: MechanismOption,
    target: OneCluster,
    auto_approve: ApproveOption = False,
    format_name: Annotated[str, format_option("scram-result")] = "text",
    output: Output,
) -> int:
    """Delete the SCRAM credentials of users: those of each user for each mechanism.

    Quotas are not changed. Exit 1 if nothing was deleted, 6 if only some credentials were. Brokers that restart soon
    afterwards may lose all users of the mechanism (seen on Kafka 4.3.1): check with quotaform scram describe.

    \b
    Examples:
      quotaform scram delete user=alice --mechanism SCRAM-SHA-256
    """
    from quotaform.app.scram import deletions, open_scram
    from quotaform.cli.option.credential_reader import read_mechanisms, read_users

    console = output.console()
    console.keep_code()
    require_format("scram-result", format_name)
    mechanisms = read_mechanisms(mechanism)
    users = read_users(entities or (), user or ())
    chosen = target.choose()
    require_confirmed(console, chosen, auto_approve=auto_approve)
    with open_scram(chosen) as gateway:
        console.progress("Deleting SCRAM credentials", 0, 0)
        result = gateway.alter(deletions(users, mechanisms))
        code = _conclude(result, gateway, format_name, console)
    if result.wrote_anything:
        console.warn(_RESTART_BUG)
    return code


def _conclude(result: ScramResult, gateway: ScramGateway, format_name: str, console: Console) -> int:
    cluster = {"cluster_name": gateway.name, "cluster_id": gateway.cluster_id}
    console.echo(render("scram-result", format_name, result, style=console.style(), **cluster))
    if result.interrupt is not None:
        raise result.interrupt
    return judge_scram(result)
