"""How close clients are to their quotas, in a comment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quotaform.core.usage.chart.label import span_text, value_text
from quotaform.core.usage.headroom import BucketUse, Headroom, HeadroomStatus, UnusedQuota
from quotaform.views.markdown import code, code_cell, details, table, words, words_cell
from quotaform.views.usage.headroom_text import (
    COLUMNS,
    bucket_cells,
    closest_words,
    grave_buckets,
    noisy_words,
    span_words,
    total_words,
    unjudged_words,
)

_UNUSED: Final = ("Cluster", "Entity", "Quota", "Value", "Recorded for")
_MOST_ROWS: Final = 100


def render_headroom_markdown(found: Headroom) -> Iterator[str]:
    """Yield how close clients are to their quotas as Markdown."""
    yield f"**{total_words(found)}**\n\nUsage: {code(found.usage)}, {span_words(found)}\n\n"
    grave = grave_buckets(found)
    if grave:
        yield from table((name.capitalize() for name in COLUMNS), map(_row, grave[:_MOST_ROWS]))
        left = found.counts[HeadroomStatus.THROTTLED] + found.counts[HeadroomStatus.CLOSE] - len(grave[:_MOST_ROWS])
        yield f"\nAnd {left:,} more.\n\n" if left else "\n"
    else:
        yield f"{words(closest_words(found))}\n\n"
    if found.noisy:
        yield "Noisy neighbours (more than half of the usage of a shared bucket):\n\n"
        yield from (f"- {words(noisy_words(each))}\n" for each in found.noisy[:_MOST_ROWS])
        left = found.noisy_total - len(found.noisy[:_MOST_ROWS])
        yield f"- and {left:,} more\n\n" if left else "\n"
    if found.unused:
        left = found.unused_total - len(found.unused[:_MOST_ROWS])
        more = f"\nAnd {left:,} more.\n" if left else ""
        rows = "".join(table(_UNUSED, map(_unused, found.unused[:_MOST_ROWS])))
        yield details(f"Unused (they limited no recorded client): {found.unused_total:,}", rows + more)
    unjudged = list(unjudged_words(found))
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
