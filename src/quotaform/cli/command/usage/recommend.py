"""`quotaform usage recommend`: quotas that fit what is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from quotaform.cli.option.cluster import ExcludeOption, ManyClusters, SelectOption
from quotaform.cli.option.common import DirectoryArgument, UsageOption, flag, option, with_options
from quotaform.cli.option.engine import SparkPlace, spark_job
from quotaform.cli.option.output import DrawnOutOption, Output, printed
from quotaform.cli.option.value import read_duration, shorten
from quotaform.cli.present import TableOutput, report_failures, selection_text
from quotaform.model.errors import UsageError
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.settings import MOST_HEADROOM, MOST_OUTLIER_DAYS, parse_percentile
from quotaform.model.text import did_you_mean
from quotaform.model.units import parse_value

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.desired.config import Cluster, Config
    from quotaform.model.quotas import Values
    from quotaform.usage.recommend.recommendation import RecommendSettings
    from quotaform.usage.recommend.run import Recommended


@dataclass(frozen=True, kw_only=True)
class SizeOptions:
    """How quotas are sized; what is not given is as `recommend` of quotaform.yaml says."""

    percentile: float | None = option(
        "--percentile pN",
        "Percentile of the rates of each day. [default: p99]",
        read=lambda _, text: parse_percentile(text),
    )
    outlier_days: int | None = option(
        "--outlier-days N", "Leave out the N highest days of each weekday, but never its last one. [default: 0]", min=0
    )
    headroom: float | None = option("--headroom FACTOR", "Factor by which the percentile is multiplied. [default: 1.5]")
    floor: list[str] | None = option("--floor KEY=VALUE", "Lowest proposed value. Repeatable.")
    cap: list[str] | None = option("--cap KEY=VALUE", "Highest proposed value. Repeatable.")
    capacity: list[str] | None = option(
        "--capacity KEY=VALUE",
        "Maximum sum of the limits of all buckets on a broker. Repeatable. [default: that of the cluster]",
    )
    min_history: timedelta | None = option(
        "--min-history DURATION", "Minimum recorded time of an entity. [default: 14d]", read=read_duration
    )
    min_samples: int | None = option("--min-samples N", "Minimum number of samples of an entity. [default: 100]", min=1)
    unused_after: timedelta | None = option(
        "--unused-after DURATION",
        "Propose to remove values that were unused for this time. [default: 30d]",
        read=read_duration,
    )
    create: bool = flag(
        "--create", "Also propose values for clients that a default limits too much, or that have no limit."
    )
    select: SelectOption = None
    exclude: ExcludeOption = None

    def settings(self, config: Config, clusters: Sequence[Cluster]) -> RecommendSettings:
        """Return the settings."""
        from quotaform.api import make_selection
        from quotaform.usage.recommend.recommendation import RecommendSettings

        known = config.sizing
        headroom = known.headroom if self.headroom is None else self.headroom
        if not 1 <= headroom <= MOST_HEADROOM:
            raise UsageError(f"--headroom {headroom:g}: it is a factor from 1 to {MOST_HEADROOM:g}")
        outlier_days = known.outlier_days if self.outlier_days is None else self.outlier_days
        if outlier_days > MOST_OUTLIER_DAYS:
            raise UsageError(f"--outlier-days {outlier_days}: at most {MOST_OUTLIER_DAYS} can be left out")
        floors = {**known.floors, **_read_values("--floor", self.floor)}
        caps = {**known.caps, **_read_values("--cap", self.cap)}
        for key in floors.keys() & caps.keys():
            if floors[key] > caps[key]:
                raise UsageError(f"the floor of {key} is above its cap; give another --floor or --cap")
        capacity = _read_values("--capacity", self.capacity)
        return RecommendSettings(
            percentile=self.percentile or known.percentile,
            outlier_days=outlier_days,
            headroom=headroom,
            floors=floors,
            caps=caps,
            min_history_days=_days(self.min_history) or known.min_history_days,
            min_samples=self.min_samples or known.min_samples,
            unused_after_days=_days(self.unused_after) or known.unused_after_days,
            has_creates=self.create,
            capacities={each.name: {**each.capacity.values, **capacity} for each in clusters},
            scope=config.scope,
            selection=make_selection(self.select or (), self.exclude or ()),
        )


def _read_values(option: str, texts: Sequence[str] | None) -> Values:
    """Read values of quota keys."""
    values: dict[str, float] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"{option} {shorten(text)}: write KEY=VALUE, for example producer_byte_rate=1MiB/s")
        key = QUOTA_KEYS.get(name)
        if key is None:
            guess = did_you_mean(name, QUOTA_KEYS) or f"; the keys are {', '.join(QUOTA_KEYS)}"
            raise UsageError(f"{option} {shorten(text)}: unknown quota key{guess}")
        if name in values:
            raise UsageError(f"{option} {name} is given twice; give it once")
        try:
            values[name] = parse_value(key, value)
        except ValueError as error:
            raise UsageError(f"{option} {name}: {error}") from None
    return values


def _days(time: timedelta | None) -> float:
    return 0.0 if time is None else time / timedelta(days=1)


@with_options
def recommend(
    *,
    directory: DirectoryArgument = None,
    usage: UsageOption,
    target: ManyClusters,
    sizing: SizeOptions,
    write: bool = flag("--write", "Write the proposals into the files: all of them, or none."),
    diff: bool = flag("--diff", "Print the changes of --write as a unified diff, and write nothing."),
    no_backtest: bool = flag("--no-backtest", "Skip the backtest of the proposals, which takes most of the time."),
    out: DrawnOutOption = None,
    place: SparkPlace,
    output: Output = printed("usage-recommend"),
) -> int:
    """Propose quotas that fit the recorded usage.

    The basis of a value is the highest daily percentile of all buckets that it limits. Values that differ too much
    from the basis times a headroom are changed, unused values are removed, and nothing is proposed where too little is
    recorded. The output includes a backtest of the proposals: what a plan of the changed files would have throttled of
    the same usage.

    With --write, files are changed and formatted as quotaform fmt does, and each changed entry gets a reason. A value
    from a profile, an anchor, or a file for several clusters is overridden by an entry in the cluster's directory. An
    unused value is removed, or the entry becomes state: absent.

    \b
    Examples:
      quotaform usage recommend --usage /srv/usage
      quotaform usage recommend --usage /srv/usage --percentile p99.9 --headroom 2 --cap producer_byte_rate=50MiB/s
      quotaform usage recommend --usage /srv/usage --diff
    """
    console = output.console
    repository = target.repository(directory)
    config = repository.config()
    clusters = target.choose(repository, config)
    settings = sizing.settings(config, clusters)
    files = TableOutput(output, out)
    session = place.session()
    from quotaform.fleet.table import require_table
    from quotaform.usage.recommend.run import RecommendRequest, recommended, require_files

    request = RecommendRequest(
        usage=usage,
        repository=repository,
        config=config,
        clusters=clusters,
        settings=settings,
        is_changing=write or diff,
        is_written=write,
        is_tested=not no_backtest,
    )
    require_files(request)
    require_table(usage, session)
    with (
        spark_job(console, "Sizing quotas", session) as (spark, progress),
        recommended(spark, request, console.warn_of_failure, progress=progress) as found,
    ):
        report = found.report
        if settings.selection.is_partial and not report.summary.total:
            raise UsageError(f"{selection_text(settings.selection)}: no entity of the clusters is left")
        files.write(report, found.rows)
    if diff:
        _print_diff(console, found)
    else:
        files.present(report)
    return report_failures(console, found.failed)


def _print_diff(console: Console, found: Recommended) -> None:
    """Print what would change to stdout, and what would not to stderr."""
    from quotaform.report.text import render_diff
    from quotaform.usage.recommend.report import backtest_lines, recommend_report, unwritten_lines

    report = found.report
    for file in () if found.edited is None else found.edited.files:
        console.echo(render_diff(file.name, file.before, file.after, console.style(), is_new=not file.before))
    console.report_failure(*unwritten_lines(report))
    console.warn(*backtest_lines(report), recommend_report(report).total)
