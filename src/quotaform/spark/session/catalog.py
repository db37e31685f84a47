"""The catalog of a session: whether it may have tables, and the directory in which they are.

The catalog of a session that nobody has configured is in memory and has no tables. Spark makes the directory
`spark-warehouse` for them in the working directory nevertheless, as soon as a query is analysed, and fails where it
cannot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from quotaform.spark.session.options import SessionOptions

if TYPE_CHECKING:
    from pyspark import SparkContext

_SETTING: Final = "spark.sql.warehouse.dir"
_CATALOG: Final = "spark.sql.catalogImplementation"
_IN_MEMORY: Final = "in-memory"
_SETTINGS: Final = ("spark.sql.", "spark.hadoop.", "spark.driver.extra")
"""How the names of settings begin by which a catalog may be configured."""
_VARIABLES: Final = (
    *("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
    *("HADOOP_CONF_DIR", "YARN_CONF_DIR"),
)
"""Variables from which Spark may take settings."""


def may_have_tables(options: SessionOptions) -> bool:
    """Whether the catalog of a session that is to be started may have tables: only where somebody has configured it."""
    if any(name.startswith(_SETTINGS) for name in options.conf) or any(map(os.environ.get, _VARIABLES)):
        return True
    pyspark = find_spec("pyspark")
    # Of the Spark that is started, which is the installed package.
    return pyspark is None or pyspark.origin is None or Path(pyspark.origin).with_name("conf").exists()


@contextmanager
def temporary_warehouse() -> Iterator[Path]:
    """Yield the path of a directory for tables, which Spark makes when it is needed; removed at the end if empty."""
    path = Path(gettempdir()) / f"quotaform-warehouse-{uuid4().hex}"
    try:
        yield path
    finally:
        # There is none where no query was analysed, and what somebody saved in it is not deleted.
        with suppress(OSError):
            path.rmdir()


def warehouse_options(context: SparkContext, path: Path) -> dict[str, str]:
    """Return the setting by which the tables of a session are in a directory, if the session may be given one.

    A directory that somebody has chosen, by an option or in spark-defaults.conf, stays; and the tables of a Hive
    metastore outlast the session, so that they stay where Spark puts them.

    Args:
        context: That of the session, which is not made yet: the setting is read once.
    """
    settings = context.getConf()
    if settings.contains(_SETTING) or settings.get(_CATALOG, _IN_MEMORY) != _IN_MEMORY:
        return {}
    # With a scheme: the default file system may be another one.
    return {_SETTING: path.as_uri()}
