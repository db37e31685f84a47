"""Markdown in which no foreign text can do anything: words, code, tables, and addresses by what they begin with.

Names, values and messages from files and clusters stand in code spans, where GitHub and GitLab look for no mentions,
references, links or HTML. Of a message only those words are in code spans that could be anything but words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby, islice
from re import compile as regex
from typing import Final

from msgspec.structs import replace

from quotaform.model.text import printable
from quotaform.report.report import Bar, Cell, Column, ColumnKind, Table, cell_text

LONGEST_NAME: Final = 200
"""How many characters of a name are shown; Kafka allows 32,767 bytes."""

LONGEST_TEXT: Final = 600
"""How many characters of a text in words are shown."""

_HARMLESS: Final = regex(r"""(?:[^\W_]|(?<=[^\W_])_(?=[^\W_])|[.,;:()=/+'"?-]|%(?!\w)|[!@](?!.))+""").fullmatch
_REFERENCE: Final = regex(r"(?i)://|www\.|gh-\d").search
_ENDS: Final = regex(r"(\(*)(.*?)([.,;:)]*)").fullmatch
_URL: Final = regex(r"https?://[A-Za-z0-9._~:/?#@!$&*+,;=%-]+").fullmatch


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return as much of a text as there is room for."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def code(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a text as a code span; see `code_cell` for tables.

    >>> code("user=a"), code("a`b"), code("`")
    ('`user=a`', '``a`b``', '`` ` ``')
    """
    shown = shortened(printable(text), longest)
    if "`" not in shown:
        pad = " " if not shown or shown[0] == " " == shown[-1] else ""
        return f"`{pad}{shown}{pad}`"
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def code_cell(text: str, longest: int = LONGEST_NAME) -> str:
    r"""Return a text as a code span in a table, where `|` ends a cell even in code.

    Parsers do not agree about what a backslash before an escaped `|` means, so there `|` is spelled as in JSON.

    >>> print(code_cell("a|b"), code_cell("a\\|b"))
    `a\|b` `a\\u007cb`
    """
    span = code(text, longest)
    if "|" not in span:
        return span
    return span.replace("|", "\\u007c" if "\\|" in span else "\\|")


@lru_cache(maxsize=4096)
def words(text: str, span: Callable[[str], str] = code) -> str:
    r"""Return a message, of which what Markdown could take for anything but words is in code spans.

    >>> print(words("producer_byte_rate of user=<default> is 5; ask @team-a."))
    producer_byte_rate of `user=<default>` is 5; ask `@team-a`.
    """
    return " ".join(_word(word, span) for word in printable(text).split(" "))


def _word(word: str, span: Callable[[str], str]) -> str:
    if not word or (_HARMLESS(word) and not _REFERENCE(word)):
        return word
    found = _ENDS(word)
    begin, middle, end = found.groups() if found else ("", word, "")
    return f"{begin}{span(middle)}{end}" if middle else span(word)


def fenced(text: str, language: str = "") -> str:
    """Return a block of code with a fence that no line of it can end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterable[str]:
    """Yield the lines of a table. `rows` are cells, as `code_cell` makes them, or `words` with it."""
    titles = list(header)
    yield f"| {' | '.join(titles)} |\n"
    yield f"|{' --- |' * len(titles)}\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"


def details(summary: str, content: str) -> str:
    """Return what is folded until somebody opens it; the summary is Markdown of one line without foreign text."""
    return f"<details><summary>{summary}</summary>\n\n{content.rstrip()}\n\n</details>\n\n"


def link(text: str, url: str | None) -> str | None:
    """Return a link, or `None` when there is no usable URL.

    >>> link("run", "https://github.com/o/r/actions/runs/1")
    '[run](https://github.com/o/r/actions/runs/1)'
    >>> [link("run", url) for url in (None, "javascript:x", "https://a b", "https://a)b", "https://a\\nb")]
    [None, None, None, None, None]
    """
    return f"[{text}]({url})" if url is not None and _URL(url) else None


def _longest_run(text: str) -> int:
    """Return how many backticks follow one another at most."""
    return max((len(list(run)) for found, run in groupby(text) if found == "`"), default=0)


MOST_PREFIXES: Final = 40
"""How many beginnings of addresses are listed."""
_LONGEST_PATTERN: Final = 80
_WORD_ENDS: Final = regex(r"""(?<=[\w"])[-._:/@,](?=\w)""").finditer


def pattern_of(addresses: Sequence[str]) -> str:
    """Return what all addresses begin with.

    >>> pattern_of(["user=svc-1", "user=svc-20"])
    'user=svc-*'
    """
    first, last = min(addresses), max(addresses)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return f"{first[:same]}*"


def by_prefix(addresses: Sequence[str], most: int = MOST_PREFIXES) -> list[tuple[str, list[str]]]:
    """Group addresses by as many of their first words as gives few groups, the largest first, all others last.

    >>> by_prefix(["user=svc-1", "user=svc-2", "user=etl"], 2)
    [('`user=svc-*`', ['user=svc-1', 'user=svc-2']), ('`user=etl`', ['user=etl'])]
    """
    groups = _grouped(addresses, 1)
    for number in (2, 3):
        finer = _grouped(addresses, number)
        if len(finer) > most:
            break
        groups = finer
    return largest(
        groups,
        lambda _, some: code_cell(some[0] if len(some) == 1 else pattern_of(some), _LONGEST_PATTERN),
        "beginnings",
        most,
    )


def _grouped(addresses: Sequence[str], number: int) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for address in addresses:
        ends = [found.end() for found in islice(_WORD_ENDS(address), number)]
        groups.setdefault(address[: ends[-1]] if len(ends) == number else address, []).append(address)
    return groups


def largest(
    groups: Mapping[str, list[str]], spell: Callable[[str, list[str]], str], noun: str, most: int = MOST_PREFIXES
) -> list[tuple[str, list[str]]]:
    """Return the largest groups, and all others as one more."""
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    shown = [(spell(name, some), some) for name, some in ordered[:most]]
    rest = [address for _, some in ordered[most:] for address in some]
    return [*shown, (f"others ({len(ordered) - most:,} {noun})", rest)] if rest else shown


def shown_columns(found: Table, most: int) -> tuple[list[Column], list[list[Cell]]]:
    """Return the columns that are not on pages alone, and the first rows; bars stay there, too."""
    columns = [Column(each) if isinstance(each, str) else each for each in found.columns]
    shown = [
        place
        for place, column in enumerate(columns)
        if column.kind is not ColumnKind.PAGE and Bar not in {type(row[place]) for row in found.rows}
    ]
    return [columns[place] for place in shown], [[row[place] for place in shown] for row in found.rows[:most]]


_MOST_ROWS: Final = (1000, 300, 100, 30, 0)
_MOST_GROUPS: Final = 60


def table_forms(found: Table) -> list[Callable[[], Iterable[str]]]:
    """Return a table without its caption in several forms, from the longest to the shortest."""
    if found.counted:
        shorter = _names if found.is_kept else _grouped_rows
        return [partial(_rows, found, len(found.rows)), partial(shorter, found), partial(_counted_rows, found)]
    first, *others = _MOST_ROWS
    return [partial(_rows, found, most) for most in (first, *(each for each in others if each < len(found.rows)))]


def _rows(found: Table, most: int) -> Iterator[str]:
    columns, rows = shown_columns(found, most)
    yield from _table(columns, rows)
    if left := max(found.total, len(found.rows)) - len(rows):
        yield f"\n{words(f'And {left:,} more. {found.hint}'.rstrip())}\n"


def _table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    if rows:
        cells = [code_cell if column.kind is ColumnKind.NAME else _text_cell for column in columns]
        yield from table(
            (column.name.capitalize() for column in columns),
            ([make(cell_text(cell)) for make, cell in zip(cells, row, strict=True)] for row in rows),
        )


def _text_cell(text: str) -> str:
    return words(shortened(text), code_cell)


def _names(found: Table) -> Iterator[str]:
    names = dict.fromkeys(cell_text(row[0]) for row in found.rows)
    yield fenced("\n".join(shortened(printable(name), LONGEST_NAME) for name in names))


def _grouped_rows(found: Table) -> Iterator[str]:
    """Yield a table in which the rows of names with equal cells are one; the largest groups come first."""
    columns, rows = shown_columns(found, len(found.rows))
    own = {place for place, column in enumerate(columns) if place == 0 or column.kind is ColumnKind.DETAIL}
    groups: dict[tuple[Cell, ...], list[list[Cell]]] = {}
    for row in rows:
        groups.setdefault(tuple(cell for place, cell in enumerate(row) if place not in own), []).append(row)
    ordered = sorted(groups.values(), key=len, reverse=True)

    def common(cells: Sequence[Cell]) -> Cell:
        """Return how the cells of a group begin, and how many they are if they differ."""
        texts = sorted({cell_text(cell) for cell in cells})
        return cells[0] if len(texts) == 1 else f"{pattern_of(texts)} ({len(texts):,})"

    yield from _table(
        columns, [[common(cells) for cells in zip(*group, strict=True)] for group in ordered[:_MOST_GROUPS]]
    )
    left = {row[0] for group in ordered[_MOST_GROUPS:] for row in group}
    if left:
        yield f"\nAnd {len(left):,} more:\n\n"
        yield from _counted_rows(replace(found, rows=tuple(row for row in found.rows if row[0] in left)))


def _counted_rows(found: Table) -> Iterator[str]:
    """Yield how many names a table has by owner, or by their beginnings where most have none."""
    columns = [each if isinstance(each, str) else each.name for each in found.columns]
    owner, counted = columns.index("owner"), columns.index(found.counted)
    rows: dict[str, list[tuple[Cell, ...]]] = {}
    for row in found.rows:
        rows.setdefault(cell_text(row[0]), []).append(row)
    by_owner: dict[str, list[str]] = {}
    for name, some in rows.items():
        by_owner.setdefault(cell_text(some[0][owner]), []).append(name)
    if len(by_owner) > 1 and len(by_owner.get("-", ())) * 2 < len(rows):
        title, groups = "Owner", largest(by_owner, lambda owner, _: _text_cell(owner), "owners")
    else:
        title, groups = columns[0].capitalize(), by_prefix(list(rows))
    counts = [Counter(cell_text(row[counted]) for name in some for row in rows[name]) for _, some in groups]
    cells = (
        (shown, f"{len(some):,}", ", ".join(f"{number:,} {word}" for word, number in count.most_common()))
        for (shown, some), count in zip(groups, counts, strict=True)
    )
    yield from table((title, "Number", found.counted.capitalize()), cells)
