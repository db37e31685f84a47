"""The option that names a table of usage."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

UsageOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--usage", metavar="DIR|TABLE", help="The usage table, as quotaform usage record or ingest writes it."
    ),
]
