"""How files look when they are formatted, and which ones stay as they are."""

from __future__ import annotations

import pytest

from quotaform.desired.format import format_source, respell
from quotaform.desired.tree import SourceFile
from quotaform.model.finding import Severity
from quotaform.report.text import Style, render_format_diff


def formatted(text: str | bytes) -> str:
    file = format_source(SourceFile("quotas.d/a.yaml", text))
    assert file.problems == ()
    again = format_source(SourceFile("quotas.d/a.yaml", file.after))
    assert again.after == file.after
    return file.after


def entry(*lines: str) -> str:
    """A file whose only entry has these lines."""
    return "quotas:\n" + "".join(f"{'  - ' if place == 0 else '    '}{line}\n" for place, line in enumerate(lines))


def test_everything_has_its_place() -> None:
    before = """\

# team orders
# yaml-language-server: $schema=../schemas/quotas.schema.json


quotas:    # all of them
# the first one
- owner: 'team a'   # who
  # how much
  values:
     consumer_byte_rate:   50 MB/s
     producer_byte_rate: 20MiB/s # checkout
     # request_percentage: 5%
  match:
      user: CN=a,OU=b
  # that is all


- {match: {user: [svc-a, svc-b], client-id: <default>}, state: absent}
-   reason: |
      two
        lines

    match: {
      client-id: "007",  # not James
    }
    profile: gold



# the end
"""
    assert (
        formatted(before)
        == """\
# yaml-language-server: $schema=../schemas/quotas.schema.json

# team orders

quotas:  # all of them
  # the first one
  - match: {user: "CN=a,OU=b"}
    # how much
    values:
      producer_byte_rate: 20MiB/s  # checkout
      consumer_byte_rate: 50MB/s
      # request_percentage: 5%
    owner: 'team a'  # who
    # that is all

  - match: {user: [svc-a, svc-b], client-id: <default>}
    state: absent

  - match:
      client-id: "007"  # not James
    profile: gold
    reason: |
      two
        lines

# the end
"""
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("# nothing\n\n", "# nothing\n"),
        ("quotas: [ ]", "quotas: []\n"),
        ("# none\n[ ] # yet", "# none\n# yet\n[]\n"),
        ("quotas: [ # none\n]", "quotas: []  # none\n"),
        ("---\nquotas: []\n...\n# end\n", "---\nquotas: []\n# end\n"),
        ("%YAML 1.1\n---\nquotas: []\n", "%YAML 1.1\n---\nquotas: []\n"),
        (
            '{"quotas": [{"match": {"user": "a"}, "state": "absent"}]}',
            '"quotas":\n  - "match": {"user": "a"}\n    "state": "absent"\n',
        ),
        (
            "quotas:\n- &a\n  match: {user: a}\n  state: absent\n",
            "quotas:\n  - &a\n    match: {user: a}\n    state: absent\n",
        ),
        ("? quotas\n# none yet\n: []\n", "# none yet\nquotas: []\n"),
        (" quotas: []\n\n# end\n", "quotas: []\n\n# end\n"),
        # a text that looks like something else in braces gets quotes there
        (entry("match:", "  user: a, b"), entry('match: {user: "a, b"}')),
        (entry("match:", "  user: a#b"), entry('match: {user: "a#b"}')),
        (entry("match:", "  user: x y"), entry("match: {user: x y}")),
        (entry("match:", "  user: 'a, b'"), entry("match: {user: 'a, b'}")),
        # too long for one line
        (
            entry(f"match: {{user: [{'a' * 50}, {'b' * 50}]}}"),
            entry("match:", "  user:", f"    - {'a' * 50}", f"    - {'b' * 50}"),
        ),
        # the order of keys
        (
            entry("reason: r", "expires: 2026-12-31", "unset: [a]", "new: 1", "match: {user: a}", "<<: {owner: o}"),
            entry("<<: {owner: o}", "match: {user: a}", "unset: [a]", "expires: 2026-12-31", "reason: r", "new: 1"),
        ),
        (
            entry("values:", "  consumer_byte_rate: 1", "", "  # c", "  producer_byte_rate: 1"),
            entry("values:", "  # c", "  producer_byte_rate: 1", "  consumer_byte_rate: 1"),
        ),
        # an alias stays behind its anchor
        (
            entry("owner: &o a", "match: {user: *o}"),
            entry("owner: &o a", "match: {user: *o}"),
        ),
        (
            entry("values: &v {consumer_byte_rate: 1}", "match: {user: a}"),
            entry("match: {user: a}", "values: &v {consumer_byte_rate: 1}"),
        ),
        # an anchored value may be something else elsewhere
        (
            entry("values: {producer_byte_rate: &n 1048576}", "reason: *n"),
            entry("values: {producer_byte_rate: &n 1048576}", "reason: *n"),
        ),
        # texts of several lines
        (entry("owner: one", "    two"), entry("owner: one two")),
        (entry('owner: "one \\', '      \\ two"'), entry('owner: "one  two"')),
        (entry("owner: |2-", "      one"), entry("owner: |2-", "      one")),
        (entry("owner: |+", "   one", "", "")[:-5], entry('owner: "one\\n\\n"')),
        (
            entry("owner: >  # folded", "   one", "    two"),
            "quotas:\n  # folded\n  - owner: >\n      one\n       two\n",
        ),
        (entry("owner: |", "   one").rstrip("\n"), entry("owner: |-", "  one")),
        # comments that cannot stay where they are
        (
            entry("owner: # why", "  a # who"),
            "quotas:\n  # why\n  # who\n  - owner: a\n",
        ),
        ("quotas:\n  - # first\n    state: absent\n", "quotas:\n  # first\n  - state: absent\n"),
        (entry("state: absent # one", "              # two"), "quotas:\n  # one\n  # two\n  - state: absent\n"),
        # quotaform.yaml
        (
            "profiles:\n  gold: {consumer_byte_rate: 1024KiB/s, producer_byte_rate: 5 MB/s}\n\n\n\nclusters:\n    a:\n"
            "     bootstrap_servers: [ a:1 ]\n",
            "profiles:\n  gold: {producer_byte_rate: 5MB/s, consumer_byte_rate: 1MiB/s}\n\nclusters:\n  a:\n"
            "    bootstrap_servers: [a:1]\n",
        ),
        ("- {rule: protect}\n-   address: a\n", "- {rule: protect}\n- address: a\n"),
    ],
)
def test_a_file_is_brought_into_one_style(before: str, after: str) -> None:
    assert formatted(before) == after


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("producer_byte_rate", "1048576", "1MiB/s"),
        ("producer_byte_rate", "1500", "1500"),
        ("producer_byte_rate", "1000", "1000"),  # perhaps KB: a lint warns of it
        ("producer_byte_rate", "2000", "2kB/s"),
        ("producer_byte_rate", "20", "20"),
        ("producer_byte_rate", "1536B/s", "1536B/s"),
        ("producer_byte_rate", "20MB/s", "20MB/s"),
        ("producer_byte_rate", "1024 MiB/s", "1GiB/s"),
        ("producer_byte_rate", "1000KB/s", "1MB/s"),
        ("producer_byte_rate", "5KB/s", "5kB/s"),
        ("producer_byte_rate", "1.50MiB/s", "1.5MiB/s"),
        ("producer_byte_rate", "2.0MiB/s", "2MiB/s"),
        ("producer_byte_rate", "1e6", "1MB/s"),
        ("producer_byte_rate", "9223372036854775808", "unlimited"),
        ("producer_byte_rate", "1.0000001MiB/s", "1.0000001MiB/s"),
        ("request_percentage", "150", "150%"),
        ("request_percentage", "12.50 %", "12.5%"),
        ("controller_mutation_rate", "5", "5/s"),
        ("connection_creation_rate", "2147483647", "unlimited"),
        ("connection_creation_rate", "many", "many"),
        ("future_rate", "5 MB/s", "5 MB/s"),
    ],
)
def test_a_value_is_spelled_in_its_own_family_of_units(key: str, before: str, after: str) -> None:
    assert respell(key, before) == after


