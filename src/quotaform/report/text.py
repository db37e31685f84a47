"""Text for terminals: colours, counted nouns, which cluster was read and when, cells of CSV, and unified diffs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from difflib import unified_diff
from io import StringIO
from re import compile as regex
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from quotaform.model.entity import DEFAULT_WORD, spell_name
from quotaform.model.errors import NotReadError, QuotaformError
from quotaform.model.moment import duration_text
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import SnapshotFile
from quotaform.model.text import inert, listed, printable, quote
from quotaform.model.units import is_decimal, is_unlimited, plain, render_measured, render_value
from quotaform.report.report import Section, cell_text

if TYPE_CHECKING:
    from quotaform.model.quotas import Action


_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_BY_ACTION = {"create": "green", "update": "yellow", "delete": "red"}


class Style(Struct, frozen=True):
    """Colours text when `is_coloured`, else returns it as it is."""

    is_coloured: bool = False

    def paint(self, text: str, colour: str) -> str:
        """Return the text in a colour: bold, dim, red, green or yellow."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.is_coloured else text

    def action(self, text: str, action: Action) -> str:
        """Return the text in the colour of an action: green creates, yellow updates, red deletes."""
        return self.paint(text, _BY_ACTION[action.value])


PLAIN = Style()


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun.

    >>> counted(1, "entity"), counted(2, "entity"), counted(2000, "key")
    ('1 entity', '2 entities', '2,000 keys')
    """
    if plural is None:
        plural = f"{noun[:-1]}ies" if noun.endswith(("ty", "ry")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def aligned(rows: Collection[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return rows of cells as lines whose columns are as wide as their longest cells; those in `right` end there.

    >>> aligned([("NAME", "N"), ("a", "12")], right={1})
    ['NAME   N', 'a     12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{'>' if at in right else '<'}{widths[at]}}" for at, cell in enumerate(row)).rstrip()
        for row in rows
    ]


def cluster_line(cluster: str, style: Style = PLAIN) -> str:
    """Return the line that begins what is about a cluster."""
    return f"Cluster  {style.paint(spell_name(cluster), 'bold')}"


def cluster_text(name: str, cluster_id: str, server: str | None, style: Style = PLAIN) -> str:
    """Return which cluster was read, and whose files it was compared with when an address stood for a cluster.

    >>> cluster_text("lab", "3JxQ", None), cluster_text("lab", "3JxQ", "b:9092")
    ('lab (id 3JxQ)', 'b:9092 (id 3JxQ, files of lab)')
    """
    shown = style.paint(spell_name(name) if server is None else inert(server), "bold")
    files = "" if server is None else f", files of {spell_name(name)}"
    return f"{shown} (id {spell_name(cluster_id)}{files})"


def reading_text(read_at: str, snapshot: SnapshotFile | None) -> str:
    """Return how old the values are. `read_at` is when the cluster or the snapshot was read.

    >>> reading_text("2026-11-21T19:36:59Z", None)
    'Live state read 2026-11-21T19:36:59Z'
    >>> reading_text("2026-11-21T19:36:59Z", SnapshotFile("snapshots/a.json", "2026-11-20T09:12:44Z"))
    'Snapshot snapshots/a.json, captured 2026-11-20T09:12:44Z'
    """
    if snapshot is None:
        return f"Live state read {inert(read_at)}"
    path = f"{inert(snapshot.path)}, " if snapshot.path else ""
    return f"Snapshot {path}captured {inert(snapshot.captured_at) or 'at an unknown time'}"


def section_lines(section: Section, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of a section in which each row is one sentence, and an empty one.

    What stands before the colon of its first sentence is the heading.
    """
    (heading, colon, first), table = section.sentences[0].partition(":"), section.table
    yield f"{style.paint(f'{heading}{colon}', 'bold')}{first}"
    rows = (table.line.format(*map(cell_text, row)) for row in table.rows)
    for line in (*section.sentences[1:], *rows, *filter(None, (table.more,)), *section.notes):
        yield f"    {line}"
    yield ""


# Cells of tables of comma-separated values, which people open in spreadsheets and programs read line by line.
#
# A text is written as it is, unless one of these holds; then it is a JSON string, in double quotes:
#
# | text | why |
# | --- | --- |
# | holds a line break or something else that is not printable | every record is one line |
# | begins with `"`, or is `<default>` | it would read as a JSON string, or as the default entity |
# | begins with `=`, `+`, `-` or `@`, or has one after `;` | a spreadsheet would execute it |
# | is like `::error::…`, or holds `##[` | a CI runner would take it for a command |
#
# So a cell that begins with `"` is a JSON string, and any other is the text itself.

