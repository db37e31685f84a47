"""SCRAM credentials and what became of changing them, as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from quotaform.model.alteration import Outcome
from quotaform.model.entity import spell_name
from quotaform.model.scram import RESOURCE_NOT_FOUND, ScramResult, ScramRow, ScramUpsertion, ScramUser
from quotaform.model.text import inert
from quotaform.views.style import PLAIN, Style, counted

_HEADINGS: Final = ("USER", "MECHANISM", "ITERATIONS")
_WORDS: Final = {Outcome.REFUSED: "refused by the broker: ", Outcome.UNKNOWN: "outcome unknown: ", Outcome.NOT_SENT: ""}


def render_scram(users: Sequence[ScramUser], cluster_name: str, style: Style = PLAIN) -> str:
    """Return a table of credentials, one per line, and their number."""
    return "\n".join(_describe_lines(users, cluster_name, style)) + "\n"


def _describe_lines(users: Sequence[ScramUser], cluster_name: str, style: Style) -> Iterator[str]:
    rows = [
        (spell_name(found.user), credential.mechanism, str(credential.iterations))
        for found in users
        for credential in found.credentials
    ]
    if rows:
        widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
        yield style.paint(_line(_HEADINGS, widths), "bold")
        for row in rows:
            yield _line(row, widths)
        yield ""
    for found in users:
        if found.code:
            is_without = found.code == RESOURCE_NOT_FOUND
            words = " has no SCRAM credentials" if is_without else f": {inert(found.message)}"
            yield style.paint(f"{spell_name(found.user)}{words}", "red")
    owners = sum(bool(found.credentials) for found in users)
    if owners:
        yield f"{counted(len(rows), 'SCRAM credential')} of {counted(owners, 'user')} on {inert(cluster_name)}."
    elif not users:
        yield f"{inert(cluster_name)} has no SCRAM credentials."


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def render_scram_result(result: ScramResult, style: Style = PLAIN) -> str:
    """Return what became of each credential, one per line, and their numbers."""
    rows = [(spell_name(row.alteration.user), str(row.alteration.mechanism)) for row in result]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    lines = [f"{_line(cells, widths)}  {_fate(row, style)}" for cells, row in zip(rows, result, strict=True)]
    done = [row for row in result if row.outcome is Outcome.OK]
    is_upsert = any(isinstance(row.alteration, ScramUpsertion) for row in result)
    lines.append(f"{counted(len(done), 'credential')} {'set' if is_upsert else 'deleted'}{_rest(result)}.")
    return "\n".join(lines) + "\n"


def _fate(row: ScramRow, style: Style) -> str:
    if row.outcome is not Outcome.OK:
        return style.paint(f"{_WORDS[row.outcome]}{inert(row.message)}", "red")
    if isinstance(row.alteration, ScramUpsertion):
        return style.paint(f"set ({row.alteration.iterations} iterations)", "green")
    return style.paint("deleted", "green")


def _rest(result: ScramResult) -> str:
    """Return how many did not go well, per outcome."""
    words = {Outcome.REFUSED: "failed", Outcome.UNKNOWN: "unknown", Outcome.NOT_SENT: "not sent"}
    numbers = {outcome: sum(row.outcome is outcome for row in result) for outcome in words}
    return "".join(f", {number} {words[outcome]}" for outcome, number in numbers.items() if number)
