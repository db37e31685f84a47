"""Which releases of Kafka a sandbox runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from quotaform.cli.command.sandbox import app
from quotaform.model.errors import UsageError
from quotaform.sandbox import Sandbox, detached
from quotaform.sandbox.java import Java
from quotaform.sandbox.release import NEWEST, RELEASES, VARIABLE, Release, chosen_release, kafka_download, release_of


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_a_release_is_chosen_with_or_without_its_bug_fixes(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_release(release.name) == chosen_release(str(release)) == release
    monkeypatch.setenv(VARIABLE, release.name)
    assert chosen_release() == release
    assert chosen_release("4.0") == Release((4, 0, 2))


def test_an_unknown_release_is_refused_with_those_that_there_are() -> None:
    assert chosen_release() is None
    with pytest.raises(UsageError, match=r"no Apache Kafka '3\.4'"):
        detached.start("unit-test", kafka="3.4")
    with pytest.raises(UsageError) as caught:
        Sandbox(kafka="3.4")
    assert str(caught.value) == (
        "The sandbox has no Apache Kafka '3.4'; it has 2.8 (2.8.2), 3.3 (3.3.2), 3.9 (3.9.2), 4.0 (4.0.2), 4.3 (4.3.1)."
    )


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_the_jars_of_a_release_are_pinned(release: Release) -> None:
    sums = kafka_download(release).sums
    assert {f"kafka_2.13-{release}.jar", f"kafka-clients-{release}.jar", "log4j-core-2.25.4.jar"} <= sums.keys()
    assert release_of(map(Path, sums)) == release
    assert not release.has_zookeeper or any(name.startswith("zookeeper-") for name in sums)


def test_an_old_release_is_not_secured_on_a_new_java() -> None:
    old, new = Java(Path("java"), "17.0.15"), Java(Path("java"), "25.0.1")
    assert [release.name for release in RELEASES if not release.runs_secured_on(new)] == ["2.8", "3.3"]
    assert all(release.runs_secured_on(old) for release in RELEASES)


def test_jars_that_do_not_say_their_release_are_taken_for_the_newest() -> None:
    assert release_of([Path("kafka.jar")]) == NEWEST
    assert release_of([Path("scala-library-2.13.5.jar"), Path("kafka_2.12-3.4.1.jar")]) == Release((3, 4, 1))


def test_the_help_of_the_command_names_all_releases() -> None:
    [option] = [each for each in typer.main.get_command(app).commands["start"].params if each.name == "kafka"]  # type: ignore[attr-defined]
    assert re.findall(r"\d\.\d", option.help) == [release.name for release in RELEASES]
