"""How command lines name entities: by address; `quotaform.cli.option.entity_reader` reads the options beside it."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import typer

from quotaform.cli.option.completion import complete_entity_type, complete_name
from quotaform.errors import UsageError
from quotaform.model.entity import Entity

ENTITY: Final = "ENTITY"
"""What help texts call an argument that is an address."""


def read_address(text: str) -> Entity:
    """Read an address, wherever a command takes one."""
    from quotaform.model.address import parse_address

    try:
        return parse_address(text)
    except ValueError as error:
        hint = "; a shell needs the single quotes" if str(error).endswith("'") else ""
        raise UsageError(f"{error}{hint}") from None


_ARGUMENT: Final = typer.Argument(
    metavar=ENTITY,
    parser=read_address,
    help="Address as printed in results, e.g. user=alice or 'user=alice,client-id=<default>'.",
    autocompletion=complete_name,
)
RequiredEntity: TypeAlias = Annotated[Entity, _ARGUMENT]
EntityArgument: TypeAlias = Annotated[Entity | None, _ARGUMENT]
EntitiesArgument: TypeAlias = Annotated[
    list[Entity] | None,
    typer.Argument(
        metavar=f"[{ENTITY}]...",
        parser=read_address,
        help="Addresses as printed in results, e.g. user=alice or 'user=alice,client-id=<default>'. [default: all]",
        autocompletion=complete_name,
    ),
]
NameOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="TYPE=NAME",
        help="Entities with this name of an entity type (user, client-id or ip). Repeatable, once per type.",
        autocompletion=complete_name,
    ),
]
DefaultOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--default",
        metavar="TYPE",
        help="Entities with the default of an entity type. Repeatable.",
        autocompletion=complete_entity_type,
    ),
]
FormerNameOption: TypeAlias = Annotated[list[str] | None, typer.Option("--name", hidden=True)]
FormerDefaultOption: TypeAlias = Annotated[list[str] | None, typer.Option("--default", hidden=True)]
