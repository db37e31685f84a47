"""`quotaform usage compact`: one file for each day and cluster of a usage table."""

from __future__ import annotations

from datetime import timedelta

from quotaform.cli.option.common import UsageOption, option, with_options
from quotaform.cli.option.engine import SparkPlace, spark_job
from quotaform.cli.option.output import Output, printed
from quotaform.cli.option.value import read_duration
from quotaform.model.errors import ExitCode
from quotaform.system.clock import SYSTEM_CLOCK


@with_options
def compact(
    *,
    usage: UsageOption,
    keep: timedelta | None = option(
        "--keep DURATION", "Remove rows of days that ended longer ago, such as 90d.", read=read_duration
    ),
    place: SparkPlace,
    output: Output = printed("usage-compact"),
) -> int:
    """Bring the files of each cluster and day that is over (UTC) together in one, and remove days that are too old.

    A table that is read from few sorted files takes a fraction of the time. Run it once a day, while nothing reads the
    table: files that were replaced are removed.

    \b
    Examples:
      quotaform usage compact --usage /srv/usage
      quotaform usage compact --usage /srv/usage --keep 90d
    """
    session = place.session()
    from quotaform.usage.table.compact import compact as compact_files
    from quotaform.usage.table.compact import require_folder

    require_folder(usage)
    with spark_job(output.console, "Compacting", session) as (spark, _):
        result = compact_files(spark, usage, SYSTEM_CLOCK.now(), keep)
    output.print(result)
    return ExitCode.DONE
