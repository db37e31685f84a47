"""The output about a cluster: described and altered quotas, SCRAM credentials, the steps of a checkup.

Quotas as CSV have one row per entity and quota key. The columns never change; new ones are added at the end. An entity
type that is not one of the three is in the address.

| column | what it holds |
| --- | --- |
| address | the entity on one line, unique |
| user, client_id, ip | nothing when the type is absent; `<default>`; the name, see `quotaform.report.text` |
| quota_key | the key |
| value | the exact decimal of the double, without exponent; or `NaN`, `Infinity`, `-Infinity` |
| display | the value in units |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from csv import writer
from io import StringIO
from itertools import groupby
from typing import Final

from quotaform.cluster.records import RESOURCE_NOT_FOUND, Checkup, ScramResult, ScramUser, StepStatus
from quotaform.model.alteration import Altered, Outcome
from quotaform.model.entity import DEFAULT_WORD, ENTITY_TYPES, KNOWN_TYPES, spell_name
from quotaform.model.filter import Described
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.text import inert
from quotaform.model.units import plain, render_value
from quotaform.report.text import PLAIN, Style, aligned, cluster_line, counted, csv_cell, reading_text


def render_quotas_text(described: Described, style: Style = PLAIN) -> str:
    """Return quotas, sorted by address."""
    quotas, heading = described.quotas, described.heading
    reading = reading_text(described.read_at, described.snapshot)
    lines = [f"{cluster_line(heading, style)}   {reading}", ""] if heading else []
    for address, values in sorted((entity.address, values) for entity, values in quotas.items()):
        lines += [style.paint(address, "bold"), *value_lines(values)]
    if quotas:
        # Where the limits hold, of those that are there.
        found = {key.per for values in quotas.values() for name in values if (key := QUOTA_KEYS.get(name)) is not None}
        per_cluster = ", ".join(name for name, key in QUOTA_KEYS.items() if key.per == "cluster")
        scope = "".join(f" Limits are per {per}." for per in found)
        if len(found) > 1:
            scope = f" Limits are per broker, {per_cluster} per cluster."
        total = sum(map(len, quotas.values()))
        lines += ["", f"{counted(len(quotas), 'entity')}, {counted(total, 'value')}.{scope}"]
    else:
        is_filtered = described.keys or described.entity_filter.components
        lines.append("No entity matches." if is_filtered else "There are no quotas.")
    return "".join(f"{line}\n" for line in lines)


def value_lines(values: Mapping[str, float], notes: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield a line per value, `  producer_byte_rate        10 MiB/s`, with a note behind some."""
    for name in sorted(values, key=key_order):
        note = f"   ({notes[name]})" if notes and name in notes else ""
        yield f"  {spell_name(name):<{_WIDTH}}  {render_value(QUOTA_KEYS.get(name), values[name])}{note}"


_WIDTH = max(map(len, QUOTA_KEYS))


def render_altered(done: Altered, style: Style = PLAIN, *, heading: str | None = None) -> str:
    """Return the entity as it is now, or would be, with what each changed key was before."""
    would, changed = done.is_validation, dict[str, str]()
    for key in filter(done.has_changed, done.ops):
        before = done.before.get(key)
        changed[key] = "was not set" if before is None else f"was {render_value(QUOTA_KEYS.get(key), before)}"
    lines = [cluster_line(heading, style), ""] if heading else []
    if done.after:
        lines += [style.paint(done.entity.address, "bold"), *value_lines(done.after, changed)]
    else:
        lines.append(f"{style.paint(done.entity.address, 'bold')} {'would have' if would else 'has'} no quotas.")
    removed = sorted(changed.keys() - done.after.keys(), key=key_order)
    for key in removed:
        lines.append(f"  {spell_name(key)} {'would be' if would else 'is'} removed   ({changed[key]})")
    lines.append("")
    if would:
        lines.append("The broker would accept this. Nothing was changed.")
    elif changed:
        lines.append(style.paint(f"Altered {done.entity.address}.", "green"))
        if removed:
            lines.append("Another quota may apply in its place, or none: quotaform resolve shows it.")
    else:
        lines.append(f"No changes: {done.entity.address} already has these values.")
    return "".join(f"{line}\n" for line in lines)


COLUMNS: Final = (
    "address",
    *(row.parameter for row in KNOWN_TYPES.values()),
    "quota_key",
    "value",
    "display",
)


