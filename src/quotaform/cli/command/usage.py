"""`quotaform usage`: how much clients use, and what that means for quotas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from quotaform.cli.command.ingest import ingest as ingest
from quotaform.cli.option.cluster import EXCLUDE, OR_SNAPSHOT, SELECT, Clusters, Selecting, make_request
from quotaform.cli.option.common import DIRECTORY, REQUIRED, SOURCE, USAGE, Period, argument, flag, option, read_seconds
from quotaform.cli.option.run import DRAWN_OUT, ON_SPARK, Engine, Output, printed, spark_job
from quotaform.cli.present import Results, TableOutput, report_failures, selection_text
from quotaform.model.errors import ExitCode, InvalidFilesError, UsageError, as_usage_error
from quotaform.model.moment import duration_text, parse_duration
from quotaform.model.outcome import ClusterOutcome, exit_code
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.settings import MOST_HEADROOM, MOST_OUTLIER_DAYS, parse_percentile, read_sources
from quotaform.model.text import did_you_mean, inert, listed
from quotaform.model.units import parse_value
from quotaform.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.desired.config import Cluster, Config
    from quotaform.model.quotas import Values
    from quotaform.plan.plan import Plan
    from quotaform.usage.recommend.recommendation import RecommendSettings


_DECLARED: Final[Any] = {"bootstrap_server": None, "command_config": None}
"""The default of the `Clusters` of a command that an address is not enough for."""


def record(
    *,
    usage: Path = option("--usage DIR", "Usage table: a directory to which files are added.", REQUIRED),
    source: list[str] | None = SOURCE,
    interval: float = option(
        "--interval DURATION", "Time between two measurements of a broker.", "10s", read=read_seconds
    ),
    duration: float | None = option(
        "--for DURATION",
        "How long to record. [default: until Ctrl-C or SIGTERM]",
        read=partial(read_seconds, longest=366 * 86_400.0),
    ),
    target: Clusters = _DECLARED,
    output: Output = printed("usage-record"),
) -> int:
    """Record the usage metrics of brokers into a usage table, without Spark and without stored monitoring.

    All brokers of all clusters are measured in parallel, each with one request at a time. A file is written every
    minute, and when the recording ends, also by Ctrl-C or SIGTERM (exit 0). A broker that does not respond is a gap in
    the table and in the summary. Needs the extra usage, for Parquet.

    \b
    Examples:
      quotaform usage record --cluster prod-eu --usage usage --for 24h
      quotaform usage record --all --usage usage
      quotaform usage record --cluster lab --source 1=http://localhost:7071/metrics --usage usage --for 10m
      quotaform usage record --cluster lab --source 1=jmx:localhost:9999 --usage usage --interval 30s
    """
    console = output.console
    sources = read_sources(source or ())
    from quotaform.desired.config import Cluster
    from quotaform.usage.record.run import open_recorder

    if sources and len(target.literal_names) == 1:
        # Of a cluster whose sources are given, quotaform.yaml need not know.
        clusters: Sequence[Cluster] = [Cluster(name=target.literal_names[0])]
    else:
        clusters = target.choose()
    recorder = open_recorder(
        clusters,
        sources,
        usage,
        interval=interval,
        seconds=duration,
        warn=lambda text: console.warn_of_failure(inert(text)),
        progress=console.progress,
    )
    limit = "" if duration is None else f" of {duration_text(timedelta(seconds=duration))}"
    names, count = listed([inert(name) for name in recorder.readers]), sum(map(len, recorder.readers.values()))

    def progress(passed: float, rows: int) -> None:
        console.progress(f"Recording {names}: {duration_text(timedelta(seconds=passed))}{limit}, {rows:,} rows", 0, 0)

    console.warn(
        f"Recording {names} from {count:,} source{'s' * (count != 1)} every {interval:g} s; "
        "Ctrl-C ends it and keeps what was recorded"
    )
    outcomes = recorder.run(progress)
    Results(output).present(outcomes)
    if len(outcomes) == 1:
        outcomes[0].require().require_written()
    return exit_code(outcomes)


def compact(
    *,
    usage: str = USAGE,
    keep: timedelta | None = option(
        "--keep DURATION", "Remove rows of days that ended longer ago, such as 90d.", read=parse_duration
    ),
    engine: Engine = ON_SPARK,
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
    session = engine.installed()
    from quotaform.usage.table.files import compact as compact_files
    from quotaform.usage.table.files import require_folder

    require_folder(usage)
    with spark_job(output.console, "Compacting", session) as (spark, _):
        result = compact_files(spark, usage, SYSTEM_CLOCK.now(), keep)
    output.print(result)
    return ExitCode.DONE


def headroom(
    *,
    usage: str = USAGE,
    target: Clusters = OR_SNAPSHOT,
    quotas: str | None = option(
        "--quotas DIR|TABLE", "Table of quotas instead of clusters: Parquet, or of the catalog."
    ),
    period: Period,
    top: int = option("--top N", "How many rows to show.", 20, min=1, max=10_000),
    out: list[str] | None = DRAWN_OUT,
    engine: Engine = ON_SPARK,
    output: Output = printed("usage-headroom"),
) -> int:
    """Show how close clients are to their quotas: throttled, at 80% or more, and unused.

    A limit is compared with the 99th percentile of the rates of all clients that share it, on each broker.

    \b
    Examples:
      quotaform usage headroom --usage /srv/usage
      quotaform usage headroom --usage /srv/usage --cluster prod-eu --since 14d --out parquet=headroom
      quotaform usage headroom --usage /srv/usage --cluster prod-eu --out html=headroom.html
      quotaform usage headroom --usage lake.usage --quotas lake.quotas --format json
    """
    console = output.console
    clusters: tuple[Cluster, ...] = ()
    is_unnamed = False
    if quotas is None:
        repository = target.repository()
        config = repository.config()
        clusters = target.choose(repository, config)
        is_unnamed = len(clusters) == 1 and clusters[0].name not in config.clusters
    files = TableOutput(output, out)
    session = engine.installed(usage)
    from quotaform.fleet.data_source import read_clusters
    from quotaform.fleet.table import read_table, require_table
    from quotaform.usage.headroom.run import measured_headroom
    from quotaform.usage.table.table import as_quotas

    if quotas is not None:
        require_table(quotas, session)
    with (
        spark_job(console, "Measuring headroom", session) as (spark, _),
        measured_headroom(
            spark,
            usage,
            read_clusters(spark, clusters) if quotas is None else as_quotas(quotas, read_table(spark, quotas)),
            console.warn_of,
            only_chosen=bool(target.cluster),
            is_unnamed=is_unnamed,
            since=period.since,
            until=period.until,
            most=top,
        ) as (found, rows, failed),
    ):
        files.present(found, rows)
    return report_failures(console, failed)


def backtest(
    *,
    source: Path | None = argument(
        "[DIR|PLAN.json]", "A quotas directory, which is planned, or a saved plan. [default: quotas.d]"
    ),
    usage: str = USAGE,
    target: Clusters = OR_SNAPSHOT,
    period: Period,
    top: int = option("--top", "How many buckets of each kind to show.", 20, min=1, max=10_000),
    out: list[str] | None = DRAWN_OUT,
    engine: Engine = ON_SPARK,
    output: Output = printed("usage-backtest"),
) -> int:
    """Replay recorded usage against the limits of a plan: who would have been throttled, when and for how long, next to
    the recorded throttling.

    Each quota is modelled as Kafka implements it: windows of rates, caps on delays, and the token bucket of mutations.
    Lower and upper bounds cover what the recording cannot show. Nothing is written to a cluster.

    \b
    Examples:
      quotaform usage backtest --usage /srv/usage
      quotaform usage backtest plan.json --usage /srv/usage --since 30d
      quotaform usage backtest plan.json --usage /srv/usage --out html=backtest.html
      quotaform usage backtest proposal/quotas.d --snapshot prod.json --usage /srv/usage --out parquet=backtest
    """
    console = output.console
    files = TableOutput(output, out)
    session = engine.installed(usage)
    outcomes = _plans(console, source, target)
    plans = [outcome.value for outcome in outcomes if outcome.value is not None]
    if plans:
        from quotaform.usage.replay.run import backtested

        with spark_job(console, "Replaying usage", session) as (spark, _):
            try:
                with backtested(
                    spark,
                    usage,
                    plans,
                    top,
                    console.warn_of,
                    since=period.since,
                    until=period.until,
                    has_others=len(plans) < len(outcomes),
                    is_required=True,
                ) as (found, rows, replayed):
                    shown = {"replays": replayed()} if files.has_page else {}
                    files.present(found, rows, **shown)
            except InvalidFilesError:
                # The clusters that failed before have errors of their own.
                report_failures(console, outcomes)
                raise
    return report_failures(console, outcomes)


def _plans(console: Console, source: Path | None, target: Clusters) -> Sequence[ClusterOutcome[Plan]]:
    """Return the plans to test, each with what its cluster holds; or why there is none."""
    if source is None or not (source.is_file() or source.suffix == ".json"):
        from quotaform.api import plan_clusters

        request = make_request(target, target.repository(source), Selecting(), is_guarded=False)
        request = structs.replace(request, keeps_actual=True, has_lints=False)
        return list(plan_clusters(request, progress=console.progress))
    from quotaform.plan.receipt_file import load_plan_file
    from quotaform.repository.gateway import open_pinned_gateway

    saved = load_plan_file(source)
    name = saved.header.cluster.name
    if target.snapshot is None:
        cluster = target.choose_for_plan(target.repository(), source, name)
    else:
        is_known = name in target.repository().config().clusters
        chosen = replace(target, cluster=target.cluster or [name]) if is_known else target
        [cluster] = chosen.choose()
    with open_pinned_gateway(cluster) as gateway:
        saved.require_cluster(gateway.cluster_id())
        header = structs.replace(saved.header, cluster=structs.replace(saved.header.cluster, name=cluster.name))
        # Plan files do not have what the cluster holds.
        return [ClusterOutcome(cluster.name, value=replace(saved, header=header, actual=gateway.describe()))]


def _read_days(text: str) -> float:
    return parse_duration(text) / timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class SizeOptions:
    """How quotas are sized; what is not given is as `recommend` of quotaform.yaml says."""

    percentile: float | None = option(
        "--percentile pN", "Percentile of the rates of each day. [default: p99]", read=parse_percentile
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
    min_history_days: float | None = option(
        "--min-history DURATION", "Minimum recorded time of an entity. [default: 14d]", read=_read_days
    )
    min_samples: int | None = option("--min-samples N", "Minimum number of samples of an entity. [default: 100]", min=1)
    unused_after_days: float | None = option(
        "--unused-after DURATION",
        "Propose to remove values that were unused for this time. [default: 30d]",
        read=_read_days,
    )
    create: bool = flag(
        "--create", "Also propose values for clients that a default limits too much, or that have no limit."
    )
    select: list[str] | None = SELECT
    exclude: list[str] | None = EXCLUDE

    def settings(self, config: Config, clusters: Sequence[Cluster]) -> RecommendSettings:
        from quotaform.api import make_selection
        from quotaform.usage.recommend.recommendation import RecommendSettings

        known = structs.asdict(config.sizing)
        known |= {name: value for name in known if (value := getattr(self, name, None)) is not None}
        known["floors"] = {**known["floors"], **_read_values("--floor", self.floor)}
        known["caps"] = {**known["caps"], **_read_values("--cap", self.cap)}
        capacity = _read_values("--capacity", self.capacity)
        settings = RecommendSettings(
            **known,
            has_creates=self.create,
            capacities={each.name: {**each.capacity.values, **capacity} for each in clusters},
            scope=config.scope,
            selection=make_selection(self.select or (), self.exclude or ()),
        )
        if not 1 <= settings.headroom <= MOST_HEADROOM:
            raise UsageError(f"--headroom {settings.headroom:g}: it is a factor from 1 to {MOST_HEADROOM:g}")
        if settings.outlier_days > MOST_OUTLIER_DAYS:
            raise UsageError(f"--outlier-days {settings.outlier_days}: at most {MOST_OUTLIER_DAYS} can be left out")
        for key in settings.floors.keys() & settings.caps.keys():
            if settings.floors[key] > settings.caps[key]:
                raise UsageError(f"the floor of {key} is above its cap; give another --floor or --cap")
        return settings


def _read_values(option: str, texts: Sequence[str] | None) -> Values:
    values: dict[str, float] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"{option} {inert(text)}: write KEY=VALUE, for example producer_byte_rate=1MiB/s")
        key = QUOTA_KEYS.get(name)
        if key is None:
            guess = did_you_mean(name, QUOTA_KEYS) or f"; the keys are {', '.join(QUOTA_KEYS)}"
            raise UsageError(f"{option} {inert(text)}: unknown quota key{guess}")
        if name in values:
            raise UsageError(f"{option} {name} is given twice; give it once")
        with as_usage_error(f"{option} {name}: "):
            values[name] = parse_value(key, value)
    return values


def recommend(
    *,
    directory: Path | None = DIRECTORY,
    usage: str = USAGE,
    target: Clusters,
    sizing: SizeOptions,
    write: bool = flag("--write", "Write the proposals into the files: all of them, or none."),
    diff: bool = flag("--diff", "Print the changes of --write as a unified diff, and write nothing."),
    no_backtest: bool = flag("--no-backtest", "Skip the backtest of the proposals, which takes most of the time."),
    out: list[str] | None = DRAWN_OUT,
    engine: Engine = ON_SPARK,
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
    session = engine.installed()
    from quotaform.fleet.table import require_table
    from quotaform.report.text import render_diff
    from quotaform.usage.recommend.recommendation import backtest_lines, recommend_report, unwritten_lines
    from quotaform.usage.recommend.run import recommended, require_files

    is_changing = write or diff
    if is_changing:
        require_files(repository, config, clusters)
    require_table(usage, session)
    with (
        spark_job(console, "Sizing quotas", session) as (spark, progress),
        recommended(
            spark,
            usage,
            repository,
            config,
            clusters,
            settings,
            console.warn_of_failure,
            is_changing=is_changing,
            is_written=write,
            is_tested=not no_backtest,
            progress=progress,
        ) as (report, rows, failed, edited),
    ):
        if settings.selection.is_partial and not report.summary.total:
            raise UsageError(f"{selection_text(settings.selection)}: no entity of the clusters is left")
        if not diff:
            files.present(report, rows)
            return report_failures(console, failed)
        files.write(report, rows)
    # What would change goes to stdout, and what would not to stderr.
    for file in () if edited is None else edited.files:
        console.echo(render_diff(file.name, file.before, file.after, console.style(), is_new=not file.before))
    console.report_failure(*unwritten_lines(report))
    console.warn(*backtest_lines(report), recommend_report(report).total)
    return report_failures(console, failed)
