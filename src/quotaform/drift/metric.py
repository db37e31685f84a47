"""The metrics of a comparison, as a table, and what one run says about one cluster.

No metric has a user, a client-id or an address as a label: their number is not bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from quotaform.drift.drift import Drift


class Metric(Struct, frozen=True):
    """One metric, a gauge."""

    name: str
    help: str  # What it says, in one sentence
    labels: tuple[str, ...] = ()  # Its labels, without `cluster`
    # Whether it says something about the last run, and not about the cluster when it was last read
    is_of_run: bool = False

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Its labels, `cluster` first."""
        return ("cluster", *self.labels)


DRIFT_ENTITIES: Final = Metric(
    "quotaform_drift_entities", "Entities that differ from what was last agreed, by class.", ("class",)
)
IGNORED_ENTITIES: Final = Metric(
    "quotaform_drift_ignored_entities", "Entities with differences that drift_ignore lists; not counted as drift."
)
PENDING_CHANGES: Final = Metric(
    "quotaform_pending_changes",
    "Entities that the files have changed since the baseline and that are not applied yet; absent without a baseline.",
    ("action",),
)
MANAGED_ENTITIES: Final = Metric("quotaform_managed_entities", "Entities for which the files declare values.")
UNMANAGED_ENTITIES: Final = Metric(
    "quotaform_unmanaged_entities", "Live entities that no file declares, in and out of scope.", ("scope",)
)
FIRST_SEEN: Final = Metric(
    "quotaform_drift_first_seen_timestamp_seconds",
    "When drift was first seen since the cluster was last in sync; absent when it is in sync.",
)
RUN_SUCCESS: Final = Metric(
    "quotaform_last_run_success", "Whether the last run could compare the cluster: 1 or 0.", ("command",), True
)
SUCCESS_TIME: Final = Metric(
    "quotaform_last_success_timestamp_seconds", "When the cluster was last compared.", ("command",), True
)
RUN_DURATION: Final = Metric("quotaform_last_run_duration_seconds", "How long the last run took.", ("command",), True)
NOTIFY_SUCCESS: Final = Metric(
    "quotaform_last_notify_success",
    "Whether every notification that was due at the last run was delivered: 1 or 0; absent if nobody is notified.",
    (),
    True,
)
BUILD_INFO: Final = Metric("quotaform_build_info", "The version of quotaform; always 1.", ("version",), True)

METRICS: Final[Mapping[str, Metric]] = {row.name: row for row in tuple(globals().values()) if isinstance(row, Metric)}
"""All metrics by name, in the order in which they are written."""

MetricSample: TypeAlias = tuple[str, tuple[str, ...]]
"""The name of a metric and the values of its labels, the cluster first."""
MetricSamples: TypeAlias = Mapping[MetricSample, float]


class RunFacts(Struct, frozen=True, kw_only=True):
    """One run of a command on one cluster."""

    cluster: str
    command: str
    version: str
    finished_at: float  # When it ended, in seconds since 1970
    duration: float  # How many seconds it took
    drift: Drift | None = None  # What was found; `None` when the cluster could not be compared
    first_seen: float | None = None  # Since when there has been drift, in seconds since 1970
    # Whether every notification that was due was delivered; `None` without any receiver
    is_notified: bool | None = None


def merge_run(before: MetricSamples, run: RunFacts) -> dict[MetricSample, float]:
    """Return the samples after a run: those of its cluster are replaced, the others stay.

    What was known of a cluster stays when it could not be compared; only what is about the run changes. `before` is the
    samples so far, of any clusters.
    """
    name, command = run.cluster, run.command
    replaced = {row.name for row in METRICS.values() if run.drift is not None and not row.is_of_run}
    replaced |= {BUILD_INFO.name, NOTIFY_SUCCESS.name}
    merged = {key: value for key, value in before.items() if key[1][0] != name or key[0] not in replaced}
    merged[BUILD_INFO.name, (name, run.version)] = 1.0
    merged[RUN_SUCCESS.name, (name, command)] = float(run.drift is not None)
    merged[RUN_DURATION.name, (name, command)] = round(run.duration, 6)
    if run.is_notified is not None:
        merged[NOTIFY_SUCCESS.name, (name,)] = float(run.is_notified)
    if run.drift is not None:
        merged[SUCCESS_TIME.name, (name, command)] = run.finished_at
        merged |= _state_samples(name, run.drift, _first_seen(before, run))
    return merged


def _first_seen(before: MetricSamples, run: RunFacts) -> float | None:
    """Return since when there has been drift: what is in a file may be longer ago than what is remembered."""
    known = before.get((FIRST_SEEN.name, (run.cluster,)))
    return run.first_seen if known is None or run.first_seen is None else min(known, run.first_seen)


def _state_samples(name: str, drift: Drift, first_seen: float | None) -> dict[MetricSample, float]:
    samples: dict[MetricSample, float] = {
        (IGNORED_ENTITIES.name, (name,)): drift.ignored_entities,
        (MANAGED_ENTITIES.name, (name,)): drift.managed,
        (UNMANAGED_ENTITIES.name, (name, "in")): drift.unmanaged_in_scope,
        (UNMANAGED_ENTITIES.name, (name, "out")): drift.unmanaged_out_of_scope,
    }
    samples |= {(DRIFT_ENTITIES.name, (name, each)): count for each, count in drift.summary.items()}
    if drift.baseline is not None:
        samples |= {(PENDING_CHANGES.name, (name, each)): count for each, count in drift.pending_actions.items()}
    if drift.entities and first_seen is not None:
        samples[FIRST_SEEN.name, (name,)] = first_seen
    return samples


def keep_clusters(samples: MetricSamples, clusters: Iterable[str]) -> dict[MetricSample, float]:
    """Return the samples of some clusters."""
    kept = frozenset(clusters)
    return {key: value for key, value in samples.items() if key[1][0] in kept}


def is_sample(name: str, labels: Mapping[str, str]) -> bool:
    """Whether something with this name and these labels is one of the metrics.

    >>> is_sample("quotaform_managed_entities", {"cluster": "lab"}), is_sample("up", {})
    (True, False)
    """
    metric = METRICS.get(name)
    return metric is not None and labels.keys() == set(metric.all_labels)
