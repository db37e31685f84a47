"""`quotaform demo` without a broker: what it writes into files."""

from __future__ import annotations

from quotaform.cli.command.demo import edited
from quotaform.desired.format.formatter import format_source
from quotaform.desired.tree import SourceFile
from quotaform.desired.writer import render_quotas_yaml
from quotaform.model.entity import Entity
from tests.builder import CONSUMER, PRODUCER

MIB = 1048576.0


def test_the_demo_edits_a_file_as_fmt_leaves_it() -> None:
    # It appended an entry without the empty line between entries, so `fmt --check` of its own file failed.
    imported = render_quotas_yaml(
        {
            Entity(user=None): {PRODUCER: 5 * MIB, CONSUMER: 10 * MIB},
            Entity(user="svc-orders"): {PRODUCER: 10 * MIB, CONSUMER: 20 * MIB},
        }
    )

    text = edited(imported)

    assert "producer_byte_rate: 20MiB/s" in text
    assert format_source(SourceFile("quotas.d/imported.yaml", text.encode())).after == text
