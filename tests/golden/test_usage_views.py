"""Views of what is measured, as text, Markdown and JSON; and what is drawn of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace as changed

from quotaform.model.records.validator import gate
from quotaform.plan.backtest import backtest_section
from quotaform.report.format import FORMATS, render, schema_builder
from quotaform.report.text import section_lines
from quotaform.usage.top import render_top
from tests.golden import usage_example as example
from tests.golden.conftest import Golden

SUFFIXES = {"text": "txt", "json": "json", "markdown": "md"}
VIEWS: dict[str, tuple[str, Any]] = {
    "headroom": ("usage-headroom", example.HEADROOM),
    "headroom-far": ("usage-headroom", example.FAR),
    "headroom-nothing": ("usage-headroom", example.NO_HEADROOM),
    "backtest": ("usage-backtest", example.BACKTEST),
    "recommend": ("usage-recommend", example.RECOMMENDED),
    "recommend-several": ("usage-recommend", example.SEVERAL),
    "recommend-untested": ("usage-recommend", example.UNTESTED),
    "stream": ("usage-stream", example.STREAMED),
    "stream-nothing": ("usage-stream", example.NOT_STREAMED),
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_measured_in_every_format(name: str, golden: Golden) -> None:
    subject, value = VIEWS[name]
    for kind in FORMATS[subject]:
        if kind in SUFFIXES:
            text = "".join(render(subject, kind, value))
            golden(f"usage-view-{name}.{SUFFIXES[kind]}", text)
            assert "\x1b" not in text
            if kind == "json":
                assert gate(schema_builder(subject)).refusals(json.loads(text)) == []


def test_a_backtest_in_a_plan(golden: Golden) -> None:
    clusters = example.BACKTEST.clusters
    sections = [section for each in clusters for section in backtest_section(each)]
    golden("usage-view-plan.txt", "".join(f"{line}\n" for each in sections for line in section_lines(each)))
    buckets = clusters[0].changed
    affected = changed(clusters[0], changed=changed(buckets, affected=len(buckets.rows)))
    assert not [section for section in backtest_section(affected) if section.table.more]


def test_who_is_throttled(golden: Golden) -> None:
    hostile = example.row(2000.0, 9.0, user="a\x1b[2J\n::error::x", broker="\x1b]0;x")
    views = {
        "all of it": render_top(example.top(*example.ROWS, unread=True)),
        "all buckets": render_top(example.top(*example.ROWS), shows_all=True),
        "a limit that is none": render_top(
            example.top(example.row(4000.0, user="bob", key="request_percentage")), shows_all=True
        ),
        "one bucket": render_top(example.top(*example.ROWS), limit=1),
        "a narrow terminal": render_top(example.top(*example.ROWS), width=60, height=9),
        "nothing measured": render_top(example.top()),
        "nobody close": render_top(example.top(example.row(1.0, user="a"))),
        # With a cluster that could not be read, all buckets were said to be below their limits.
        "no quotas": render_top(example.top(example.row(1.0, user="a"), quotas=None)),
        "throttled without quotas": render_top(example.top(example.row(1200.0, 900.0, user="alice"), quotas=None)),
        "a quota that was removed": render_top(example.top(example.row(1200.0, 900.0, user="x"), quotas={})),
        # That nobody could be measured is no zero.
        "nothing read": render_top(example.top(unread=True)),
        "hostile names": render_top(example.top(hostile, unread=True)),
    }
    assert all(line.isprintable() for text in views.values() for line in text.splitlines())
    golden("usage-view-top.txt", "\n".join(f"=== {name}\n{text}" for name, text in views.items()))
