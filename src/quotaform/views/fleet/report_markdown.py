"""A report of a run over many clusters, as a job summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from quotaform.core.fleet_report import COMMANDS, FleetReport, FleetRow, error_head
from quotaform.model.entity import spell_name
from quotaform.views.fleet.report_text import MOST_GROUPS, STATUS_WORDS, count_words, run_problems, status_words
from quotaform.views.markdown import code, code_cell, link, table, words
from quotaform.views.markdown_fit import COMMENT_BYTES, Part, fit, form
from quotaform.views.plan.blast_radius_markdown import shown_source
from quotaform.views.plan.blast_radius_text import MOST_RADII, TITLE, radius_cells, radius_header, radius_words
from quotaform.views.style import counted

_MOST_NAMES: Final = 20
_FEW_NAMES: Final = 3
_MOST_ROWS: Final = 1_000
_FEWER_ROWS: Final = (200, 50, 0)
_LONGEST_ERROR: Final = 500


def render_fleet_report_markdown(report: FleetReport, *, limit: int = COMMENT_BYTES, run_url: str | None = None) -> str:
    """Return a report as Markdown that no name in it can break out of.

    `limit` is how many bytes the document may have; what has no room is counted.
    """
    rows = report.by_gravity()
    head, foot = Part([form(_head, report)]), Part([form(_foot, run_url)])
    blocks = Part([form(_blocks, report, most) for most in (_MOST_NAMES, _FEW_NAMES)])
    errors = Part([form(_errors, report, most) for most in (_MOST_NAMES, _FEW_NAMES)])
    radii = Part([form(_radii, report, most) for most in (MOST_RADII, 0)])
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
        yield f"Oldest snapshot: {code(report.oldest.read_at or '')} ({_name(report.oldest.cluster)}).\n\n"
    if report.blast_radius is not None:
        source = shown_source(report.blast_radius)
        yield f"**{TITLE}:** {radius_words(report.blast_radius, source, len(report.rows))}\n\n"


def _blocks(report: FleetReport, most: int) -> Iterator[str]:
    if report.blocked:
        yield "**Blocked by**\n\n"
        for each in report.blocked[:MOST_GROUPS]:
            yield f"- {code(each.rule)}: {_clusters_words(each.clusters, most)}\n"
        yield f"{_rest(len(report.blocked))}\n"


def _errors(report: FleetReport, most: int) -> Iterator[str]:
    if report.errors:
        yield "**Errors**\n\n"
        for each in report.errors[:MOST_GROUPS]:
            head = error_head(each.error)
            shown = head if len(head) <= _LONGEST_ERROR else f"{head[:_LONGEST_ERROR]}…"
            yield f"- {_clusters_words(each.clusters, most)}: {words(shown)}\n"
        yield f"{_rest(len(report.errors))}\n"


def _rest(number: int) -> str:
    return f"- and {number - MOST_GROUPS:,} more\n" if number > MOST_GROUPS else ""


def _clusters_words(clusters: Sequence[str], most: int) -> str:
    names = ", ".join(map(_name, clusters[:most]))
    more = f" and {len(clusters) - most:,} more" if len(clusters) > most else ""
    return f"{counted(len(clusters), 'cluster')} ({names}{more})"


def _name(cluster: str) -> str:
    return code(spell_name(cluster), 100)


def _radii(report: FleetReport, most: int) -> Iterator[str]:
    found = report.by_harm()
    if found[:most]:
        header = (title.capitalize() for title in radius_header(report))
        yield from table(
            header,
            ((code_cell(spell_name(cluster), 100), *radius_cells(report, each)) for cluster, each in found[:most]),
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
    yield from (f"{row.counts[name]:,}" if name in row.counts else "" for name in counts)


def _foot(run_url: str | None) -> Iterator[str]:
    run = link("run", run_url)
    if run is not None:
        yield f"<sub>{run}</sub>\n"
