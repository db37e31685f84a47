"""A report as Markdown, and as a comment on a pull request: its hidden first line, by which it is found again, and
parts that give way until it fits.

`<!-- quotaform:plan {"v":1,"cluster":"prod-eu","root":"quotas.d","changes":2} -->`. Comments with the same kind,
cluster and root show the same thing at different times. `changes` is 0 when there is nothing to review.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, takewhile
from json import dumps, loads
from re import DOTALL
from re import compile as regex
from typing import Any, Final, TypeAlias

from quotaform.model.entity import spell_name
from quotaform.model.errors import QuotaformError
from quotaform.model.rule import NO_LONGER_DECLARED
from quotaform.report.finding import block_lines, note_lines, removed_lines
from quotaform.report.format import REPORTED
from quotaform.report.markdown import code, details, fenced, link, shortened, table_forms, words
from quotaform.report.report import Report, Section

Place: TypeAlias = Callable[[str], str | None]
"""Returns the path of a file from the top of its repository; `None` for one that is outside."""


def unchanged_place(file: str) -> str | None:
    """Return the path of a file as it is, where nothing is known of a repository."""
    return None if file.startswith("/") else file


_VERSION: Final = 1
_LINE: Final = regex(r"<!-- quotaform:([a-z][a-z-]{0,30}) (\{.{0,4096}\}) -->").fullmatch


@dataclass(frozen=True, slots=True)
class Marker:
    """What a comment shows."""

    kind: str  # `plan`, `drift` and so on
    cluster: str
    root: str  # The quotas directory
    # How many entities there are to review; `None` where there is something else to read
    changes: int | None = field(default=None, compare=False, repr=False)

    def line(self) -> str:
        r"""Return the first line of the comment, which no name can end.

        >>> print(Marker("plan", "a-->b", "quotas.d", 2).line())
        <!-- quotaform:plan {"v":1,"cluster":"a-\u002d\u003eb","root":"quotas.d","changes":2} -->
        """
        values: dict[str, str | int] = {"v": _VERSION, "cluster": self.cluster, "root": self.root}
        if self.changes is not None:
            values["changes"] = self.changes
        content = dumps(values, separators=(",", ":"))
        content = content.replace("<", "\\u003c").replace(">", "\\u003e").replace("--", "-\\u002d")
        return f"<!-- quotaform:{self.kind} {content} -->"


def read_marker(body: str) -> Marker | None:
    """Return what a comment shows; `None` when its first line is no marker that this version knows.

    >>> read_marker('<!-- quotaform:plan {"v":1,"cluster":"lab","root":"quotas.d"} -->')
    Marker(kind='plan', cluster='lab', root='quotas.d')
    """
    lines = body[:5000].splitlines()
    found = _LINE(lines[0].strip()) if lines else None
    try:
        values = {} if found is None else loads(found[2])
    except (ValueError, RecursionError):
        return None
    cluster, root, changes = (values.get(name) for name in ("cluster", "root", "changes"))
    if found is None or values.get("v") != _VERSION or not isinstance(cluster, str) or not isinstance(root, str):
        return None
    return Marker(found[1], cluster, root, changes if type(changes) is int else None)


_ANY: Final = 1 << 40
COMMENT_BYTES: Final = 60_000
"""How large a comment may be, in UTF-8; GitHub takes 65,536 characters."""

Form: TypeAlias = Callable[[], Iterable[str]]
"""Returns a part of a document in one form, in pieces."""


def fit(parts: Sequence[Sequence[Form]], order: Sequence[int], limit: int) -> str:
    """Return a document of at most `limit` bytes in UTF-8, when its shortest form allows it.

    A part that need not have been shortened, because a later one made room, becomes as long again as there is room for.

    `parts`: the forms of each, from the longest to the shortest. `order`: the place of the part that takes its next
    form, step by step, while the document is too large.
    """

    @cache
    def made(place: int, form: int) -> str | None:
        return joined(parts[place][form](), limit)

    def document(chosen: Sequence[int]) -> str | None:
        texts = (made(place, form) for place, form in enumerate(chosen))
        found = list(takewhile(lambda text: text is not None, texts))
        return joined(filter(None, found), limit) if len(found) == len(chosen) else None

    chosen, steps = [0] * len(parts), iter(order)
    while (text := document(chosen)) is None:
        place = next(steps, None)
        if place is None:
            return "".join(piece for forms in parts for piece in forms[-1]())
        chosen[place] += 1
    for place in reversed(order):
        for form in range(chosen[place]):
            longer = [*chosen[:place], form, *chosen[place + 1 :]]
            if (longer_text := document(longer)) is not None:
                chosen, text = longer, longer_text
                break
    return text


def joined(pieces: Iterable[str], most: int) -> str | None:
    """Return pieces as one text, `None` as soon as it is known to take more bytes than `most`."""
    made = []
    for piece in pieces:
        most -= len(piece.encode())
        if most < 0:
            return None
        made.append(piece)
    return "".join(made)


_SOME: Final = 10
_MOST_NOTES: Final = 50
_LONGEST_LINE: Final = 1000
_LONGEST_FAILURE: Final = 20_000
_SIGN: Final = regex(r"( *)([-+~])( [^{].*)", DOTALL).fullmatch
_DIFF_SIGNS: Final = {"-": "-", "+": "+", "~": "!"}


def render_markdown(
    report: Report, *, limit: int = COMMENT_BYTES, run_url: str | None = None, place: Place = unchanged_place
) -> str:
    """Return a report as Markdown that no name in it can break out of, of at most `limit` bytes.

    When it is too large, its parts take shorter forms in rounds, from the last to the first, and what is left out is
    counted; at last that goes for the tables to be kept and for what blocks.
    """

    def forms(make: Callable[[Any], Iterable[str]], variants: Iterable[Any]) -> list[Form]:
        return [partial(make, variant) for variant in variants]

    blocking = [finding for finding in report.findings if finding.blocking]
    removed = [finding for finding in report.findings if finding.rule == NO_LONGER_DECLARED.id]
    others = [each for each in report.findings if not each.blocking and each.rule != NO_LONGER_DECLARED.id]
    # Each part, and whether it is shortened after all that are not kept.
    parts: list[tuple[list[Form], bool]] = [
        ([lambda: _head(report, place)], True),
        (forms(partial(block_lines, blocking, report.caution), (_ANY, _SOME, 1, 0)), True),
        (forms(partial(_paragraphs, report.about), (_ANY, _SOME)), False),
        (forms(partial(removed_lines, removed), (_SOME, 0)), False),
        *((forms(partial(_section, each), table_forms(each.table)), each.table.is_kept) for each in report.sections),
        (forms(partial(_items, report.sentences), (_ANY, _SOME)), False),
        (forms(partial(note_lines, others), (_MOST_NOTES, 0)), False),
        (_text_forms(report, limit, run_url), False),
        ([lambda: _foot(run_url)], True),
    ]
    rounds = [
        [at for at, (some, is_kept) in enumerate(parts) if is_kept is kept and number < len(some)]
        for kept in (False, True)
        for number in range(1, max(len(some) for some, _ in parts))
    ]
    order = [at for each in rounds for at in reversed(each)]
    return f"{fit([some for some, _ in parts], order, limit).rstrip()}\n"


def _head(report: Report, place: Place) -> Iterator[str]:
    """Yield the first line, by which a comment is found again, the heading, and the summary."""
    marker = report.marker
    if marker is not None:
        yield f"{replace(marker, root=place(marker.root) or marker.root).line()}\n"
    name = f" {code(spell_name(report.name))}" if report.name else ""
    state = f": {_line(report.state)}" if report.state else ""
    yield f"### {_line(report.title)}{name}{state}\n\n"
    if report.total:
        yield f"**{_line(report.total)}**\n\n"


def _foot(run_url: str | None) -> Iterator[str]:
    if (run := link("run", run_url)) is not None:
        yield f"<sub>{run}</sub>\n"


def _line(text: str) -> str:
    return words(shortened(text, _LONGEST_LINE))


def _paragraphs(lines: Sequence[str], most: int) -> Iterator[str]:
    yield from (f"{_line(line)}\n\n" for line in lines[:most])
    if len(lines) > most:
        yield f"And {len(lines) - most:,} more.\n\n"


def _items(lines: Sequence[str], most: int) -> Iterator[str]:
    yield from (f"- {_line(line)}\n" for line in lines[:most])
    if len(lines) > most:
        yield f"- and {len(lines) - most:,} more\n"
    if lines:
        yield "\n"


def _section(section: Section, make: Callable[[], Iterable[str]]) -> Iterator[str]:
    table = section.table
    yield from _paragraphs(section.sentences, _ANY)
    content = chain(make(), [f"\n{_line(f'{table.more[0].upper()}{table.more[1:]}')}\n"] if table.more else [])
    first = next(content, None)
    if first is not None and table.is_folded:
        yield details(_line(table.caption), "".join([first, *content]))
    elif first is not None:  # Line by line: a large one is not made whole where it has no room.
        yield from chain([f"#### {_line(table.caption)}\n\n", first], content, ["\n"])
    yield from _items(section.notes, _ANY)


def _text_forms(report: Report, limit: int, run_url: str | None) -> list[Form]:
    """Return all of a report as terminals show it, with the signs in front that colour differences, or where it is."""
    if report.text is None:
        return [lambda: ()]
    lines = (line for piece in report.text() for line in piece.splitlines(keepends=True))
    diff = (f"{_DIFF_SIGNS[found[2]]}{found[1]}{found[3]}" if (found := _SIGN(line)) else line for line in lines)
    # A fence is longer than any run within, so all of the text has to be there first.
    text = joined(diff, limit)
    where = link("output of the run", run_url) or "output of the command"
    left_out = f"The full text is too large for this comment: see the {where}, or `quotaform show`.\n\n"
    full = [] if text is None else [details("Full text", fenced(text, "diff"))]
    return [partial(iter, (form,)) for form in (*full, left_out)]


def render_failure_markdown(
    cluster: str,
    *,
    error: QuotaformError,
    subject: str = "plan",
    root: str = "quotas.d",
    run_url: str | None = None,
    place: Place = unchanged_place,
) -> str:
    """Return why there is no result for a cluster. `subject` is what could not be made."""
    report = Report(
        title=f"Kafka quota {REPORTED.get(subject, subject)} for",
        name=cluster,
        state="failed",
        marker=Marker("drift" if subject == "drift" else "plan", cluster, root),
    )
    shown = fenced(shortened(str(error), _LONGEST_FAILURE))
    return "".join((*_head(report, place), f"{shown}\n", *_foot(run_url)))