def test_line_ends_stay_and_a_byte_order_mark_goes() -> None:
    assert formatted(b"\xef\xbb\xbfquotas:   []\r\n# a\r\n") == "quotas: []\r\n# a\r\n"
    assert format_source(SourceFile("a.yaml", b"\xef\xbb\xbfquotas: []\n")).is_changed
    assert not format_source(SourceFile("a.yaml", b"quotas: []\r\n")).is_changed


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("quotas: [}\n", "quotas.d/a.yaml:1:10: error: not valid YAML: "),
        ("quotas: []\nquotas: []\n", 'quotas.d/a.yaml:2:1: error: the key "quotas" is written twice'),
        ("quotas: !x []\n", 'quotas.d/a.yaml:1:9: error: the tag "!x" is not supported; remove it'),
        ("quotas: []\n---\nquotas: []\n", "quotas.d/a.yaml:2:1: error: a second YAML document begins here"),
        ("quotas: *a\n", "quotas.d/a.yaml:1:9: error: the alias *a has no anchor &a before it"),
        ("quotas: &a [*a]\n", "quotas.d/a.yaml:1:13: error: the alias *a is part of the value"),
        ("? [a]\n: b\n", "quotas.d/a.yaml:1:3: error: a key must be text"),
        (b"quotas: [\xff]", "quotas.d/a.yaml:1: error: byte 10 is not UTF-8"),
        ("[" * 200 + "]" * 200, "nested more than 100 levels deep"),
        ("? \n: a\n", "quotas.d/a.yaml: error: this file cannot be formatted without changing what it declares"),
    ],
)
def test_a_file_that_cannot_be_rewritten_stays_as_it_is_and_says_why(text: str | bytes, problem: str) -> None:
    file = format_source(SourceFile("quotas.d/a.yaml", text))
    assert not file.is_changed
    assert problem in str(file.problems[0])
    assert all(found.severity is Severity.ERROR for found in file.problems)


def test_an_entry_that_is_wrong_is_formatted_all_the_same() -> None:
    assert formatted("quotas:\n- values: {producer_byte_rate: lots,  nonsense: 1}\n") == (
        "quotas:\n  - values: {producer_byte_rate: lots, nonsense: 1}\n"
    )


def test_a_diff_of_an_absolute_path_can_be_applied() -> None:
    """It began with `a//`."""
    file = format_source(SourceFile("/repo/quotas.d/a.yaml", "quotas:   []\n"))
    assert list(render_format_diff(file))[:2] == ["--- a/repo/quotas.d/a.yaml\n", "+++ b/repo/quotas.d/a.yaml\n"]


def test_a_diff_shows_what_changes_and_lets_nothing_through() -> None:
    file = format_source(SourceFile("a\x1b.yaml", "quotas:   [] # \u202e::error::x"))
    assert list(render_format_diff(file, Style(is_coloured=False))) == [
        "--- a/a\\u001b.yaml\n",
        "+++ b/a\\u001b.yaml\n",
        "@@ -1 +1 @@\n",
        "-quotas:   [] # \\u202e::error::x\n",
        "\\ No newline at end of file\n",
        "+quotas: []  # \\u202e::error::x\n",
    ]
