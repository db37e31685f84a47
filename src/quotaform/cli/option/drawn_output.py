"""The option `--out` of a result that is a table and can be drawn."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

DrawnOutOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--out",
        metavar="FORMAT=PATH|parquet=DIR",
        help="Also write the result to a file, a picture of it as html, png or svg (the plot extra), or all of its "
        "rows as Parquet to a new directory. Repeatable.",
    ),
]
