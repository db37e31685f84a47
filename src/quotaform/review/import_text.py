"""What an import wrote, what a new quota repository holds, and what comes next, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote as shell_word

from quotaform.model.finding import Finding
from quotaform.model.text import inert
from quotaform.report.finding import render_findings
from quotaform.report.text import PLAIN, Style, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
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

    @property
    def is_empty(self) -> bool:
        """Whether the cluster has no quotas."""
        return not (self.declared or self.out_of_scope or self.left_out or any(self.counts.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialization:
    """The files of a new quota repository."""

    files: Mapping[str, str]  # path to content, none of which exists yet
    imported: Import | None = None  # what was imported; `None` when nothing was to be
    cluster_id: str | None = None  # the id of the cluster, which quotaform.yaml pins; `None` when it is not known
    unknown_id: str | None = None  # why it is not known
    ignored: tuple[str, ...] = ()  # the lines that an existing `.gitignore` lacks, and that were not written
    # The environment variables that quotaform.yaml refers to, or would with `unread_properties`, and what they stand
    # for here
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = "."
    # The line of the cluster in quotaform.yaml that would read the client properties which the workflows write; `None`
    # when it is there, or there are no workflows
    unread_properties: str | None = None
    cluster: str = ""  # the name of a further cluster, to which `added` belongs
    # The lines of a further cluster in quotaform.yaml, which is there already and not written
    added: tuple[str, ...] = ()
    matrices: tuple[str, ...] = ()  # the workflows that are there, which name each cluster


def render_import(done: Import, style: Style = PLAIN) -> str:
    """Return which files were written and what was left alone."""
    return "\n".join(_lines(done, style)) + "\n"


def _lines(done: Import, style: Style) -> Iterator[str]:
    for path, count in done.counts.items():
        yield f"Wrote {inert(path)} ({counted(count, 'entity', 'entities')})"
    left = [
        f"{number} {words}"
        for number, words in (
            (done.declared, "already declared"),
            (done.out_of_scope, "out of scope"),
            (done.left_out, "that files cannot represent"),
        )
        if number
    ]
    if left:
        yield f"Not imported: {', '.join(left)}."
    yield from differing_lines(done, style)
    if done.findings:
        yield from render_findings(done.findings, style)
    total = sum(done.counts.values())
    yield style.paint(f"Imported {counted(total, 'entity', 'entities')}.", "green")


def differing_lines(done: Import, style: Style) -> Iterator[str]:
    """Yield whether the cluster has no quotas, and how many entities it has otherwise than the files declare them."""
    if done.is_empty:
        yield "The cluster has no quotas."
    if done.differing:
        entities, are = ("1 entity", "is") if done.differing == 1 else (f"{done.differing:,} entities", "are")
        text = (
            f"{entities} in the files {are} missing on the cluster or {'has' if are == 'is' else 'have'} other values"
        )
        yield style.paint(f"Warning: {text} there; quotaform plan shows them.", "yellow")
    if done.differing_from_common:
        which = counted(done.differing_from_common, "of them is", "of them are")
        if done.differing_from_common == done.differing:
            which = "It is" if done.differing == 1 else "They are"
        yield f"  {which} in the common files, which apply to every cluster; move what is meant for one cluster to"
        yield "  its own directory, such as quotas.d/CLUSTER."


def render_init(made: Initialization, style: Style = PLAIN, *, is_dry_run: bool = False) -> str:
    """Return the files of a new repository, what could not be done, and the next steps."""
    return "\n".join(_init_lines(made, style, is_dry_run=is_dry_run)) + "\n"


def _init_lines(made: Initialization, style: Style, *, is_dry_run: bool) -> Iterator[str]:
    counts = made.imported.counts if made.imported is not None else {}
    for path in made.files:
        entities = f" ({counted(counts[path], 'entity', 'entities')})" if path in counts else ""
        yield f"{'Would write' if is_dry_run else 'Wrote'} {inert(path)}{entities}"
    if not made.files:
        reason = ": the quotas of the cluster were not to be imported" if made.imported is None else ""
        yield f"No file {'would be' if is_dry_run else 'was'} written{reason}."
    if made.imported is not None and made.imported.left_out:
        yield f"Not imported: {made.imported.left_out} that files cannot represent."
    if made.imported is not None:
        yield from differing_lines(made.imported, style)
    if made.imported is not None and made.imported.findings:
        yield from render_findings(made.imported.findings, style)
    if made.unknown_id is not None:
        text = f"Warning: the cluster id is not pinned: {made.unknown_id}"
        yield style.paint(inert(text), "yellow")
    if made.ignored:
        yield f".gitignore exists already; add {', '.join(made.ignored)}"
    if is_dry_run and not made.added:
        return
    yield ""
    yield style.paint("Next:", "bold")
    if made.directory != ".":
        yield f"  cd {inert(shell_word(made.directory))}"
    if made.added:
        yield "  add to clusters in quotaform.yaml:"
        yield from map(inert, made.added)
    yield from (f"  add the cluster to each matrix in {inert(path)}" for path in made.matrices)
    if made.unread_properties is not None:
        yield f"  if the cluster requires authentication or TLS, add to it in quotaform.yaml: {made.unread_properties}"
    indent = "  " if made.unread_properties is None else "    "
    for name, value in made.environment.items():
        yield f"{indent}export {name}={inert(shell_word(value))}   # CI sets it"
    yield "  quotaform validate"
    yield f"  quotaform plan{f' --cluster {made.cluster}' if made.cluster else ''}"
    yield "  git add . && git commit"
    yield from (
        f"  follow the first lines of {inert(path)}" for path in made.files if path.endswith((".yml", ".gitlab-ci.yml"))
    )
