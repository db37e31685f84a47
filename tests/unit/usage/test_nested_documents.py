"""Documents that are nested almost as deeply as Python reads them: it could read them, but not write them again."""

from __future__ import annotations

import pytest

from quotaform.core.usage.format import FORMATS
from quotaform.core.usage.sample.sample import Rejected

from .recorded import ORIGIN, TS

METRIC = '{"__name__": "kafka_server_Produce_byte_rate", "user": "a"}'
POINT = '{"asDouble": NESTED, "timeUnixNano": "1", "attributes": [{"key": "user", "value": {"stringValue": "a"}}]}'


@pytest.mark.parametrize("depth", [100, 900, *range(930, 1000, 5), 5000])
@pytest.mark.parametrize(
    ("name", "template"),
    [
        *((name, "NESTED") for name in ("prometheus", "otlp")),
        ("prometheus", f'[{{"metric": {METRIC}, "values": [[1700000000, NESTED]]}}]'),
        ("prometheus", f'[{{"metric": {METRIC}, "values": [[NESTED, 1]]}}]'),
        ("prometheus", '{"status": "error", "error": NESTED}'),
        ("otlp", '{"resourceMetrics": [NESTED]}'),
        (
            "otlp",
            '{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "kafka_server_Produce_byte_rate", '
            f'"gauge": {{"dataPoints": [{POINT}]}}}}]}}]}}]}}',
        ),
    ],
)
def test_a_document_that_is_nested_deeply_is_rejected(name: str, template: str, depth: int) -> None:
    document = template.replace("NESTED", "[" * depth + "]" * depth)
    items = list(FORMATS[name](document, ORIGIN, TS))
    assert items
    assert all(isinstance(item, Rejected) for item in items)
