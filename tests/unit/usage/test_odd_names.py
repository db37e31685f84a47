"""Odd client-ids, as a real broker's metrics have them: Kafka 4.3.1 by jmx_exporter 1.0.1 and JmxTool.

The rules of the exporter were those of the sandbox, of kafka-2_0_0.yml, with the type in the name, and none at all.
"""

from __future__ import annotations

import pytest

from quotaform.core.usage.format import FORMATS
from quotaform.core.usage.sample.sample import Dropped, DropReason, Sample

from .recorded import DATA, ORIGIN, TS, reasons, samples

CLIENT_IDS = {
    *("x", "a:b", "a,b", 'q "x"', "*", "%2A", "<default>", "a=b", "back\\slash", "ü", "new\nline", ", client-id=z"),
    *("a, user=b", "tab\there", " lead", "{x}", "'", "?"),
}


@pytest.mark.parametrize(
    ("name", "has_user_alone"),
    [
        ("odd-names-labels.txt", True),
        ("odd-names-resource.txt", False),
        ("odd-names-type-in-name.txt", True),
        ("odd-names-no-rules.txt", True),
        ("odd-names.csv", True),
    ],
)
def test_all_client_ids_are_told_apart(name: str, has_user_alone: bool) -> None:
    """An empty client-id is none: the bucket is that of the user, for which kafka-2_0_0.yml has no rule."""
    format_name = {"txt": "exposition", "csv": "jmxtool"}[name.rpartition(".")[2]]
    items = list(FORMATS[format_name]((DATA / name).read_bytes(), ORIGIN, TS))
    expected = {*CLIENT_IDS, None} if has_user_alone else CLIENT_IDS
    assert {item.series.client_id for item in samples(items)} == expected
    assert {item.series.user for item in samples(items)} == {"tenant"}
    assert len(samples(items)) == len(expected)
    others = [item for item in items if not isinstance(item, Sample)]
    assert all(isinstance(item, Dropped) and item.reason is DropReason.NAN for item in others)


def test_names_within_the_name_of_a_metric_are_read_only_where_the_exporter_adds_the_mbean() -> None:
    items = list(FORMATS["exposition"]((DATA / "odd-names-swallowed.txt").read_bytes(), ORIGIN, TS))
    read = {item.series.client_id for item in samples(items)}
    assert read
    assert read < CLIENT_IDS
    assert len(read) + len(reasons(items)) == len(CLIENT_IDS) + 1
    assert all("put rules that keep labels before the catch-all rule" in reason for reason in reasons(items))
