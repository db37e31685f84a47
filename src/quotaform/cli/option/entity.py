"""Options that name entities; `quotaform.cli.option.entity_reader` reads them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from quotaform.cli.option.completion import complete_entity_type, complete_name

NameOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="TYPE=NAME",
        help="Entity type (user, client-id or ip) and name. Repeatable, once per type.",
        autocompletion=complete_name,
    ),
]
DefaultOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--default",
        metavar="TYPE",
        help="Default of an entity type. Repeatable.",
        autocompletion=complete_entity_type,
    ),
]
