"""The same use cases on Apache Spark; the only place that imports pyspark.

| module or package | content |
| --- | --- |
| `plan`, `apply`, `snapshot` | the use cases, each with the job that runs it on one cluster |
| `session` | where Spark runs, and how it is started |
| `job` | how work on clusters gets to executors, and how outcomes come back |
| `source`, `sink` | `format("kafka_quotas")` |
| `table` | tables that are given or made: principals, rows of plans |
| `resolve`, `radius`, `history` | what spans clusters or principals: functions of DataFrames |
| `schemas` | the columns of all tables |

Importing this package is cheap: pyspark is imported by the modules that need it, once `session.require_spark` has said
that it is there. Functions are DataFrame(s) -> DataFrame and end in a `select` of their schema in `schemas`.
"""
