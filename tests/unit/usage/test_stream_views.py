"""What a run of a stream has done, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from jsonschema import Draft7Validator

from quotaform.core.usage.sample.sample import DropReason
from quotaform.core.usage.stream import StreamCounts, Streamed
from quotaform.document.usage_ingest import dump_streamed
from quotaform.schema.catalog import load_schema
from quotaform.views.usage.stream_text import render_streamed

COUNTS: Final = StreamCounts(
    batches=3,
    records=1204,
    samples=2_408_000,
    written=1_300_000,
    dropped={DropReason.LATE: 4000, DropReason.NAN: 1_103_998},
    quarantined=2,
    late_records=2,
    duplicate_records=1,
)
RESULT: Final = Streamed(topic="usage", usage="/srv/usage", quarantine="/srv/bad", counts=COUNTS, behind=17)
NOTHING: Final = Streamed(topic="usage", usage="/srv/usage", quarantine="/srv/bad", counts=StreamCounts(), behind=None)


def test_the_text_ends_with_a_sum() -> None:
    assert render_streamed(RESULT) == (
        "Usage  /srv/usage   topic usage\n"
        "  Read        1,204 records in 3 batches, 17 not read yet\n"
        "  Duplicate   1 record that was read before\n"
        "  Dropped     1,103,998  not a number\n"
        "  Dropped     4,000  late\n"
        "  Quarantine  2 records, and 2 late records, in /srv/bad\n"
        "\n"
        "Samples: 2,408,000 read = 1,300,000 written + 1,107,998 dropped + 2 quarantined.\n"
    )


def test_a_run_that_found_nothing_says_so() -> None:
    assert render_streamed(NOTHING) == (
        "Usage  /srv/usage   topic usage\n"
        "  Read        0 records in 0 batches\n"
        "\n"
        "Samples: 0 read = 0 written + 0 dropped + 0 quarantined.\n"
    )


def test_the_json_is_what_its_schema_says() -> None:
    validator = Draft7Validator(load_schema("usage-stream"))
    for result in (RESULT, NOTHING):
        document = json.loads(dump_streamed(result))
        validator.validate(document)
        summary = document["summary"]
        assert summary["read"] == summary["written"] + summary["dropped"] + summary["quarantined"]
    assert document["quarantine"] is None


def test_names_of_others_print_inert() -> None:
    assert "\x1b" not in render_streamed(replace(RESULT, topic="a\x1b[2J", usage="b\x1b"))
