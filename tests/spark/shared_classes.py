"""The classes that Spark loads as its Java processes map them (JEP 350): they start in half the processor time.

`make test` writes the archive; a Java process to which it does not fit goes on without it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import spark_session

_ARCHIVE: Final = Path(sys.prefix) / ".quotaform-spark.jsa"
# Without the second compiler, Java keeps 48 MB for compiled code, which the queries of all tests fill.
_SMALL: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:-UsePerfData -Xlog:disable"
JAVA_OPTIONS: Final = f"{_SMALL} -XX:SharedArchiveFile={_ARCHIVE}" if _ARCHIVE.exists() else _SMALL
"""For a Java process of seconds."""
CONF: Final = {"spark.driver.extraJavaOptions": JAVA_OPTIONS}
"""The same, as the setting of a session."""


def main(archive: Path) -> None:
    """Let a session do what most tests do, and write the classes that it has loaded."""
    made = archive.with_suffix(".new")
    options = SessionOptions(conf={"spark.driver.extraJavaOptions": f"{_SMALL} -XX:ArchiveClassesAtExit={made}"})
    with spark_session(options) as spark, TemporaryDirectory() as folder:
        from pyspark import SparkContext

        rows = spark.range(100).selectExpr("id % 7 AS k", "id AS v", "timestamp_seconds(id) AS at", "string(id) AS t")
        rows.write.parquet(f"{folder}/rows")
        read = spark.read.parquet(f"{folder}/rows")
        counted = read.groupBy("k").agg({"v": "sum", "t": "max"})
        counted.join(read, "k").selectExpr("*", "row_number() OVER (PARTITION BY k ORDER BY at) AS n").collect()
        read.mapInArrow(lambda batches: batches, read.schema).toArrow()
        java: Any = SparkContext._gateway
    # It ends when its input does, and writes the archive then.
    java.proc.stdin.close()
    java.proc.wait()
    made.replace(archive)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
