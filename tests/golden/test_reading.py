"""What is read of files, git and over HTTP, or written, or why it is not: `reading-*.txt`."""

from __future__ import annotations

import errno
import os
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from re import sub
from socket import AF_UNIX, socket
from tempfile import TemporaryDirectory
from unittest.mock import Mock

import pytest

from quotaform.git import GitError, TimeLeft, merge_base, open_objects, parse_commit, parse_tree
from quotaform.http.client import HttpRequest, Transport, Url
from quotaform.model.errors import FileReadError, HttpError, QuotaformError
from quotaform.model.text import Secret
from quotaform.plan.base import choose_base
from quotaform.repository.repository import Repository
from quotaform.system.files import (
    is_folder,
    read_text,
    remove_regular_file,
    write_atomically,
    write_files,
    write_new_text,
)
from tests.git_repository import GitRepository
from tests.golden.conftest import Golden
from tests.golden.table import Lines, Text, check_told, tables_of
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


def of_written(text: Text) -> Iterator[str]:
    """Yield what becomes of files that are written, and what is there at the end.

    `write NAME TEXT` is done atomically, `new` replaces no file, `all NAME=TEXT...` writes all or none, and `remove`
    removes one. `make` makes the words of `make`, `cd` is where that happens, `fail METHOD ERROR` lets one of `Path`
    fail.
    """
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        top = here = Path(name)
        patch.setattr("quotaform.system.files._READER_SECONDS", 0.1)
        before = os.umask(0o022)
        for line in str(text).replace("TOP", name).splitlines():
            word, first, *rest = line.split(" ", 2)
            patch.chdir(here)
            try:
                if word == "make":
                    for each in line.split()[1:]:
                        make(here, each)
                elif word == "cd":
                    here = top / first
                elif word == "umask":
                    os.umask(int(first, 8))
                elif word == "chmod":
                    Path(rest[0]).chmod(int(first, 8))
                elif word == "fail":
                    code = getattr(errno, rest[0])
                    patch.setattr(Path, first, Mock(side_effect=OSError(code, os.strerror(code))))
                elif word == "all":
                    write_files(dict(each.split("=") for each in line.split()[1:]))
                    yield f"{line}: done"
                else:
                    WRITERS[word](first, *map(literal_eval, rest))
                    yield f"{line}: done".replace(name, "TOP")
            except (OSError, UnicodeError, QuotaformError) as error:
                said = getattr(error, "strerror", None) or error
                yield f"{line}: {type(error).__name__}: {said}".replace(name, "TOP")
        os.umask(before)
        for path in sorted(top.rglob("*")):
            shown = path.relative_to(top).as_posix()
            if path.is_symlink():
                yield f"{shown} -> {path.readlink()}".replace(name, "TOP")
            elif path.is_file():
                yield f"{shown} {path.stat().st_mode & 0o777:o} {path.read_bytes()!r}"
            else:
                yield f"{shown}{'/' if path.is_dir() else '|'}"


WRITERS: dict[str, Callable[..., object]] = {
    "write": write_atomically,
    "new": write_new_text,
    "remove": remove_regular_file,
}


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
        said = outcome_of(method, f"{server.url}/hook/{CANARY}?key={CANARY}", CANARY)
        asked = f"; asked {len(server.received)} times" if len(server.received) != 1 else ""
    return [said.replace(server.url, "URL").replace(server.url.replace("http:", "https:"), "URL with TLS") + asked]


def outcome_of(method: str, url: str, token: str) -> str:
    credentials = {"Authorization": Secret(token)} if token else {}
    request = HttpRequest(method=method, url=Url.parse(url), credentials=credentials)
    try:
        response = Transport().send_once(request)
        document = f", {response.json()}" if response.body else ""
    except HttpError as error:
        shown = f"{error} {error!r} {vars(error)} {request!r} {error.__cause__!r}"
        if CANARY in shown or error.host != request.url.origin:
            raise
        flags = f"{'may have arrived' if error.may_have_arrived else 'nothing was sent'}"
        return f"{error} ({error.status}, {flags}, {'may pass' if error.may_pass else 'will stay'})"
    return f"{response.status}, {'success' if response.is_success else 'no success'}{document}"


def of_request(text: Text) -> Iterator[str]:
    """Yield what becomes of requests, which each server gets: `get URL` with a token, `bare URL` without.

    URL, OTHER and PROXY are servers on this machine, and CLOSED was one. `answer` is what they answer, `token` is the
    end of the token, and variables are those of the environment.
    """
    replies, token = ["HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n"], CANARY
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        servers = {name: HttpServer(lambda _: unescaped(replies[-1])) for name in ("URL", "OTHER", "PROXY")}
        with HttpServer(lambda _: b"") as closed:
            names = {"CLOSED": closed.url, "CANARY": CANARY}
        names |= {name: stack.enter_context(server).url for name, server in servers.items()}
        names |= {f"{name}_PORT": str(server.port) for name, server in servers.items()}
        for line in str(text).splitlines():
            said = sub("|".join(sorted(names, reverse=True)), lambda found: names[found[0]], line)
            word, _, rest = said.partition(" ")
            if word in ("get", "bare"):
                outcome = outcome_of("GET", rest, token if word == "get" else "")
                for name in reversed(names):
                    outcome = outcome.replace(names[name], name)
                yield f"{line}: {outcome}"
            elif word == "answer":
                replies.append(rest)
            elif word == "token":
                token = CANARY + unescaped(rest).decode("latin-1")
            else:
                patch.setenv(*said.split("=", 1))
        for name, server in servers.items():
            for each in server.received:
                shown = {key: each.headers[key] for key in each.headers if key.endswith("authorization")}
                yield f"{name} got {each.method} {each.target} with {shown}".replace(str(server.port), f"{name}_PORT")


def of_object(content: bytes) -> Lines:
    """Return what is read of a commit, or of a folder, whose ids have 20 bytes."""
    try:
        if content.startswith(b"folder "):
            entries = parse_tree(content.removeprefix(b"folder "), 20)
            return [f"{name}: {mode:o} {identity}" for name, (mode, identity) in entries.items()]
        return [f"{parse_commit('ID', content)}"]
    except GitError as error:
        return [error.reason]


def of_ref(text: Text) -> Lines:
    """Return that a text may name a revision, or why it cannot."""
    choose_base(str(text))
    return ["may be one"]


def of_merged(text: Text) -> Iterator[str]:
    """Yield what two commits (`?`) have in common, after commits were made, with the names of their parents."""
    with TemporaryDirectory() as folder:
        git = GitRepository.init(Path(folder, "made"))
        tree, ids = git.git("write-tree"), dict[str, str]()
        for line in str(text).splitlines():
            word, *names = line.split()
            if word != "?":
                parents = [each for name in names for each in ("-p", ids[name])]
                ids[word] = git.git("commit-tree", tree, *parents, "-m", word)
                continue
            with open_objects(git.path, TimeLeft()) as objects:
                head, base = (objects.commit(ids[name]) for name in names)
                assert head
                assert base
                found = merge_base(objects, head, base)
            shown = "nothing" if found is None else next(name for name, each in ids.items() if each == found.id)
            yield f"{names[0]} and {names[1]} have {shown} in common"


TABLES = tables_of(globals())


@pytest.mark.parametrize("name", TABLES)
def test_this_is_read_or_refused_in_these_words(
    golden: Golden, monkeypatch: pytest.MonkeyPatch, no_proxy: None, name: str
) -> None:
    monkeypatch.setattr("quotaform.git.MAX_COMMITS", 12)
    check_told(golden, f"reading-{name}.txt", TABLES[name])
