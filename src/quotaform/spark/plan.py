"""Planning one cluster on Spark: the plan of `quotaform.app.plan`, byte for byte.

The files are parsed on the executors, the cluster is read there, and joins make the rows; what follows from the
rows (effects, order, findings) is made of them in the one place, `quotaform.core.plan.make_plan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quotaform.cluster.gateway import Progress, no_progress
from quotaform.spark.session import spark_session

if TYPE_CHECKING:
    from quotaform.app.plan import PlanRequest
    from quotaform.core.plan import Plan


def plan_cluster(request: PlanRequest, progress: Progress = no_progress) -> Plan:
    """Plan a cluster on Spark.

    Raises:
        EngineError: Spark is missing, does not start or failed.
        InvalidFilesError: Anything is wrong in the files; all problems at once.
        ClusterError: The cluster could not be read.
    """
    config = request.config
    layout = request.repository.layout(config)
    progress("Starting Spark", 0, 0)
    with spark_session() as spark:
        from quotaform.app.actual import read_actual
        from quotaform.app.plan import make_facts, make_header
        from quotaform.core.check.plan import with_findings
        from quotaform.core.plan import make_plan
        from quotaform.spark.change import changes, collect_changes
        from quotaform.spark.entry import entries, read_desired
        from quotaform.spark.reading import SparkReading

        progress("Reading files", 0, 0)
        desired = read_desired(spark, layout, request.cluster.name, config.profiles, config.scope)
        reading = SparkReading(spark, request.cluster)
        actual = read_actual(reading, desired, progress)
        progress("Comparing", 0, 0)
        rows = changes(entries(spark, desired, request.cluster.name), reading.quotas)
        plan = make_plan(
            collect_changes(rows),
            desired,
            actual,
            make_header(request, reading.cluster_id()),
            scope=request.config.scope,
            selection=request.selection,
        )
        return with_findings(plan, make_facts(request, desired, actual))
