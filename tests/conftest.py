"""Settings of property tests, and what takes long to make, such as brokers: made when first asked for."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from signal import SIG_IGN, SIGINT, default_int_handler, getsignal, signal
from typing import Any

import pytest
import typer
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from typer.main import get_command

from quotaform.cli import main
from quotaform.cli.main import GROUPS, build_app
from quotaform.sandbox import Sandbox
from quotaform.sandbox.configuration import make_certificates
from tests.broker import SHORT_SESSIONS
from tests.faulty_sandbox import FaultySandbox
from tests.worker import scope_of

# CI must say the same twice of one commit; everywhere else each run looks at examples that no run saw before, so that
# fewer will do.
IS_CI = bool(os.environ.get("CI"))
settings.register_profile(
    "quotaform",
    deadline=None,
    derandomize=IS_CI,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100 if IS_CI else 60,
)
# For `make test-fast`.
settings.register_profile("quotaform-fast", settings.get_profile("quotaform"), max_examples=10)
settings.load_profile("quotaform")


class DoctestModules:
    """A plugin that looks for doctests only in modules with a prompt: pytest imports every module to find them.

    The hook of a conftest would act in its own folder only.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Return the collectors of a file without the one for doctests that are not there."""
        collectors = yield
        if file_path.suffix != ".py" or b">>>" in file_path.read_bytes():
            return collectors
        return [each for each in collectors if not isinstance(each, DoctestModule)]


def pytest_configure(config: pytest.Config) -> None:
    """Be no step of GitHub Actions or job of GitLab, whatever runs the tests; their tests set what they need.

    Let kafka-python read its own files the way Python 3.11 and 3.12 call deprecated, and let Ctrl-C be tested.

    A shell without job control starts what runs in the background (`make test &`) with SIGINT ignored.
    """
    for name in (
        "GITHUB_ACTIONS",
        "GITHUB_OUTPUT",
        "GITHUB_STEP_SUMMARY",
        "GITHUB_WORKSPACE",
        "GITLAB_CI",
        "CI_PROJECT_DIR",
    ):
        os.environ.pop(name, None)
    if getsignal(SIGINT) is SIG_IGN:
        signal(SIGINT, default_int_handler)
    config.pluginmanager.register(DoctestModules())
    # A process makes the tree of the commands once, for its own; here a process runs the same commands again and again.
    make_app = cache(build_app)
    vars(main)["build_app"] = lambda *words: make_app(*words[: 2 if GROUPS.keys() & words[:1] else 1])
    vars(typer.main)["get_command"] = cache(get_command)
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")


def pytest_collection() -> None:
    """Collect no garbage while test modules are imported: nearly all that they make stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was collected out of every later garbage collection: thousands of tests make each one slow."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Make the scheduler of `--dist=loadgroup`, which in pytest-xdist 3.8 finds no groups under pytest 9.2."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = scope_of
    return scheduling


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """One broker that allows everything; tests share it and use entities of their own."""
    with Sandbox() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def metered_sandbox() -> Iterator[Sandbox]:
    """One broker with SASL that serves the metrics of its quotas to Prometheus and over JMX."""
    with Sandbox(secured=True, exporter=True, jmx=True) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def secured_sandbox() -> Iterator[Sandbox]:
    """One broker with SASL, TLS and an authorizer."""
    with Sandbox(secured=True) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def three_brokers() -> Iterator[FaultySandbox]:
    """A quorum of three; a test that kills or pauses one brings it back."""
    with FaultySandbox(brokers=3, properties=SHORT_SESSIONS) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certificates") / "pem")


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
