"""`quotaform scram`: the SCRAM credentials of a cluster's users (KIP-554)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from quotaform.cli.approval import require_confirmed
from quotaform.cli.console import Console
from quotaform.cli.exit_code import judge_scram, judge_scram_users
from quotaform.cli.format import format_option, render, require_format
from quotaform.cli.option.cluster import OneCluster
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.cli.option.redacted import RedactedCommand
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.cluster.scram import ScramGateway
    from quotaform.model.scram import ScramResult
    from quotaform.model.secret import Secret

app = typer.Typer(help="Manage the SCRAM credentials of users (KIP-554).", no_args_is_help=True)

UserOption: TypeAlias = Annotated[list[str], typer.Option("--user", metavar="NAME", help="User name. Repeatable.")]
MechanismOption: TypeAlias = Annotated[
    list[str], typer.Option("--mechanism", metavar="NAME", help="SCRAM-SHA-512 or SCRAM-SHA-256. Repeatable.")
]

_NO_ARGV = (
    "other processes of this machine can read a command line, and shells keep it in their history; "
    "use --password-file, --password-env or the prompt"
)
_RESTART_BUG = (
    "Note: Kafka brokers (seen on 4.3.1) that restart soon after a SCRAM user was deleted may lose all users of that "
    "mechanism. Check with quotaform scram describe after a restart."
)


class _UpsertCommand(RedactedCommand):
    """Says why there is no `--password`, and does not repeat one that stands where no argument belongs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        if any(argument.partition("=")[0] == "--password" for argument in args):
            raise UsageError(f"there is no --password: {_NO_ARGV}")
        # Else typer would refuse what is left over, and show it.
        ctx.allow_extra_args = True
        left = super().parse_args(ctx, args)
        if ctx.args:
            raise UsageError(f"scram upsert has options only. If that was a password: {_NO_ARGV}")
        return left


@app.command("describe", cls=RedactedCommand, short_help="Show users and their SCRAM credentials.")
@with_option_groups
def describe(
    *,
    user: Annotated[
        list[str] | None, typer.Option("--user", metavar="NAME", help="Only this user. Repeatable. [default: all]")
    ] = None,
    target: OneCluster,
    format_name: Annotated[str, format_option("scram")] = "text",
    output: Output,
) -> int:
    """Show which users have SCRAM credentials, with mechanisms and iterations; clusters do not store passwords.

    Exit 1 if a user given with --user has none.

    \b
    Examples:
      quotaform scram describe
      quotaform scram describe --user alice --user bob --format json
    """
    from quotaform.app.scram import open_scram
    from quotaform.cli.option.credential_reader import require_users

    console = output.console()
    require_format("scram", format_name)
    names = require_users(user or ())
    with open_scram(target.choose()) as gateway:
        console.progress("Reading SCRAM credentials", 0, 0)
        users = gateway.describe(names)
        cluster = {"cluster_name": gateway.name, "cluster_id": gateway.cluster_id}
        console.echo(render("scram", format_name, users, style=console.style(), **cluster))
    return judge_scram_users(users)


ApproveOption: TypeAlias = Annotated[
    bool, typer.Option("--auto-approve", help="Do not ask for approval, even with confirm: name in quotaform.yaml.")
]


