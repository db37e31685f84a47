"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from quotaform.cli.option.value import complete_from, require_choice
from quotaform.model.errors import UsageError

if TYPE_CHECKING:
    from quotaform.model.settings import MetricsSource


def choice(option: str, words: Iterable[str], text: str, **more: Any) -> Any:
    """Return an option that takes one of several words."""
    known = tuple(words)
    return typer.Option(
        option,
        metavar="|".join(known),
        help=text,
        parser=lambda given: known[known.index(require_choice(option.lstrip("-"), given, known))],
        autocompletion=complete_from(known),
        **more,
    )


def _rules() -> Iterable[str]:
    from quotaform.model.rule import allowed_rules

    return allowed_rules()


DirectoryArgument: TypeAlias = Annotated[
    Path | None,
    typer.Argument(metavar="DIR", help="Quotas directory, or its parent directory. [default: quotas.d]"),
]
SnapshotOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--snapshot", metavar="FILE", help="Snapshot file to read instead of a live cluster."),
]
AllowOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="RULE[=N]",
        help="Apply although this rule blocks, e.g. to-unlimited or delete=8. Repeatable.",
        autocompletion=complete_from(_rules),
    ),
]


ApproveOption: TypeAlias = Annotated[
    bool, typer.Option("--auto-approve", help="Do not ask for approval, even with confirm: name in quotaform.yaml.")
]

UsageOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--usage", metavar="DIR|TABLE", help="The usage table, as quotaform usage record or ingest writes it."
    ),
]


SourceOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="[BROKER=]URL",
        help="Source of a broker's metrics: http://HOST:PORT/metrics of an exporter, or jmx:HOST:PORT. "
        "Repeatable. [default: metrics.brokers of the cluster in quotaform.yaml]",
    ),
]


def read_sources(texts: Sequence[str]) -> tuple[MetricsSource, ...]:
    """Read the values of `--source`. Raises `UsageError` if one is none, or two are of one broker."""
    from quotaform.model.settings import parse_source, require_distinct

    try:
        sources = tuple(parse_source(text) for text in texts)
        require_distinct(sources)
    except ValueError as error:
        raise UsageError(f"--source: {error}") from None
    return sources
