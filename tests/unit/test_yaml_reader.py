"""YAML: what is read, what is bounded, where things are, and how files are written and formatted.

How they look is in `texts-written.txt` and `texts-formatted.txt`.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml

from quotaform.cli.command.sandbox import session_steps
from quotaform.desired.format import format_source
from quotaform.desired.tree import SourceFile
from quotaform.desired.writer import check_writable, spell_scalar
from quotaform.desired.yaml.reader import MAX_DEPTH, read_document
from quotaform.model.entity import Entity
from quotaform.report.text import render_diff


def said(text: str) -> list[str]:
    return [str(problem) for problem in read_document(SourceFile("f.yaml", text)).findings.all()]


def test_values_are_those_of_pyyaml_for_a_file_that_both_read_alike() -> None:
    text = 'a: &x [1, b, {c: "d", e: [~, true]}]\nf: *x\ng: {<<: {h: 1, i: 2}, i: 3}\n"j k": |\n  l\n  m\n'
    assert read_document(SourceFile("f.yaml", text)).root == yaml.safe_load(text)


def test_a_place_is_known_for_every_key_and_value() -> None:
    document = read_document(SourceFile("f.yaml", "# é\na:\n  - b: {c: 007}\n  - [d]\n"))
    place = document.locate(("a", 0, "b", "c"))
    assert (str(place.key), str(place.value), place.text) == ("f.yaml:3:9", "f.yaml:3:12", "007")
    assert str(document.locate(("a", 1, 0)).value) == "f.yaml:4:6"
    assert str(document.locate(()).value) == "f.yaml:1:1"


def test_columns_count_characters_and_not_bytes() -> None:
    document = read_document(SourceFile("f.yaml", '{"😀é": a}'))
    assert str(document.locate(("😀é",)).value) == "f.yaml:1:8"


def test_a_wide_file_of_aliases_is_no_bomb() -> None:
    text = "a: &a {b: 1, c: 2}\nd:\n" + "  - *a\n" * 50_000
    root: Any = read_document(SourceFile("f.yaml", text)).root
    assert len(root["d"]) == 50_000


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)),
        "a: &a {" + ", ".join(f"k{n}: 1" for n in range(1000)) + "}\nb:\n" + "  - <<: *a\n" * 5000,
    ],
    ids=["ten to the thirty", "merge keys"],
)
def test_a_billion_laughs_are_one_problem_at_once(text: str) -> None:
    begin = time.process_time()
    (problem,) = said(text)
    assert "[alias-bomb]" in problem
    assert time.process_time() - begin < 20


def test_aliases_do_not_hide_depth() -> None:
    lines = ["a0: &a0 []"]
    lines += [f"a{n}: &a{n} {'[' * 20}*a{n - 1}{']' * 20}" for n in range(1, 6)]
    (problem,) = said("\n".join(lines))
    assert problem == f"f.yaml:6:29: error: this is nested more than {MAX_DEPTH} levels deep [too-deep]"


def test_a_diff_of_an_absolute_path_can_be_applied() -> None:
    """It began with `a//`."""
    file = format_source(SourceFile("/repo/quotas.d/a.yaml", "quotas:   []\n"))
    assert list(render_diff(file.name, file.before, file.after))[:2] == [
        "--- a/repo/quotas.d/a.yaml\n",
        "+++ b/repo/quotas.d/a.yaml\n",
    ]


def test_a_diff_shows_what_changes_and_lets_nothing_through() -> None:
    file = format_source(SourceFile("a\x1b.yaml", "quotas:   [] # \u202e::error::x"))
    assert list(render_diff(file.name, file.before, file.after)) == [
        "--- a/a\\u001b.yaml\n",
        "+++ b/a\\u001b.yaml\n",
        "@@ -1 +1 @@\n",
        "-quotas:   [] # \\u202e::error::x\n",
        "\\ No newline at end of file\n",
        "+quotas: []  # \\u202e::error::x\n",
    ]


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
