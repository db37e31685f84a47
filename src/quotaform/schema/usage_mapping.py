"""The schema of the file that says what the columns of a table with usage are."""

from __future__ import annotations

from quotaform.core.usage.format.table_mapping import COLUMN_FIELDS, CONSTANT_FIELDS, FACTOR_FIELDS, TimeUnit
from quotaform.schema.node import Node, boolean, choice, closed, mapping, text


def usage_mapping() -> tuple[Node, dict[str, Node]]:
    """Return the schema and its definitions."""
    fields = {
        "columns": closed(
            "The column of each field. Rows of metrics have ts, metric, value and labels; rows of buckets have ts, "
            "key, rate or throttle_ms, and user, client_id or ip.",
            {name: text(_COLUMNS[name], minLength=1) for name in COLUMN_FIELDS},
            required=["ts"],
        ),
        "constants": closed(
            "Fields that are the same in all rows.",
            {name: text(f"In all rows: {_COLUMNS[name]}", minLength=1) for name in CONSTANT_FIELDS},
        ),
        "labels": mapping(
            "Rows of metrics: the column of each label that has one.", {"type": "string", "minLength": 1}, {"user": "u"}
        ),
        "factors": closed(
            "By what numbers are multiplied to be in bytes per second, percent of one thread, events per second, "
            "milliseconds (throttle_ms) or seconds (window_s).",
            {
                name: {"description": f"By what {name} is multiplied.", "type": "number", "exclusiveMinimum": 0}
                for name in FACTOR_FIELDS
            },
        ),
        "time_unit": choice("What a number in the column of ts counts since 1970; by its size if omitted.", TimeUnit),
        "sanitized_users": boolean(
            "Rows of buckets: whether users are percent-encoded, as metrics of Kafka have them."
        ),
    }
    schema = closed("What the columns of a table with usage are: the file for --mapping.", fields, required=["columns"])
    return schema, {}


_COLUMNS = {
    "ts": "The time.",
    "cluster": "The name of the cluster.",
    "broker": "The broker.",
    "metric": "The name of the metric.",
    "value": "The value of the metric.",
    "labels": "All labels of the metric: a map, pairs, or JSON.",
    "key": "The quota key, or the type of the quota: Produce, Fetch, Request, ControllerMutation.",
    "rate": "The rate.",
    "throttle_ms": "The average delay of throttled requests.",
    "window_s": "How many seconds up to the time the rate covers.",
    "user": "The user.",
    "client_id": "The client-id.",
    "ip": "The address.",
    "instance": "Which of several clients with these names measured itself, in rows without a broker.",
}
