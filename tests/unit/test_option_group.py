"""A parameter that stands for several options: typer sees the options, the command one value."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from quotaform.cli.option.output import with_option_groups

seen: list[Any] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    city: Annotated[str, typer.Option("--city", help="Where.")]
    street: Annotated[list[str] | None, typer.Option("--street", "-s")] = None


@with_option_groups
def visit(
    who: Annotated[str, typer.Argument()] = "all",
    *,
    first: Annotated[bool, typer.Option("--first")] = False,
    place: Place,
    last: Annotated[int, typer.Option("--last")] = 1,
) -> int:
    """Visit somebody."""
    seen.append((who, first, place, last))
    return last


def test_the_options_of_a_group_stand_where_its_parameter_stands() -> None:
    assert list(signature(visit).parameters) == ["who", "first", "city", "street", "last"]
    assert visit.__name__ == "visit"
    assert visit.__doc__ == "Visit somebody."


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["--city", "x"], ("all", False, Place(city="x"), 1)),
        (
            ["me", "--last", "3", "-s", "a", "--street", "b", "--city", "x"],
            ("me", False, Place(city="x", street=["a", "b"]), 3),
        ),
    ],
)
def test_the_command_is_called_with_one_value(arguments: list[str], values: tuple[Any, ...]) -> None:
    app = typer.Typer()
    app.command()(visit)
    seen.clear()
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert seen == [values]


def test_an_option_of_a_group_without_a_default_is_required() -> None:
    app = typer.Typer()
    app.command()(visit)
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
