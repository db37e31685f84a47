"""Reads the files on the executors and assembles the entries on the driver."""

from __future__ import annotations

from pickle import dumps, loads
from typing import TYPE_CHECKING

import pyarrow

from quotaform.desired.loader import LoadedFile, LoadedFiles, load_file
from quotaform.desired.tree import SourceFile
from quotaform.spark.schemas import ENTRIES, FILES, SOURCES, arrow_schema, make_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from quotaform.desired.config import Config
    from quotaform.desired.declaration import Profiles
    from quotaform.desired.tree import Layout
    from quotaform.model.entry import Desired
    from quotaform.model.finding import Finding


def read_desired(
    spark: SparkSession, layout: Layout, cluster: str, config: Config, today: date, others: Sequence[Finding] = ()
) -> Desired:
    """Read and check what files say about a cluster, file by file on the executors.

    Args:
        spark: The session.
        layout: The files by layer.
        cluster: The name of the cluster.
        config: The content of quotaform.yaml.
        today: The day (UTC) on which entries may have expired.
        others: What is wrong with other files of the repository.

    Raises:
        InvalidFilesError: There are problems in the files; it contains all of them.
    """
    sources = layout.sources(cluster)
    rows = loaded_files(source_files(spark, sources), config.profiles).orderBy("position").toArrow()
    # Pickled by `loaded_files` in this application.
    files: list[LoadedFile] = [loads(content) for content in rows.column("loaded").to_pylist()]  # noqa: S301
    by_name = {file.name: file for file in files}
    return LoadedFiles(layout, lambda source: by_name[source.name], today, config.scope).desired(cluster, others)


def source_files(spark: SparkSession, sources: Sequence[SourceFile]) -> DataFrame:
    """Return `schemas.SOURCES` of files that were read."""
    return make_table(
        spark,
        SOURCES,
        [
            range(len(sources)),
            [source.name for source in sources],
            [source.layer for source in sources],
            [source.text.encode() if isinstance(source.text, str) else source.text for source in sources],
        ],
    )


def loaded_files(sources: DataFrame, profiles: Profiles) -> DataFrame:
    """Return `schemas.FILES`: what each file says, by the same function as everywhere.

    Args:
        sources: `schemas.SOURCES`.
        profiles: The profiles of quotaform.yaml.
    """
    known = {name: dict(values) for name, values in profiles.items()}

    def load(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            contents = [
                dumps(load_file(SourceFile(row["name"], row["text"], row["layer"]), known)) for row in batch.to_pylist()
            ]
            yield pyarrow.record_batch([batch.column("position"), contents], schema=arrow_schema(FILES))

    return sources.mapInArrow(load, FILES).select(*FILES.names)


def entries(spark: SparkSession, desired: Desired, cluster: str) -> DataFrame:
    """Return `schemas.ENTRIES` of a cluster."""
    return make_table(
        spark,
        ENTRIES,
        [
            [cluster] * len(desired),
            [entity.address for entity in desired],
            [list(entity.parts) for entity in desired],
            [list(entry.values.items()) for entry in desired.values()],
        ],
    )
