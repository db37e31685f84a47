"""What a new quota repository holds and what comes next, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote as shell_word

from quotaform.core.result import Initialization
from quotaform.model.text import inert
from quotaform.views.finding.finding_text import render_findings
from quotaform.views.import_text import differing_lines
from quotaform.views.style import PLAIN, Style, counted


def render_init(made: Initialization, style: Style = PLAIN, *, is_dry_run: bool = False) -> str:
    """Return the files of a new repository, what could not be done, and the next steps."""
    return "\n".join(_lines(made, style, is_dry_run=is_dry_run)) + "\n"


def _lines(made: Initialization, style: Style, *, is_dry_run: bool) -> Iterator[str]:
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