_IS_FORMULA: Final = regex(r"(?:^|[;|])\s*[-=+@\uff1d\uff0b\uff0d\uff20]").search
"""A formula for a spreadsheet, where `;` may separate cells, and which takes wide forms for the same."""


def csv_cell(text: str) -> str:
    r"""Return a cell for a text.

    >>> [csv_cell(text) for text in ("CN=a,O=b", "=1+1", "a\nb", '"a"', "<default>", "::error::a")]
    ['CN=a,O=b', '"=1+1"', '"a\\nb"', '"\\"a\\""', '"<default>"', '"::error::a"']
    """
    is_plain = not text.startswith('"') and text != DEFAULT_WORD and not _IS_FORMULA(text)
    return inert(text) if is_plain else quote(text, len(text))


def csv_lines(columns: Iterable[str], rows: Iterable[Iterable[str | float | None]]) -> Iterator[str]:
    """Yield a table of comma-separated values, a row at a time: an empty text is `""`, and `None` an empty field."""
    buffer = StringIO(newline="")
    from csv import writer  # Most outputs have no table of CSV.

    table = writer(buffer, lineterminator="\n")
    table.writerow(columns)
    for row in rows:
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        table.writerow(
            ["" if cell is None else csv_cell(cell) or '""' if isinstance(cell, str) else plain(cell) for cell in row]
        )
    yield buffer.getvalue()


_COLOURS: Final = {"+": "green", "-": "red", "@": "dim"}
_HEADINGS: Final = 2
_NO_LINE_END: Final = "\\ No newline at end of file"

_lines: Final = regex(r"[^\n]*\n|[^\n]+").findall


def render_diff(path: str, before: str, after: str, style: Style = PLAIN, *, is_new: bool = False) -> Iterator[str]:
    """Yield the lines of the diff between two states of a file; none when they are the same."""
    name = path.lstrip("/")  # `git apply` takes no absolute path.
    source = "/dev/null" if is_new else f"a/{name}"
    diff = unified_diff(_lines(before), _lines(after), source, f"b/{name}")
    for number, line in enumerate(diff):
        text = printable(line.removesuffix("\n"))
        colour = "bold" if number < _HEADINGS else _COLOURS.get(line[0])
        yield f"{style.paint(text, colour) if colour else text}\n"
        if not line.endswith("\n"):
            yield f"{_NO_LINE_END}\n"


def render_failure(cluster: str, error: QuotaformError, style: Style = PLAIN) -> str:
    """Return the section of a cluster for which nothing could be made."""
    return f"{cluster_line(cluster, style)}\n{style.paint('Error:', 'red')} {error}\n"


def clusters_line(outcomes: Sequence[ClusterOutcome[Any]], what: str, others: int = 0, word: str = "blocked") -> str:
    """Return how many clusters there are, and what became of them; those that failed are named."""
    parts = [what, f"{others} {word}"] if others else [what]
    for became, is_unread in (("failed", False), ("not read", True)):
        found = [each for each in outcomes if each.error and isinstance(each.error, NotReadError) is is_unread]
        if found:
            parts.append(f"{len(found):,} {became}: {listed(spell_name(each.cluster) for each in found)}")
    return f"{counted(len(outcomes), 'cluster')}: {', '.join(parts)}."


def short_limit_text(key: str, value: float | None) -> str:
    """Return the limit of a bucket, exact where few digits are.

    >>> short_limit_text("producer_byte_rate", 5e6), short_limit_text("producer_byte_rate", 12345678.0)
    ('5 MB/s', '11.8 MiB/s')
    """
    known = QUOTA_KEYS.get(key)
    if value is None or is_unlimited(known, value):
        return "unlimited"
    exact = render_value(known, value)
    return render_measured(known, value) if "[" in exact or len(exact) > 12 else exact


def rate_text(key: str, value: float, limit: float | None = None) -> str:
    """Return a measured rate, in the units of the limit with which it is compared.

    >>> rate_text("producer_byte_rate", 12345678.0), rate_text("producer_byte_rate", 12345678.0, 10e6)
    ('11.8 MiB/s', '12.3 MB/s')
    """
    known = QUOTA_KEYS.get(key)
    return render_measured(known, value, decimal=is_decimal(known, limit))


def span_text(seconds: float) -> str:
    """Return how long something lasted; a dash for no time at all.

    >>> span_text(0.0), span_text(0.4), span_text(3725.0)
    ('-', '<1s', '1h 2m')
    """
    if seconds <= 0:
        return "-"
    return duration_text(timedelta(seconds=seconds)) if seconds >= 1 else "<1s"
