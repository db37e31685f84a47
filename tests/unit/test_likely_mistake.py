"""Mistakes that many people make: each is one problem that names the cause and says what to write."""

from __future__ import annotations

from datetime import date

import pytest

from quotaform.desired.tree import SourceFile
from tests.loading import check

TODAY = date(2026, 6, 1)


def said(text: str) -> list[str]:
    return [str(finding) for finding in check([SourceFile("f.yaml", text)], {}, TODAY)[1]]


def of_match(match: str) -> str:
    return f"quotas:\n  - match: {match}\n    values: {{producer_byte_rate: 1}}\n"


@pytest.mark.parametrize(
    ("match", "remedy"),
    [
        ("{user: CN=a,OU=b}", '"OU=b" is not an entity type; quote the name: {user: "CN=a,OU=b"}'),
        ('{user: "CN=a,OU=b"}', None),
        ("{user: CN=a, OU=b}", '"OU=b" is not an entity type; quote the name: {user: "CN=a,OU=b"}'),
        ("{user: CN=a, OU=b, O=c, C=DE}", 'quote the name: {user: "CN=a,OU=b,O=c,C=DE"}'),
        ("{client-id: x, user: CN=a, OU=b}", 'quote the name: {user: "CN=a,OU=b"}'),
        ("{user: a, b}", 'quote the name: {user: "a,b"}, or write a list of names: {user: [a, b]}'),
        ("{user:alice}", 'unknown entity type "user:alice"; write a space after the colon of user.'),
    ],
)
def test_a_name_with_commas_must_be_quoted(match: str, remedy: str | None) -> None:
    """The subject of a certificate was answered by `unknown entity type "OU=b"`."""
    problems = said(of_match(match))
    assert problems == [] if remedy is None else len(problems) == 1 and remedy in problems[0]


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        (of_match("{user: *}"), "2:20", 'quote a text that begins with * or &, as in "*"'),
        (of_match("{user: &}"), "2:20", 'quote a text that begins with * or &, as in "*"'),
        (of_match("{ip: ::1}"), "2:17", 'quote a text that begins with a colon, as in "::1"'),
        (of_match("{user: [${env:USER}]}"), "2:21", 'quote a text with a reference, as in "${env:NAME}"'),
        (of_match("{user: @a}"), "2:19", "quote a text that begins with @"),
        (of_match("{user: `a`}"), "2:19", "quote a text that begins with `"),
        (of_match("{user: %a}"), "2:19", "quote a text that begins with %"),
        (of_match("{user: !a}"), "2:21", "quote a text that begins with !"),
        (of_match('{user: "a}'), "4:1", "close the quote"),
        (of_match("{user: a"), "3:11", "close the { with }"),
        ("quotas:\n<<<<<<< HEAD\n  - a\n=======\n  - b\n>>>>>>> x\n", "4:1", "resolve the merge conflict in this file"),
        ("quotas:\n\t- match: {user: a}\n", "2:1", "indent with spaces, YAML does not allow tabs"),
        ("{% if x %}\nquotas: []\n", "1:2", "is this a template that was not rendered?"),
        ("quotas:[]\nowner: a\n", "2:6", "write a space after the colon of a key"),
        ("quotas:\n  - match: {user: a}\n  values: {}\n", "3:3", "indent all fields of an item equally"),
        ("quotas:\n  - match: {user: a}\n     values: {}\n", "3:6", "indent all keys of a mapping equally"),
    ],
)
def test_what_is_not_yaml_is_explained(text: str, place: str, remedy: str) -> None:
    """The words of the parser were all that was said."""
    (problem,) = said(text)
    assert problem.startswith(f"f.yaml:{place}: error: not valid YAML: ")
    assert remedy in problem


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            "    values:\n    producer_byte_rate: 1MiB/s\n",
            "4:5: error: producer_byte_rate is a quota key, not a field of an entry; write it below values",
        ),
        (
            "    producer_byte_rate: 1MiB/s\n",
            "3:5: error: producer_byte_rate is a quota key, not a field of an entry; write it below values",
        ),
        ("    valeus: {producer_byte_rate: 1}\n", '3:5: error: unknown field "valeus"; did you mean values?'),
        ("    values:{producer_byte_rate: 1}\n", None),
        ("    porfile: gold\n", '3:5: error: unknown field "porfile"; did you mean profile?'),
        ("    sate: absent\n", '3:5: error: unknown field "sate"; did you mean state?'),
    ],
)
def test_a_misplaced_or_misspelt_field_is_one_problem(fields: str, problem: str | None) -> None:
    """The consequences were reported (no values, values is empty) and the cause was not, or as a second problem."""
    problems = said(f"quotas:\n  - match: {{user: a}}\n{fields}")
    assert len(problems) == 1
    assert problems[0].startswith(f"f.yaml:{problem}") if problem else "write a space after the colon" in problems[0]


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("<Default>", 'user="<Default>" is an ordinary name; did you mean <default>?'),
        ("<DEFAULT>", 'user="<DEFAULT>" is an ordinary name; did you mean <default>?'),
        ("default", "user=default is an ordinary name; did you mean <default>?"),
        ("DEFAULT", "user=DEFAULT is an ordinary name; did you mean <default>?"),
        ("'<default> '", 'user="<default> " is an ordinary name; did you mean <default>?'),
        ("'*'", "user=* contains *, but names are not patterns (<default> means all others); Kafka uses it literally"),
        ("svc-*", "user=svc-* contains *, but names are not patterns (<default> means all others); "),
        ("User:alice", "user=User:alice begins with User:, but quotas use the name without it; did you mean alice?"),
        ("user=alice", 'user="user=alice" begins with user=, as addresses do in plans; did you mean user: alice?'),
        ("'alice '", 'user="alice " begins or ends with white space; Kafka uses it literally'),
        ('"alice\\u00a0"', "Kafka uses it literally; check that this is intended"),
        ('"\\u200balice"', "contains characters that are not printable"),
        ("аlice", "mixes Latin and Cyrillic letters, which look alike; Kafka uses it literally"),
        ('"cafe\\u0301"', "is not in Unicode's composed form (NFC), as most programs write it; "),
        ('"${env:USER}"', "contains a variable, which is not expanded here; "),
    ],
)
def test_a_name_that_is_probably_a_mistake_is_a_warning(name: str, warning: str) -> None:
    """`<Default>` and `default` passed in silence, and so did names that only look like others."""
    (finding,) = said(of_match(f"{{user: {name}}}"))
    assert ": warning: " in finding
    assert warning in finding


@pytest.mark.parametrize(
    "name", ["alice", "Алиса", "café", "default-svc", "CN=a", "名前", "svc.a@b", '{name: "<default>"}']
)
def test_other_names_are_no_warning(name: str) -> None:
    assert said(of_match(f"{{user: {name}}}")) == []


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "quotas: []\npolicies: [p.json]\n",
            '"policies"; it belongs to the top of quotaform.yaml. The fields are quotas',
        ),
        ("quotas: []\nowner: x\n", '"owner"; it belongs to quotas. The fields'),
        (
            "quotas:\n  - user: a\n    values: {producer_byte_rate: 1MiB/s}\n    match: {user: b}\n",
            '"user"; it belongs to quotas.match. The fields',
        ),
        ("quotas:\n  - match: {user: b}\n    values: {request_percentage: 5}\n    capacity: {}\n", "clusters.NAME in"),
    ],
)
def test_a_field_in_the_wrong_place_is_told_its_place(text: str, hint: str) -> None:
    (problem,) = said(text)

    assert f"unknown field {hint}" in problem or f"it belongs to {hint} quotaform.yaml." in problem
