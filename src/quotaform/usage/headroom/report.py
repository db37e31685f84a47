"""How close clients are to their quotas, as people read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert, listed
from quotaform.report.markdown import code, code_cell, details, table, words, words_cell
from quotaform.report.text import PLAIN, Style, counted, minute_text, rate_text, span_text, value_text
from quotaform.usage.headroom.headroom import BucketUse, Headroom, HeadroomStatus, UnknownCluster, UnusedQuota

COLUMNS: Final = ("status", "used", "p50", "p95", "p99", "max", "limit", "throttled", "key", "bucket")
"""The columns of the table of buckets."""
_COLOURS: Final = {HeadroomStatus.THROTTLED: "red", HeadroomStatus.CLOSE: "yellow"}
_MOST_NAMES: Final = 5


def render_headroom(found: Headroom, style: Style = PLAIN) -> str:
    """Return how close clients are to their quotas as text, ending with one line that says how many are."""
    return "\n".join(_lines(found, style)) + "\n"


def _lines(found: Headroom, style: Style) -> Iterator[str]:
    yield f"Usage  {style.paint(inert(found.usage), 'bold')}   {span_words(found)}"
    yield from _section("", _bucket_lines(found, style))
    yield from _section("Noisy neighbours (more than half of the usage of a shared bucket):", _noisy_lines(found))
    yield from _section("Unused (they limited no recorded client):", _unused_lines(found))
    yield from _section("Not assessed:", not_assessed_lines(found))
    yield ""
    yield style.paint(total_words(found), "bold")


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    made = list(lines)
    if made:
        yield ""
        if title:
            yield title
        yield from (f"  {line}" for line in made)


def span_words(found: Headroom) -> str:
    """Return from when to when there are how many samples."""
    number = counted(found.samples, "sample")
    return f"{minute_text(found.first)} to {minute_text(found.last)} UTC, {number}"


def close_buckets(found: Headroom) -> Sequence[BucketUse]:
    """Return the buckets that were throttled or are close to their limits."""
    return [each for each in found.buckets if each.status in _COLOURS]


def bucket_cells(each: BucketUse) -> tuple[str, ...]:
    """Return what `COLUMNS` say of a bucket."""
    used = "-" if each.used_ratio is None else percent(each.used_ratio)
    rates = (
        "-" if rate is None else rate_text(each.key, rate, each.limit)
        for rate in (each.p50, each.p95, each.p99, each.maximum)
    )
    limit = "-" if each.limit is None else value_text(each.key, each.limit)
    return (each.status.value, used, *rates, limit, span_text(each.throttled_s), inert(each.key), place_text(each))


def place_text(each: BucketUse) -> str:
    """Return who shares a limit, and where."""
    where = [] if each.cluster is None else [spell_name(each.cluster)]
    where += [] if each.broker is None else [f"broker {inert(each.broker)}"]
    return f"{each.bucket or 'all requests'} ({', '.join(where)})" if where else each.bucket or "all requests"


def percent(ratio: float) -> str:
    """Return a part as a percentage.

    >>> percent(0.804), percent(1.5)
    ('80%', '150%')
    """
    return f"{ratio * 100:,.0f}%"


def _bucket_lines(found: Headroom, style: Style) -> Iterator[str]:
    total = found.summary.limited
    if not close_buckets(found):
        yield closest_words(found)
    if not found.buckets:
        return
    rows = [COLUMNS, *map(bucket_cells, found.buckets)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    for place, row in enumerate(rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield style.paint(line.upper(), "dim") if place == 0 else _painted(line, found.buckets[place - 1], style)
    if total > len(found.buckets):
        yield f"... and {total - len(found.buckets):,} more (all: --out parquet=DIR)"


def _painted(line: str, each: BucketUse, style: Style) -> str:
    colour = _COLOURS.get(each.status)
    return style.paint(line, colour) if colour else line


def closest_words(found: Headroom) -> str:
    """Return how close the closest bucket is, where none is throttled or close."""
    nearest = next((each for each in found.buckets if each.used_ratio is not None), None)
    if nearest is None:
        return "No bucket that was recorded has a limit."
    used = percent(nearest.used_ratio or 0.0)
    return f"No bucket is close to its limit; the closest uses {used}: {inert(nearest.key)} of {place_text(nearest)}."


def _noisy_lines(found: Headroom) -> Iterator[str]:
    yield from map(noisy_words, found.noisy)
    if found.summary.noisy > len(found.noisy):
        yield f"... and {found.summary.noisy - len(found.noisy):,} more"


def noisy_words(each: BucketUse) -> str:
    """Return who takes how much of what a bucket uses."""
    share = percent(each.top_member_share or 0.0)
    others = counted(each.members - 1, "other")
    return f"{each.top_member} uses {share} of {inert(each.key)} of {place_text(each)}, shared with {others}"


def _unused_lines(found: Headroom) -> Iterator[str]:
    for (cluster, key), values in groupby(found.unused, lambda each: (each.cluster, each.key)):
        rows = list(values)
        recorded = f"unused in {span_text(rows[0].recorded_s)} of recording"
        yield f"{spell_name(cluster)}  {inert(key)}  ({recorded})"
        yield from (f"  {each.entity} = {value_text(key, each.value)}" for each in rows)
    if found.summary.unused > len(found.unused):
        yield f"... and {found.summary.unused - len(found.unused):,} more (all: --out parquet=DIR)"


def not_assessed_lines(found: Headroom) -> Iterator[str]:
    """Yield what the recording does not tell, a sentence each."""
    if found.unknown:
        number = counted(sum(each.buckets for each in found.unknown), "bucket")
        names = listed([_unknown_name(each) for each in found.unknown], _MOST_NAMES)
        yield f"{number} of {names}: recorded, but the quotas of the cluster are not known."
    if found.summary.coarse:
        number = counted(found.summary.coarse, "bucket")
        used = "it used" if found.summary.coarse == 1 else "they used"
        yield f"{number} of which the recording is too coarse: what {used} is at most what is shown."
    for key in dict.fromkeys(each.key for each in found.unrecorded):
        rows = [each for each in found.unrecorded if each.key == key]
        number = counted(sum(each.values for each in rows), "value")
        names = listed([spell_name(each.cluster) for each in rows], _MOST_NAMES)
        known = QUOTA_KEYS.get(key)
        why = "" if known is None or known.metrics else "; no metric of it is known"
        yield f"{number} of {inert(key)} on {names}: nothing was recorded of this quota key{why}."


def _unknown_name(each: UnknownCluster) -> str:
    return "rows without a cluster" if each.cluster is None else f"cluster {spell_name(each.cluster)}"


def total_words(found: Headroom) -> str:
    """Return how many buckets are how close to their limits."""
    counts = ", ".join(f"{getattr(found.summary, status.value):,} {status.value}" for status in HeadroomStatus)
    unused = counted(found.summary.unused, "unused value")
    return f"Headroom: {counts}, of {counted(found.summary.total, 'bucket')}; {unused}."


_UNUSED: Final = ("Cluster", "Entity", "Quota", "Value", "Recorded for")
_MOST_ROWS: Final = 100


def render_headroom_markdown(found: Headroom) -> Iterator[str]:
    """Yield how close clients are to their quotas as Markdown."""
    yield f"**{total_words(found)}**\n\nUsage: {code(found.usage)}, {span_words(found)}\n\n"
    grave = close_buckets(found)
    if grave:
        yield from table((name.capitalize() for name in COLUMNS), map(_row, grave[:_MOST_ROWS]))
        left = found.summary.throttled + found.summary.close - len(grave[:_MOST_ROWS])
        yield f"\nAnd {left:,} more.\n\n" if left else "\n"
    else:
        yield f"{words(closest_words(found))}\n\n"
    if found.noisy:
        yield "Noisy neighbours (more than half of the usage of a shared bucket):\n\n"
        yield from (f"- {words(noisy_words(each))}\n" for each in found.noisy[:_MOST_ROWS])
        left = found.summary.noisy - len(found.noisy[:_MOST_ROWS])
        yield f"- and {left:,} more\n\n" if left else "\n"
    if found.unused:
        left = found.summary.unused - len(found.unused[:_MOST_ROWS])
        more = f"\nAnd {left:,} more.\n" if left else ""
        rows = "".join(table(_UNUSED, map(_unused, found.unused[:_MOST_ROWS])))
        yield details(f"Unused (they limited no recorded client): {found.summary.unused:,}", rows + more)
    unjudged = list(not_assessed_lines(found))
    if unjudged:
        yield "Not assessed:\n\n"
        yield from (f"- {words(each)}\n" for each in unjudged)


def _row(each: BucketUse) -> tuple[str, ...]:
    status, used, *rates, throttled, key, bucket = bucket_cells(each)
    return (status, used, *map(words_cell, rates), throttled, code_cell(key), code_cell(bucket))


def _unused(each: UnusedQuota) -> tuple[str, ...]:
    return (
        code_cell(each.cluster),
        code_cell(each.entity),
        code_cell(each.key),
        words_cell(value_text(each.key, each.value)),
        span_text(each.recorded_s),
    )