def render_quotas_csv(described: Described) -> str:
    """Return quotas as CSV with a header line, sorted by address and key."""
    text = StringIO()
    table = writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for entity, values in sorted(described.quotas.items(), key=lambda item: item[0].address):
        cells = [csv_cell(entity.address)]
        for entity_type in ENTITY_TYPES:
            named = entity.names.get(entity_type, "")
            cells.append(DEFAULT_WORD if named is None else csv_cell(named))
        for name in sorted(values, key=key_order):
            value = values[name]
            table.writerow([*cells, csv_cell(name), plain(value), render_value(QUOTA_KEYS.get(name), value)])
    return text.getvalue()


_WORDS: Final = {Outcome.REFUSED: "refused by the broker: ", Outcome.UNKNOWN: "outcome unknown: ", Outcome.NOT_SENT: ""}


def render_scram(users: Sequence[ScramUser], cluster_name: str, style: Style = PLAIN) -> str:
    """Return a table of credentials, one per line, and their number."""
    lines: list[str] = []
    rows = [
        (spell_name(found.user), credential.mechanism, str(credential.iterations))
        for found in users
        for credential in found.credentials
    ]
    if rows:
        head, *table = aligned([("USER", "MECHANISM", "ITERATIONS"), *rows])
        lines += [style.paint(head, "bold"), *table, ""]
    for found in users:
        if found.error:
            is_without = found.error.code == RESOURCE_NOT_FOUND
            words = " has no SCRAM credentials" if is_without else f": {inert(found.error.message)}"
            lines.append(style.paint(f"{spell_name(found.user)}{words}", "red"))
    owners = sum(bool(found.credentials) for found in users)
    if owners:
        lines.append(f"{counted(len(rows), 'SCRAM credential')} of {counted(owners, 'user')} on {inert(cluster_name)}.")
    elif not users:
        lines.append(f"{inert(cluster_name)} has no SCRAM credentials.")
    return "\n".join(lines) + "\n"


def render_scram_result(result: ScramResult, style: Style = PLAIN) -> str:
    """Return what became of each credential, one per line, and their numbers."""
    rows: list[tuple[str, ...]] = []
    for row in result:
        done = "deleted" if row.iterations is None else f"set ({row.iterations} iterations)"
        shown = style.paint(done, "green")
        if row.outcome is not Outcome.OK:
            shown = style.paint(f"{_WORDS[row.outcome]}{inert(row.message or '')}", "red")
        rows.append((spell_name(row.user), row.mechanism, shown))
    counts = Counter(row.outcome for row in result)
    verb = "set" if any(row.iterations is not None for row in result) else "deleted"
    words = {Outcome.REFUSED: "failed", Outcome.UNKNOWN: "unknown", Outcome.NOT_SENT: "not sent"}
    failures = "".join(f", {counts[outcome]} {word}" for outcome, word in words.items() if counts[outcome])
    return "\n".join([*aligned(rows), f"{counted(counts[Outcome.OK], 'credential')} {verb}{failures}."]) + "\n"


_COLOURS = {StepStatus.OK: "green", StepStatus.FAILED: "red", StepStatus.NOT_REACHED: "dim"}


def render_checkup(checkup: Checkup, style: Style = PLAIN) -> str:
    """Return one line per step, below the server that it was taken with."""
    lines = [f"{cluster_line(checkup.cluster.name, style)}   Checked {inert(checkup.checked_at)}"]
    for number, (server, steps) in enumerate(groupby(checkup.steps, lambda step: step.server)):
        lines.append("")
        if number:
            lines.append(style.paint("Rights" if server is None else inert(server), "bold"))
        for step in steps:
            status = style.paint(f"{step.status.replace('-', ' '):<11}", _COLOURS[step.status])
            facts = ", ".join(f"{name.replace('_', ' ')} {inert(value)}" for name, value in step.facts.items())
            lines.append(
                f"  {status}  {step.step.replace('-', ' '):<16}  {inert(step.problem or '') or facts}".rstrip()
            )
    counts = Counter(step.status for step in checkup.steps)
    failed = f"{counted(counts[StepStatus.FAILED], 'step')} failed, {counts[StepStatus.NOT_REACHED]} not reached."
    lines += ["", "All steps succeeded." if checkup.is_healthy else failed]
    return "".join(f"{line}\n" for line in lines)
