"""The same use cases on Apache Spark; the only place that imports pyspark.

Importing this package is cheap: pyspark is imported by the modules that need it, once `require_spark` has said
that it is there. Functions are DataFrame(s) -> DataFrame and end in a `select` of their schema in `schemas`.
"""
