"""Which cluster the rows of a usage table belong to.

| rows | belong to |
| --- | --- |
| that name a cluster | that cluster |
| that name none, if one cluster alone is selected | that cluster |
| that name none otherwise | no cluster |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from quotaform.model.entity import spell_name
from quotaform.model.moment import spell_moment
from quotaform.model.text import listed
from quotaform.spark.table.named_table import bad_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_NAMED = 100


def named_usage(rows: DataFrame, selected: Sequence[str]) -> DataFrame:
    """Return rows with the name of the cluster that they belong to, in the column `cluster`.

    Args:
        rows: Usage, or series of it.
        selected: The clusters that were selected, also those that could not be read.
    """
    if len(selected) != 1:
        return rows
    return rows.withColumn("cluster", f.coalesce("cluster", f.lit(selected[0])))


def usage_of(usage: DataFrame, names: Sequence[str], selected: Sequence[str]) -> DataFrame:
    """Return the rows that belong to clusters, with their names; files of other clusters need not be read.

    Args:
        selected: As for `named_usage`.
    """
    is_theirs = f.col("cluster").isin(list(names))
    if len(selected) == 1:
        is_theirs = is_theirs | f.col("cluster").isNull()
    return named_usage(usage.where(is_theirs), selected)


def time_text(since: datetime | None, until: datetime | None) -> str:
    """Return the end of a sentence about rows that says of which time they are; empty for all times."""
    text = "" if since is None else f" from {spell_moment(since)} on"
    return text if until is None else f"{text} before {spell_moment(until)}"


def require_recorded(
    usage: DataFrame,
    name: str,
    names: Sequence[str],
    missing: Sequence[str],
    warn: Callable[[str], None],
    time: str = "",
) -> None:
    """Make sure that something is recorded of one of the clusters; warn of those without.

    Args:
        missing: Those of them of which nothing is recorded.
        time: What `time_text` returned, if the usage is of some time only.
    """
    if not missing:
        return
    shown = listed([spell_name(each) for each in missing])
    if len(missing) < len(names):
        warn(f"no usage is recorded of {shown}{time}")
        return
    known = usage.select("cluster").distinct().limit(_MOST_NAMED).toArrow().column("cluster").to_pylist()
    others = listed(sorted("rows without a cluster" if each is None else spell_name(each) for each in known))
    nothing = "it has no row of that time" if time else "it is empty"
    raise bad_table(name, f"has no row of {shown}{time}; {f'it has {others}' if others else nothing}")