@app.command("upsert", cls=_UpsertCommand, short_help="Create or update credentials.")
@with_option_groups
def upsert(
    *,
    user: UserOption,
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
    per --user in the same order. They are salted and hashed locally; only the result is sent. Names and passwords are
    used as their UTF-8 bytes, without SASLprep, as in Kafka's own tools.

    Exit 1 if nothing was set, 6 if only some credentials were.

    \b
    Examples:
      quotaform scram upsert --user alice --mechanism SCRAM-SHA-512
      quotaform scram upsert --user alice --mechanism SCRAM-SHA-512 --password-file alice.password
      quotaform scram upsert --user a --user b --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512 --password-env PW
    """
    from quotaform.app.scram import open_scram, upsertions
    from quotaform.cli.option.credential_reader import read_mechanisms, require_users

    console = output.console()
    console.keep_code()
    require_format("scram-result", format_name)
    mechanisms = read_mechanisms(mechanism)
    users = require_users(user)
    chosen = target.choose()
    require_confirmed(console, chosen, auto_approve=auto_approve)
    passwords = _read_passwords(users, password_file or (), password_env or (), console)
    with open_scram(chosen) as gateway:
        if not passwords:
            passwords = {name: _ask_password(name) for name in users}
        console.progress("Setting SCRAM credentials", 0, 0)
        result = gateway.alter(upsertions(passwords, mechanisms, iterations))
        return _conclude(result, gateway, format_name, console)


@app.command("delete", cls=RedactedCommand, short_help="Delete credentials.")
@with_option_groups
def delete(
    *,
    user: UserOption,
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
      quotaform scram delete --user alice --mechanism SCRAM-SHA-256
    """
    from quotaform.app.scram import deletions, open_scram
    from quotaform.cli.option.credential_reader import read_mechanisms, require_users

    console = output.console()
    console.keep_code()
    require_format("scram-result", format_name)
    mechanisms = read_mechanisms(mechanism)
    users = require_users(user)
    chosen = target.choose()
    require_confirmed(console, chosen, auto_approve=auto_approve)
    with open_scram(chosen) as gateway:
        console.progress("Deleting SCRAM credentials", 0, 0)
        result = gateway.alter(deletions(users, mechanisms))
        code = _conclude(result, gateway, format_name, console)
    if result.wrote_anything:
        console.warn(_RESTART_BUG)
    return code


def _read_passwords(
    users: Sequence[str], files: Sequence[Path], variables: Sequence[str], console: Console
) -> Mapping[str, Secret]:
    """Return the password of each user from files or the environment; none when they are to be asked for."""
    from quotaform.cli.option.credential_reader import is_open_to_all, read_password_file, read_password_variable

    if files and variables:
        raise UsageError("--password-file and --password-env cannot be combined; give one of them")
    if not files and not variables:
        if not sys.stdin.isatty():
            raise UsageError("there is no terminal for the password prompt; use --password-file or --password-env")
        return {}
    option = "--password-file" if files else "--password-env"
    count = len(files or variables)
    if count not in (1, len(users)):
        raise UsageError(f"{option} is given {count} times for {len(users)} users; give one for all or one for each")
    passwords = [read_password_variable(name) for name in variables]
    for number, path in enumerate(files, 1):
        where = "the password file" if count == 1 else f"password file {number}"
        passwords.append(read_password_file(path, where))
        if is_open_to_all(path):
            console.warn(f"Warning: every user of this machine can read {where}; run chmod 600 on it.")
    return dict(zip(users, passwords * (1 if count == len(users) else len(users)), strict=True))


def _ask_password(user: str) -> Secret:
    """Ask for a password on the terminal, twice, without showing it."""
    from getpass import GetPassWarning, getpass
    from warnings import catch_warnings, simplefilter

    from quotaform.cli.option.credential_reader import require_password
    from quotaform.model.entity import spell_name

    name = spell_name(user)
    try:
        with catch_warnings():
            # It would go on and show what is typed.
            simplefilter("error", GetPassWarning)
            first = require_password(getpass(f"Password for {name}: "), f"the password for {name}")
            is_same = getpass(f"Repeat the password for {name} again: ") == first.reveal()
    except GetPassWarning:
        raise UsageError("this terminal would display the password; use --password-file or --password-env") from None
    except EOFError:
        raise UsageError(f"no password was given for {name}; nothing was changed") from None
    if not is_same:
        raise UsageError(f"the two passwords for {name} differ; nothing was changed")
    return first


def _conclude(result: ScramResult, gateway: ScramGateway, format_name: str, console: Console) -> int:
    cluster = {"cluster_name": gateway.name, "cluster_id": gateway.cluster_id}
    console.echo(render("scram-result", format_name, result, style=console.style(), **cluster))
    if result.interrupt is not None:
        raise result.interrupt
    return judge_scram(result)
