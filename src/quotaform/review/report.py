"""What an import wrote, what a new quota repository holds, and what comes next, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from quotaform.model.finding import Finding
from quotaform.model.text import inert
from quotaform.report.finding import render_findings
from quotaform.report.text import PLAIN, Style, counted


class Import(Struct, frozen=True, kw_only=True):
    """The files that would bring a cluster under management."""

    files: Mapping[str, str]  # path to content, none of which exists yet
    counts: Mapping[str, int]  # path to the number of entities that the file declares
    declared: int  # how many live entities were declared already
    out_of_scope: int  # how many are out of scope
    left_out: int  # how many the files cannot express
    differing: int  # how many entities are declared otherwise than they are on the cluster
    # How many of those are in the common files, which declare them for other clusters, too
    differing_from_common: int = 0
    findings: tuple[Finding, ...]  # what files cannot express, and other findings about the live quotas


class Initialization(Struct, frozen=True, kw_only=True):
    """The files of a new quota repository, or of a further cluster of one."""

    files: Mapping[str, str]  # path to content, none of which exists yet
    imported: Import | None  # what was imported; `None` when nothing was to be
    notes: tuple[str, ...]  # what could not be done, and warnings
    steps: tuple[str, ...]  # what comes next, in lines
    is_further: bool  # whether the steps add a further cluster, so that they are of use without the files, too


def render_import(done: Import, style: Style = PLAIN) -> str:
    """Return which files were written and what was left alone."""
    lines = [f"Wrote {inert(path)} ({counted(count, 'entity')})" for path, count in done.counts.items()]
    left = {
        "already declared": done.declared,
        "out of scope": done.out_of_scope,
        "that files cannot represent": done.left_out,
    }
    if any(left.values()):
        lines.append(f"Not imported: {', '.join(f'{number} {words}' for words, number in left.items() if number)}.")
    total = counted(sum(done.counts.values()), "entity")
    lines += [*_live_lines(done, style), style.paint(f"Imported {total}.", "green")]
    return "\n".join(lines) + "\n"


def _live_lines(done: Import, style: Style) -> Iterator[str]:
    """Yield what is said of the cluster: how many entities the files declare otherwise, and findings."""
    if not (done.declared or done.out_of_scope or done.left_out or any(done.counts.values())):
        yield "The cluster has no quotas."
    if done.differing:
        are, have = ("is", "has") if done.differing == 1 else ("are", "have")
        entities = counted(done.differing, "entity")
        text = f"{entities} in the files {are} missing on the cluster or {have} other values there"
        yield style.paint(f"Warning: {text}; quotaform plan shows them.", "yellow")
    if done.differing_from_common:
        which = counted(done.differing_from_common, "of them is", "of them are")
        if done.differing_from_common == done.differing:
            which = "It is" if done.differing == 1 else "They are"
        yield f"  {which} in the common files, which apply to every cluster; move what is meant for one cluster to"
        yield "  its own directory, such as quotas.d/CLUSTER."
    yield from render_findings(done.findings, style)


def init_lines(made: Initialization, style: Style = PLAIN, *, is_dry_run: bool = False) -> Iterator[str]:
    """Yield the files of a new repository, what could not be done, and the next steps."""
    imported = made.imported
    counts = {} if imported is None else imported.counts
    for path in made.files:
        entities = f" ({counted(counts[path], 'entity')})" if path in counts else ""
        yield f"{'Would write' if is_dry_run else 'Wrote'} {inert(path)}{entities}"
    if not made.files:
        reason = ": the quotas of the cluster were not to be imported" if imported is None else ""
        yield f"No file {'would be' if is_dry_run else 'was'} written{reason}."
    if imported is not None:
        if imported.left_out:
            yield f"Not imported: {imported.left_out} that files cannot represent."
        yield from _live_lines(imported, style)
    for note in made.notes:
        yield style.paint(note, "yellow") if note.startswith("Warning:") else note
    if made.is_further or not is_dry_run:
        yield from ("", style.paint("Next:", "bold"), *made.steps)
