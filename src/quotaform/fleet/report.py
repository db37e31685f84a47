"""A report of a run over many clusters, as text and as markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from quotaform.fleet.fleet_report import COMMANDS, FleetReport, FleetRow, FleetStatus, OldestSnapshot
from quotaform.model.entity import spell_name
from quotaform.model.text import inert, listed
from quotaform.plan.blast_radius import LimitDirection, RadiusCounts
from quotaform.plan.report import TITLE, affected_text, direction_text, shown_source, source_text
from quotaform.report.comment import COMMENT_BYTES, Part, fit, form
from quotaform.report.markdown import code, code_cell, link, table, words
from quotaform.report.text import PLAIN, Style, counted

MOST_NAMES: Final = 10
"""How many clusters are named where several have something in common."""
MOST_GROUPS: Final = 20
"""How many rules, and how many errors, are listed."""
MOST_ROWS: Final = 100
"""How many clusters the table has."""
_FEW_ROWS: Final = 20
"""In a table of no more clusters than this, those with the most differences are easy to see."""
_LONGEST_NAME: Final = 40
_MOST_RADII: Final = 20

STATUS_WORDS: Final[Mapping[FleetStatus, str]] = {
    FleetStatus.FAILED: "failed",
    FleetStatus.NOT_REACHED: "not reached",
    FleetStatus.UNKNOWN: "unknown",
    FleetStatus.INCOMPLETE: "incomplete",
    FleetStatus.BLOCKED: "blocked",
    FleetStatus.CHANGE: "to change",
    FleetStatus.APPLIED: "applied",
    FleetStatus.DRIFT: "with drift",
    FleetStatus.UNCHANGED: "unchanged",
    FleetStatus.IN_SYNC: "in sync",
}
_COLOURS: Final = {
    FleetStatus.FAILED: "red",
    FleetStatus.NOT_REACHED: "red",
    FleetStatus.UNKNOWN: "red",
    FleetStatus.INCOMPLETE: "red",
    FleetStatus.BLOCKED: "red",
    FleetStatus.CHANGE: "yellow",
    FleetStatus.DRIFT: "yellow",
}


def render_fleet_report(report: FleetReport, style: Style = PLAIN) -> Iterator[str]:
    """Yield a report, line by line."""
    return (f"{line}\n" for line in _lines(report, style))


def _lines(report: FleetReport, style: Style) -> Iterator[str]:
    yield style.paint(f"Report of quotaform {report.command}: {counted(len(report.rows), 'cluster')}", "bold")
    for problem in run_problems(report):
        yield style.paint(problem, "red")
    yield ""
    yield f"Clusters         {status_words(report)}"
    yield f"Entities         {count_words(report.totals)}"
    if report.oldest is not None:
        yield f"Oldest snapshot  {oldest_words(report.oldest)}"
    if (radius := report.blast_radius) is not None:
        yield f"Blast radius     {_radius_words(radius, inert(source_text(radius)), len(report.rows))}"
    yield ""
    yield from _blocks(report, style)
    yield from _errors(report, style)
    yield from _radius(report, style)
    if report.largest and len(report.rows) > _FEW_ROWS:
        yield style.paint("Clusters with the most differences", "bold")
        yield from _table(report, report.by_size(), style)
        yield ""
    if report.rows:
        yield style.paint("All clusters", "bold")
        rows = report.by_severity()
        yield from _table(report, rows[:MOST_ROWS], style)
        if len(rows) > MOST_ROWS:
            yield f"... and {len(rows) - MOST_ROWS:,} more; --report json=report.json writes all of them"


def run_problems(report: FleetReport) -> Iterator[str]:
    """Yield in sentences why a report is not that of a whole run."""
    if report.is_interrupted:
        yield "The run was interrupted; this is what was known then."
    if report.error is not None:
        yield f"The run failed: {inert(report.error.head)}"


def status_words(report: FleetReport) -> str:
    """Return how many clusters have each status, without those that none has."""
    parts = [f"{count:,} {STATUS_WORDS[status]}" for status, count in report.statuses.items() if count]
    return ", ".join(parts) or "none"


def count_words(counts: Mapping[str, int]) -> str:
    """Return counts of entities in words.

    >>> count_words({"create": 1200, "in_sync": 3})
    '1,200 create, 3 in sync'
    """
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())


def oldest_words(oldest: OldestSnapshot) -> str:
    """Return when the oldest snapshot was captured, and of which cluster it is."""
    return f"{inert(oldest.captured_at)} ({spell_name(oldest.cluster)})"


def cluster_names(clusters: Iterable[str], most: int = MOST_NAMES) -> str:
    """Return the names of some clusters, and how many more there are."""
    return listed(map(spell_name, clusters), most)


def _blocks(report: FleetReport, style: Style) -> Iterator[str]:
    if not report.blocked:
        return
    yield style.paint("Blocked by", "bold")
    for each in report.blocked[:MOST_GROUPS]:
        names = cluster_names(each.clusters)
        yield f"  {style.paint(each.rule, 'red')}  {counted(len(each.clusters), 'cluster')}: {names}"
    yield from _rest(len(report.blocked))
    yield ""


def _errors(report: FleetReport, style: Style) -> Iterator[str]:
    if not report.errors:
        return
    yield style.paint("Errors", "bold")
    for each in report.errors[:MOST_GROUPS]:
        yield f"  {counted(len(each.clusters), 'cluster')}: {cluster_names(each.clusters)}"
        yield f"    {style.paint(inert(each.head), 'red')}"
    yield from _rest(len(report.errors))
    yield ""


def _radius(report: FleetReport, style: Style) -> Iterator[str]:
    found = report.by_tightening()
    if not found:
        return
    yield style.paint("Principals whose limits change", "bold")
    header = [title.upper() for title in _radius_header(report)]
    cells = [(_short(spell_name(cluster)), *_radius_cells(report, each)) for cluster, each in found[:_MOST_RADII]]
    widths = _widths(header, cells)
    yield style.paint(_line(header, widths, words=1), "dim")
    yield from (_line(texts, widths, words=1) for texts in cells)
    yield from _rest(len(found), _MOST_RADII)
    yield ""


def _rest(number: int, most: int = MOST_GROUPS) -> Iterator[str]:
    if number > most:
        yield f"  ... and {number - most:,} more"


def _table(report: FleetReport, rows: Sequence[FleetRow], style: Style) -> Iterator[str]:
    counts = COMMANDS[report.command].counts
    header = ("CLUSTER", "STATUS", *(name.replace("_", " ").upper() for name in counts))
    cells = [
        (
            _short(spell_name(row.cluster)),
            STATUS_WORDS[row.status],
            *(_count(row, name, "-") for name in counts),
        )
        for row in rows
    ]
    widths = _widths(header, cells)
    yield style.paint(_line(header, widths), "dim")
    for row, texts in zip(rows, cells, strict=True):
        colour = _COLOURS.get(row.status)
        line = _line(texts, widths)
        yield style.paint(line, colour) if colour else line


def _count(row: FleetRow, name: str, missing: str) -> str:
    number = (row.entities or {}).get(name)
    return missing if number is None else f"{number:,}"


def _widths(header: Sequence[str], cells: Iterable[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(header, *cells, strict=True)]


def _line(cells: Sequence[str], widths: Sequence[int], words: int = 2) -> str:
    shown = (
        f"{cell:<{width}}"
        if place < words
        else f"{cell:>{width}}"  # Names and words to the left, numbers to the right.
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"  {'  '.join(shown)}".rstrip()


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


_MOST_NAMES: Final = 20
_FEW_NAMES: Final = 3
_MOST_ROWS: Final = 1_000
_FEWER_ROWS: Final = (200, 50, 0)
_LONGEST_ERROR: Final = 500


def render_fleet_report_markdown(report: FleetReport, *, limit: int = COMMENT_BYTES, run_url: str | None = None) -> str:
    """Return a report as Markdown that no name in it can break out of.

    `limit` is how many bytes the document may have; what has no room is counted.
    """
    rows = report.by_severity()
    head, foot = Part([form(_head, report)]), Part([form(_foot, run_url)])
    blocks = Part([form(_markdown_blocks, report, most) for most in (_MOST_NAMES, _FEW_NAMES)])
    errors = Part([form(_markdown_errors, report, most) for most in (_MOST_NAMES, _FEW_NAMES)])
    radii = Part([form(_radii, report, most) for most in (_MOST_RADII, 0)])
    clusters = Part([form(_clusters, report, rows, most) for most in (_MOST_ROWS, *_FEWER_ROWS)])
    order = (*(clusters,) * len(_FEWER_ROWS), radii, blocks, errors)
    return fit((head, blocks, errors, radii, clusters, foot), order, limit)


def _head(report: FleetReport) -> Iterator[str]:
    number = counted(len(report.rows), "cluster")
    yield f"### Kafka quota {report.command} for {number}: {status_words(report)}\n\n"
    for problem in run_problems(report):
        yield f"**{words(problem)}**\n\n"
    yield f"Entities: {count_words(report.totals)}.\n\n"
    if report.oldest is not None:
        yield f"Oldest snapshot: {code(report.oldest.captured_at)} ({_name(report.oldest.cluster)}).\n\n"
    if (radius := report.blast_radius) is not None:
        yield f"**{TITLE}:** {_radius_words(radius, shown_source(radius), len(report.rows))}\n\n"


def _markdown_blocks(report: FleetReport, most: int) -> Iterator[str]:
    if report.blocked:
        yield "**Blocked by**\n\n"
        for each in report.blocked[:MOST_GROUPS]:
            yield f"- {code(each.rule)}: {_clusters_words(each.clusters, most)}\n"
        yield f"{_markdown_rest(len(report.blocked))}\n"


def _markdown_errors(report: FleetReport, most: int) -> Iterator[str]:
    if report.errors:
        yield "**Errors**\n\n"
        for each in report.errors[:MOST_GROUPS]:
            head = each.head
            shown = head if len(head) <= _LONGEST_ERROR else f"{head[:_LONGEST_ERROR]}…"
            yield f"- {_clusters_words(each.clusters, most)}: {words(shown)}\n"
        yield f"{_markdown_rest(len(report.errors))}\n"


def _markdown_rest(number: int) -> str:
    return f"- and {number - MOST_GROUPS:,} more\n" if number > MOST_GROUPS else ""


def _clusters_words(clusters: Sequence[str], most: int) -> str:
    names = ", ".join(map(_name, clusters[:most]))
    more = f" and {len(clusters) - most:,} more" if len(clusters) > most else ""
    return f"{counted(len(clusters), 'cluster')} ({names}{more})"


def _name(cluster: str) -> str:
    return code(spell_name(cluster), 100)


def _radii(report: FleetReport, most: int) -> Iterator[str]:
    found = report.by_tightening()
    if found[:most]:
        header = (title.capitalize() for title in _radius_header(report))
        yield from table(
            header,
            ((code_cell(spell_name(cluster), 100), *_radius_cells(report, each)) for cluster, each in found[:most]),
        )
        yield "\n"
    if len(found) > most:
        number = counted(len(found) - most, "more cluster" if most else "cluster")
        yield f"Limits of principals change on {number}.\n\n"


def _clusters(report: FleetReport, rows: Sequence[FleetRow], most: int) -> Iterator[str]:
    counts = COMMANDS[report.command].counts
    if rows[:most]:
        header = ("Cluster", "Status", *(name.replace("_", " ").capitalize() for name in counts))
        yield from table(header, (_cells(row, counts) for row in rows[:most]))
        yield "\n"
    if len(rows) > most:
        number = counted(len(rows) - most, "cluster")
        yield f"{number} {'more ' if most else ''}not listed; `--report json=report.json` writes all of them.\n\n"


def _cells(row: FleetRow, counts: Sequence[str]) -> Iterator[str]:
    yield code_cell(spell_name(row.cluster), 100)
    yield STATUS_WORDS[row.status]
    yield from (_count(row, name, "") for name in counts)


def _foot(run_url: str | None) -> Iterator[str]:
    run = link("run", run_url)
    if run is not None:
        yield f"<sub>{run}</sub>\n"


def _radius_words(radius: RadiusCounts, source: str, clusters: int) -> str:
    """Return how many principals of all clusters get another limit, in a sentence."""
    return f"{affected_text(radius, source)}{' Principals count once per cluster.' if clusters > 1 else ''}"


def _radius_header(report: FleetReport) -> tuple[str, ...]:
    """Return the columns: those directions that any principal has."""
    return ("cluster", "principals", "affected", *map(direction_text, _directions(report)))


def _radius_cells(report: FleetReport, radius: RadiusCounts) -> Iterator[str]:
    yield f"{radius.principals:,}"
    yield f"{radius.affected:,}"
    yield from (f"{radius.counts[each].principals:,}" for each in _directions(report))


def _directions(report: FleetReport) -> list[LimitDirection]:
    total = report.blast_radius
    return [each for each in LimitDirection if total is not None and total.counts[each].principals]
