"""What is read from files and over HTTP, or why it is not: `reading-*.txt`, in the form of `table`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from re import sub
from socket import AF_UNIX, socket
from tempfile import TemporaryDirectory

import pytest

from quotaform.http.client import send
from quotaform.http.message import Request, Url
from quotaform.model.errors import FileReadError, HttpError
from quotaform.model.text import Secret
from quotaform.repository.repository import Repository
from quotaform.system.files import is_folder, read_text
from tests.golden.conftest import Golden
from tests.golden.table import Lines, check_told, tables_of
from tests.http_server import HttpServer

LIMIT = 1024
CANARY = "c4nary-T0ken"


def unescaped(said: str) -> bytes:
    r"""Return bytes that are written with escapes, as in `\xff`, and repeated, as in `<a*100>`."""
    return sub(
        rb"<([^<>]+)\*(\d+)>",
        lambda found: found[1] * int(found[2]),
        said.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1"),
    )


def make(folder: Path, word: str) -> None:
    """Make what a word says: `FOLDER/`, `FILE=CONTENT`, `LINK->TARGET`, `PIPE|` or `SOCKET@`."""
    name, arrow, target = word.partition("->")
    path = folder / name.rstrip("/|@").partition("=")[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    if arrow:
        path.symlink_to(target)
    elif name.endswith("/"):
        path.mkdir(exist_ok=True)
    elif name.endswith("|"):
        os.mkfifo(path)
    elif name.endswith("@"):
        with socket(AF_UNIX) as listener:
            listener.bind(str(path))
    else:
        path.write_bytes(unescaped(name.partition("=")[2]))


def of_file(text: str) -> Iterator[str]:
    """Yield what is read of paths after `?`, of which at most 1 KiB is, by the operator and `within` each folder."""
    made, _, asked = text.partition("?")
    with TemporaryDirectory() as name:
        folder = Path(name)
        for word in made.split():
            make(folder, word)
        within: Path | None = None
        for word in asked.split():
            kind, _, given = word.partition(":")
            if kind == "within":
                within = folder / given if given else None
                continue
            path = folder / unescaped(word).decode("utf-8", "surrogatepass")
            try:
                read = repr(read_text(path, LIMIT, within=within))
            except FileReadError as error:
                read = f"{error.reason}{' (missing)' if error.is_missing else ''}"
            else:
                assert not is_folder(path)
            yield f"{word}: {read if len(read) < 200 else len(read)}"


def of_tree(text: str) -> Iterator[str]:
    """Yield what is read of quotas directories after `?`, which somebody named."""
    made, _, asked = text.partition("?")
    with TemporaryDirectory() as name:
        for word in made.split():
            make(Path(name), word)
        for word in asked.split():
            repository = Repository.at(Path(name, unescaped(word).decode()), None)
            tree = repository.revision.read_tree(repository.directory)
            yield f"{word}: {tree.root.name.lower()} of {', '.join(sorted(tree.files)) or 'no files'}"
            for kind, names in (("directories", tree.folders), ("not read", tree.others)):
                if names:
                    yield f"  {kind}: {', '.join(sorted(names))}"
            yield from (f"  {path or 'it'}: {reason}" for path, reason in sorted(tree.unreadable.items()))


def of_http(text: str) -> Lines:
    """Return what is said of an answer to a request with a token, and whether it may have arrived and may pass."""
    method, _, reply = text.partition(" ")
    with HttpServer(lambda _: unescaped(reply)) as server:
        url = Url.parse(f"{server.url}/hook/{CANARY}?key={CANARY}")
        request = Request(method=method, url=url, credentials={"Authorization": Secret(CANARY)})
        try:
            response = send(request)
            said = f"{response.status}, {'success' if response.is_success else 'no success'}"
            said += f", {response.json()}" if response.body else ""
        except HttpError as error:
            shown = f"{error} {error!r} {vars(error)} {request!r} {error.__cause__!r}"
            if CANARY in shown:
                raise
            flags = f"{'may have arrived' if error.may_have_arrived else 'nothing was sent'}"
            said = f"{error} ({error.status}, {flags}, {'may pass' if error.may_pass else 'will stay'})"
        asked = f"; asked {len(server.received)} times" if len(server.received) != 1 else ""
    return [said.replace(server.url, "URL").replace(server.url.replace("http:", "https:"), "URL with TLS") + asked]


TABLES = tables_of(globals())


@pytest.mark.parametrize("name", TABLES)
def test_this_is_read_or_refused_in_these_words(golden: Golden, no_proxy: None, name: str) -> None:
    check_told(golden, f"reading-{name}.txt", TABLES[name])
