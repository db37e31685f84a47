"""Files of requests: what can be written, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.resolve.request_file import RequestFile

BOTH = Entity(user="alice", client_id="app1")


def read(content: str | bytes) -> list[Entity]:
    return list(RequestFile(content.encode() if isinstance(content, str) else content, "asked.csv"))


def problems(content: str | bytes) -> list[str]:
    with pytest.raises(InvalidFilesError) as caught:
        read(content)
    return [f"{problem.location}: {problem.message}" for problem in caught.value.problems]


@pytest.mark.parametrize(
    "content",
    [
        "user,client_id\nalice,app1\n",
        "client-id,user\napp1,alice",
        "user,client_id,ip\r\nalice,app1,\r\n",
        '\ufeffuser , client_id\n\n"alice",app1\n\n',
        '{"user": "alice", "client-id": "app1"}\n',
        '\n {"client_id": "app1", "user": "alice"}\n\n',
        '\ufeff{"client_id":"app1","user":"\\u0061lice"}',
    ],
)
def test_one_request_can_be_written_in_many_ways(content: str) -> None:
    assert read(content) == [BOTH]


def test_rows_of_every_kind_keep_their_order_and_may_repeat() -> None:
    content = "user,client_id,ip\nalice,,\n,app1,\n,,10.0.0.1\nalice,app1,\nalice,,\n"
    users = Entity(user="alice")
    assert read(content) == [users, Entity(client_id="app1"), Entity(ip="10.0.0.1"), BOTH, users]


def test_a_file_can_be_gone_through_more_than_once_and_knows_what_is_in_it() -> None:
    clients = RequestFile(b"user\na\nb\n", "asked.csv")
    assert list(clients) == list(clients) == [Entity(user="a"), Entity(user="b")]
    assert (len(clients), clients.has_clients, clients.has_ips) == (2, True, False)
    mixed = RequestFile(b'{"ip": "10.0.0.1"}\n{"user": "a"}\n', "asked.jsonl")
    assert (len(mixed), mixed.has_clients, mixed.has_ips) == (2, True, True)


@pytest.mark.parametrize(
    "name", ["CN=a b,O=x", 'say "hi"', "two\nlines", " spaces ", "<default>", "Å", "a\u2028b", "{x"]
)
def test_names_are_taken_as_they_are(name: str) -> None:
    quoted = name.replace('"', '""')
    assert read(f'user\n"{quoted}"\n') == [Entity(user=name)]


@pytest.mark.parametrize("content", ["user\nalice\n", "user,client_id\nalice,\n", 'user,client_id\nalice,""\n'])
def test_a_missing_column_and_an_empty_field_are_an_omitted_name(content: str) -> None:
    """An omitted client-id was taken for an empty one, which nearly no client sends."""
    assert read(content) == read('{"user": "alice"}') == [Entity(user="alice")]


def test_an_empty_client_id_is_written_as_results_print_it() -> None:
    empty = [Entity(user="alice", client_id="")]
    assert read('user,client_id\nalice,""""""\n') == empty
    assert read('{"user": "alice", "client-id": ""}') == read('{"user": "alice", "client_id": ""}') == empty


def test_columns_alone_ask_for_nothing() -> None:
    assert read("user,client_id\n") == []


@pytest.mark.parametrize("content", ["user,client_id\n,\nalice,\n,\n", '{}\n{"user": "alice"}\n{}'])
def test_rows_that_name_nobody_are_left_out_and_counted(content: str) -> None:
    """Each was an error of its own."""
    rows = RequestFile(content.encode(), "asked")
    assert (list(rows), len(rows), rows.nameless) == ([Entity(user="alice")], 1, 2)


def test_every_bad_row_is_told_with_its_line() -> None:
    found = problems('user,client_id,ip\nalice,app1\n,,\n"a\nb",x,10.0.0.1\nbob,app1,\n')
    assert [text.partition(" ")[0] for text in found] == ["asked.csv:2:", "asked.csv:4:"]
    assert "this row has 2 fields, but the first line names 3 columns" in found[0]
    assert "give a user, a client-id, both, or an ip" in found[1]


def test_every_bad_line_of_json_is_told_with_its_line() -> None:
    lines = [
        '{"user": "a"}',
        '{"user": "a"',
        '["a"]',
        '{"usr": "a"}',
        '{"user": null}',
        '{"user": 7}',
        '{"user": "a", "user": "b"}',
        '{"client-id": "a", "client_id": "b"}',
        '{"user": ""}',
        '{"user": NaN}',
        '{"user": ' + "[" * 100_000,
    ]
    found = problems("\n".join(lines))
    assert [text.partition(" ")[0] for text in found] == [f"asked.csv:{line}:" for line in range(2, 12)]
    for text, words in zip(
        found,
        [
            *("not a JSON object", "not a JSON object", 'unknown field "usr"', "leave out a field without a value"),
            *("user must be a string", '"user" appears twice', "client-id appears twice", "name of the user is empty"),
            *("not a JSON object", "not a JSON object"),
        ],
        strict=True,
    ):
        assert words in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty"),
        ("  \n\n", "the file is empty"),
        ("alice,app1\n", 'asked.csv:1: unknown column "alice", "app1"'),
        ("user,team\nalice,x\n", 'asked.csv:1: unknown column "team"'),
        ("user,user\nalice,x\n", "asked.csv:1: a column appears twice in the first line"),
        ("client_id,client-id\na,b\n", "asked.csv:1: a column appears twice in the first line"),
        ('user\n"alice\n', "asked.csv:2: this is not CSV"),
        ('user\na\n"b"c\n', "asked.csv:3: this is not CSV"),
        (b"user\nalice\n\xff\xfe\n", "asked.csv:3: this is not UTF-8 text"),
        (b"\xff\xfeu\0s\0", "asked.csv:1: this is not UTF-8 text"),
        ("user\n" + "x" * 200_000, "asked.csv:2: this is not CSV: a field is larger than 131,072 characters"),
    ],
)
def test_what_is_no_such_file_is_said(content: str | bytes, words: str) -> None:
    assert words in problems(content)[0]


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidFilesError, match=r"absent\.csv: error: it cannot be read: No such file"):
        RequestFile.read(tmp_path / "absent.csv")
    with pytest.raises(InvalidFilesError, match="it cannot be read"):
        RequestFile.read(tmp_path)


def test_a_million_bad_lines_have_a_hundred_problems() -> None:
    """Every line of a file of requests that was wrong was reported, however many there were."""
    with pytest.raises(InvalidFilesError) as refused:
        RequestFile(b"user\n" + b"a,b\n" * 1_000_000, "requests.csv")
    assert len(refused.value.problems) == 101
    assert "and more" in str(refused.value.problems[-1])
