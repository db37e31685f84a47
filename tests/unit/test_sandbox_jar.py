"""The jars' cache: filled once, checked at every use, and clear about what is missing."""

from __future__ import annotations

import hashlib
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from quotaform.model.errors import SandboxError, missing_extra
from quotaform.sandbox import tool
from quotaform.sandbox.release import EXPORTER, KAFKA, cached_jars, fetch_with_jgo, find_jars

CONTENT = {"a-1.jar": b"first", "b-2.jar": b"second"}
SUMS = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


class Source:
    """Where the fake jars come from; counts how often it was asked."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content
        self.asked = 0

    def __call__(self, directory: Path) -> list[Path]:
        self.asked += 1
        for name, content in self.content.items():
            (directory / name).write_bytes(content)
        return [directory / name for name in self.content]


def test_an_empty_cache_is_filled_once_and_then_needs_no_source(tmp_path: Path) -> None:
    source = Source(CONTENT)
    first = cached_jars(tmp_path / "kafka", SUMS, source)
    again = cached_jars(tmp_path / "kafka", SUMS, source)
    assert [jar.name for jar in first] == ["a-1.jar", "b-2.jar"]
    assert first == again
    assert source.asked == 1
    assert {jar.name: jar.read_bytes() for jar in first} == CONTENT


@pytest.mark.parametrize(
    "damage",
    [
        lambda jar: jar.write_bytes(b"firsT"),
        lambda jar: jar.write_bytes(b"fir"),
        lambda jar: jar.unlink(),
    ],
    ids=["changed", "truncated", "deleted"],
)
def test_a_damaged_jar_is_noticed_and_fetched_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    source = Source(CONTENT)
    jars = cached_jars(tmp_path / "kafka", SUMS, source)
    damage(jars[0])
    assert cached_jars(tmp_path / "kafka", SUMS, source)[0].read_bytes() == b"first"
    assert source.asked == 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (CONTENT | {"b-2.jar": b"forged"}, "b-2.jar has another SHA-256 checksum"),
        ({"a-1.jar": b"first"}, "b-2.jar is missing"),
    ],
)
def test_a_download_that_is_not_the_pinned_one_is_refused(
    tmp_path: Path, content: dict[str, bytes], complaint: str
) -> None:
    with pytest.raises(SandboxError, match=complaint):
        cached_jars(tmp_path / "kafka", SUMS, Source(content))
    assert not (tmp_path / "kafka").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["kafka.lock"]


def test_a_jar_that_nobody_asked_for_stays_out(tmp_path: Path) -> None:
    jars = cached_jars(tmp_path / "kafka", SUMS, Source(CONTENT | {"c-3.jar": b"third"}))
    assert sorted(path.name for path in (tmp_path / "kafka").iterdir()) == [jar.name for jar in jars]


def test_two_that_fill_the_cache_at_once_fetch_once(tmp_path: Path) -> None:
    source = Source(CONTENT)
    inside, go_on = threading.Event(), threading.Event()

    def slow(directory: Path) -> list[Path]:
        inside.set()
        assert go_on.wait(60)
        return source(directory)

    found: list[tuple[Path, ...]] = []

    def fill() -> None:
        found.append(cached_jars(tmp_path / "kafka", SUMS, slow))

    threads = [threading.Thread(target=fill) for _ in range(2)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert len(found) == 2
    assert source.asked == 1


def test_the_pinned_jars_are_kafka_and_its_logging() -> None:
    sums = KAFKA.sums
    assert {"kafka_2.13-4.3.1.jar", "kafka-clients-4.3.1.jar", "log4j-slf4j-impl-2.25.4.jar"} <= sums.keys()
    assert all(len(total) == 64 for total in sums.values())


def test_the_pinned_exporter_is_one_jar() -> None:
    assert list(EXPORTER.sums) == ["jmx_prometheus_javaagent-1.0.1.jar"]


def test_without_jgo_the_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jgo.env", None)
    with pytest.raises(SandboxError) as caught:
        find_jars()
    assert missing_extra("sandbox") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_network_the_sentence_gives_cause_and_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Builder:
        def __init__(self, **_: object) -> None: ...

        def from_endpoint(self, _: str) -> None:
            raise ConnectionError("name resolution\nfailed")

    env, maven = types.ModuleType("jgo.env"), types.ModuleType("jgo.maven")
    monkeypatch.setattr(env, "EnvironmentBuilder", Builder, raising=False)
    monkeypatch.setattr(env, "LinkStrategy", types.SimpleNamespace(AUTO=None), raising=False)
    monkeypatch.setattr(maven, "MavenContext", lambda **_: None, raising=False)
    for module in (types.ModuleType("jgo"), env, maven):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(SandboxError) as caught:
        fetch_with_jgo(tmp_path)
    assert "(ConnectionError: name resolution failed)" in str(caught.value)
    assert "KAFKA_HOME" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_kafka_home_wins_and_its_sources_and_docs_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libs").mkdir()
    for name in ("kafka_2.13-4.3.1.jar", "kafka-clients-4.3.1.jar", "kafka_2.13-4.3.1-sources.jar", "x-javadoc.jar"):
        (tmp_path / "libs" / name).touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    assert [jar.name for jar in find_jars()] == ["kafka-clients-4.3.1.jar", "kafka_2.13-4.3.1.jar"]


def test_the_reader_of_jmx_takes_few_classes_from_few_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It read objects of any class in 47 jars; tests/kafka has the answers of a broker."""
    needed = [
        "jopt-simple-5.0.4",
        "kafka-clients-4.3.1",
        "kafka-server-common-4.3.1",
        "kafka-tools-4.3.1",
        "slf4j-api-2",
    ]
    others = "kafka_2.13-4.3.1 kafka-tools-api-4.3.1 commons-beanutils-1.11.0 log4j-core-2.25.4 jackson-databind-2.21.2"
    (tmp_path / "libs").mkdir()
    for name in (*needed, *others.split()):
        (tmp_path / "libs" / f"{name}.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    monkeypatch.setattr(tool, "find_java", lambda: types.SimpleNamespace(command="java"))
    command = tool.jmx_tool_command()
    assert command[command.index("-cp") + 1].split(":") == [f"{tmp_path}/libs/{name}.jar" for name in needed]
    [option] = [each for each in command if each.startswith("-Djdk.serialFilter=")]
    classes = option.split(";")
    assert classes[-1] == "!*"
    assert "javax.management.Attribute" in classes
    assert not any("*" in each for each in classes[:-1])


def test_a_kafka_home_without_kafka_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(SandboxError, match=r"KAFKA_HOME is .* which has no libs/kafka_2"):
        find_jars()
