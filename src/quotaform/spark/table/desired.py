"""The table `desired`: what the files declare for clusters, made by the loader on executors."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from quotaform.app.clock import SYSTEM_CLOCK
from quotaform.app.clock import today as day_of
from quotaform.model.entry import Entry
from quotaform.model.finding import Finding
from quotaform.spark.job.cluster_job import ShippedJob, new_bundle, opened_job, ship_job, task_count
from quotaform.spark.schemas import DESIRED, arrow_schema

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.app.repository.repository import Repository
    from quotaform.desired.loader import LoadedFiles

_ROWS_IN_BATCH: Final = 10_000


@dataclass(frozen=True, slots=True)
class DesiredJob:
    """Reads the files of clusters.

    Attributes:
        names: The names of the clusters.
        files: The files.
    """

    names: Sequence[str]
    files: LoadedFiles


def desired_table(
    spark: SparkSession,
    repository: Repository,
    clusters: Sequence[str] | None = None,
    *,
    today: date | None = None,
) -> DataFrame:
    """Return `schemas.DESIRED` of clusters; the files that they have in common are parsed once by each worker.

    The files are read now, and parsed when the table is used.

    Args:
        spark: The session.
        repository: Where the files are.
        clusters: The names of the clusters; all of quotaform.yaml if left out.
        today: The day (UTC) on which entries may have expired; the current one if left out.

    Raises:
        InvalidFilesError: quotaform.yaml is invalid.
    """
    folder = TemporaryDirectory(prefix="quotaform-")
    atexit.register(folder.cleanup)
    bundle = new_bundle(folder.name)
    config = repository.config()
    files = replace(repository, keep=bundle.keep).load(config, day_of(SYSTEM_CLOCK) if today is None else today)
    job = ship_job(spark, bundle, DesiredJob(tuple(config.clusters) if clusters is None else tuple(clusters), files))
    return _desired(spark, job)


def _desired(spark: SparkSession, job: ShippedJob) -> DataFrame:
    clusters = len(job.names)
    return spark.range(0, clusters, 1, task_count(clusters)).mapInArrow(partial(_work, job), DESIRED)


def _work(job: ShippedJob, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow

    schema = arrow_schema(DESIRED)
    opened: DesiredJob = opened_job(job.bundle)
    for batch in batches:
        for place in batch.column(0).to_pylist():
            name = opened.names[place]
            rows = list(_rows(name, opened.files))
            for begin in range(0, len(rows), _ROWS_IN_BATCH):
                yield pyarrow.RecordBatch.from_pylist(rows[begin : begin + _ROWS_IN_BATCH], schema)
            opened.files.release(name)


def _rows(cluster: str, files: LoadedFiles) -> Iterator[dict[str, Any]]:
    declared, findings = files.check(cluster)
    for finding in findings:
        yield {"cluster": cluster, "problem": _problem(finding)}
    for entry in declared.values():
        yield from _entry_rows(cluster, entry)


def _entry_rows(cluster: str, entry: Entry) -> Iterator[dict[str, Any]]:
    row: dict[str, Any] = {
        "cluster": cluster,
        "entity_key": entry.entity.address,
        "entity": list(entry.entity.names.items()),
        "absent": entry.absent,
        "owner": entry.owner,
        "reason": entry.reason,
        "expires": entry.expires,
    }
    if entry.absent is not None:
        place = entry.location
        layer = None if entry.file is None else entry.file.layer
        where = None if place is None else {"file": place.file, "line": place.line, "column": place.column}
        yield {**row, "provenance": where and {**where, "layer": layer, "profile": None}}
        return
    provenances = entry.provenances()
    for key, value in entry.values.items():
        found = provenances.get(key)
        yield {
            **row,
            "key": key,
            "value": value,
            "provenance": found
            and {
                "file": found.location.file,
                "line": found.location.line,
                "column": found.location.column,
                "layer": found.layer,
                "profile": found.profile,
            },
        }


def _problem(finding: Finding) -> dict[str, Any]:
    place = finding.location
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "file": place and place.file,
        "line": place and place.line,
        "column": place and place.column,
    }
