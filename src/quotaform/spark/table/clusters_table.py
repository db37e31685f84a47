"""The clusters of a fleet that are in a table and not in quotaform.yaml: checked as its `clusters` are.

| column | content |
| --- | --- |
| name | the name of the cluster; required |
| bootstrap_servers | an array of HOST:PORT, or one text with commas |
| any other field of a cluster in quotaform.yaml | a text: `command_config`, `cluster_id`, `confirm`, `snapshot` |

Other columns are ignored, and so is a null. Paths are relative to quotaform.yaml. The rest of quotaform.yaml counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.core.check.finding_list import FindingList
from quotaform.desired.config import Cluster
from quotaform.desired.config_reader import read_cluster
from quotaform.errors import InvalidFilesError
from quotaform.model.entity import spell_name
from quotaform.model.text import inert, quote
from quotaform.spark.table.named_table import bad_table, read_table, require_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME: Final = "name"
_SERVERS: Final = "bootstrap_servers"
_TEXTS: Final = ("command_config", "cluster_id", "confirm", "snapshot")

MOST_CLUSTERS: Final = 100_000
"""How many clusters a table may have; they are in the driver's memory, about 1 kB each."""


def read_clusters_table(spark: SparkSession, name: str, folder: Path) -> dict[str, Cluster]:
    """Return the clusters of a table, sorted by name.

    Args:
        spark: The session.
        name: A path of Parquet files, or a table of the catalog.
        folder: The folder that paths are relative to.

    Raises:
        InvalidFilesError: It cannot be read, or a cluster is not valid; all problems at once.
    """
    table = read_table(spark, name)
    require_columns(name, table, [_NAME])
    columns = [column for column in (_NAME, _SERVERS, *_TEXTS) if column in table.columns]
    rows = _with_servers(table.select(*columns)).orderBy(_NAME).limit(MOST_CLUSTERS + 1).collect()
    if len(rows) > MOST_CLUSTERS:
        raise bad_table(name, f"has more than {MOST_CLUSTERS:,} clusters; give a part of it, such as a view")
    if not rows:
        raise bad_table(name, "has no clusters")
    clusters: dict[str, Cluster] = {}
    problems = FindingList()
    for row in rows:
        fields = {key: value for key, value in row.asDict().items() if value is not None}
        key = fields.pop(_NAME, None)
        if key is None or key in clusters:
            raise bad_table(name, "has a cluster without a name" if key is None else f"has {quote(key)} twice")
        cluster, found = read_cluster(key, fields, f"table {inert(name)}, cluster {spell_name(key)}", folder)
        problems.extend(found)
        if cluster is not None:
            clusters[key] = cluster
    if problems.errors:
        raise InvalidFilesError(problems.all())
    return clusters


def _with_servers(table: DataFrame) -> DataFrame:
    """Return clusters whose servers are arrays."""
    if dict(table.dtypes).get(_SERVERS) != "string":
        return table
    return table.withColumn(_SERVERS, f.transform(f.split(_SERVERS, ","), f.trim))
