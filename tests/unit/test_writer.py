"""Quotas as a file that people would write; what it looks like is in tests/golden/texts-written.txt."""

from __future__ import annotations

import pytest

from quotaform.cli.command.demo import session_steps
from quotaform.desired.format import format_source
from quotaform.desired.tree import SourceFile
from quotaform.desired.writable import check_writable
from quotaform.desired.writer import spell_scalar
from quotaform.model.entity import Entity

RATE = {"producer_byte_rate": 1024.0}


@pytest.mark.parametrize("name", ["a" * 32_768, "å" * 16_384])
def test_a_name_that_cannot_be_sent_is_left_out(name: str) -> None:
    (finding,) = check_writable(Entity(user=name), RATE)
    assert finding.rule == "bad-name"


def test_a_name_is_spelled_the_same_whoever_was_read_before() -> None:
    # Regression: the name was compared by identity with a cached reading of an equal text.
    first, second = ("".join(["10.0.", end]) for end in ("0.9", "0.9"))
    assert spell_scalar(first) == spell_scalar(second) == "10.0.0.9"


def test_the_demo_edits_a_file_as_fmt_leaves_it() -> None:
    # It appended an entry without the empty line between entries, so `fmt --check` of its own file failed.
    (text,) = (content for line, content in session_steps("workflow", {}) if "$EDITOR" in line)
    assert format_source(SourceFile("quotas.d/imported.yaml", text.encode())).after == text
