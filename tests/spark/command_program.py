"""A program that runs commands one after the other: in one session, as a notebook does, or each in its own.

Each line of stdin is a JSON object, and so is each line of stdout, its answer. The first line of stdout says that the
session has started.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pyarrow
from pyspark.sql import functions

from quotaform.fleet.job import Bundle, ShippedJob, ship_job
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import is_connect, spark_session
from quotaform.model.errors import QuotaformError
from tests.workflow.command import Result, call, run


def main() -> None:
    """Answer until stdin ends."""
    # What commands print goes elsewhere.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    options = json.loads(sys.argv[1])
    with ExitStack() as stack:
        if options is not None:
            stack.enter_context(spark_session(SessionOptions(**options)))
        print(json.dumps("started"), file=output, flush=True)
        for line in sys.stdin:
            print(json.dumps(asdict(done(json.loads(line)))), file=output, flush=True)


def done(request: dict[str, Any]) -> Result:
    """Do what a line says."""
    if "session" in request:
        return call(lambda _: _ask(SessionOptions(**request["session"])), env=request["env"])
    return run(*request["arguments"], cwd=Path(request["cwd"]), env=request["env"])


def _ask(options: SessionOptions) -> int:
    try:
        print(json.dumps(answer(options)))
    except QuotaformError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


def answer(options: SessionOptions) -> dict[str, Any]:
    """Run queries in a session, and return what they found."""
    with TemporaryDirectory() as folder, spark_session(options) as spark:
        job = shipped(spark, folder)
        rows = spark.range(0, 2, 1, 2).mapInArrow(reading(job), "path string, text string").collect()
        found = {
            "is_connect": is_connect(spark),
            "master": spark.conf.get("spark.master"),
            "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
            "sum": spark.range(5).agg(functions.sum(functions.col("id") * 2)).collect()[0][0],
            "texts": sorted({row.text for row in rows}),
            "is_copied": job.path not in {row.path for row in rows},
        }
        # No task fetches this one while it is there: those of the next command do.
        shipped(spark, folder)
        return found


def shipped(spark: Any, folder: str) -> ShippedJob:
    """Ship a job of a name that no other has, whose work is to be read."""
    work: Any = "seen"
    return ship_job(spark, Bundle(Path(folder) / f"shipped-{uuid4().hex}.zip", is_new=True), work, ())


def reading(job: ShippedJob) -> Any:
    """Return what reads a shipped job in each task."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            path = job.here()
            row = {"path": str(path), "text": Bundle(path).job()[0]}
            yield pyarrow.RecordBatch.from_pylist([row])

    return read


if __name__ == "__main__":
    main()
