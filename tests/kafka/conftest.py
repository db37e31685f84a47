"""One broker with every mechanism."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doors import Doors, open_doors


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """One broker with every mechanism, for the files that `tests.worker` keeps together."""
    with open_doors(tmp_path_factory.mktemp("doors")) as doors:
        yield doors


@pytest.fixture
def doors(opened: Doors, monkeypatch: pytest.MonkeyPatch) -> Doors:
    """The same broker, with this process as a client of its KDC."""
    monkeypatch.setenv("KRB5_CONFIG", str(opened.kdc.krb5_conf))
    monkeypatch.setenv("KRB5CCNAME", str(opened.kdc.folder / "none"))
    return opened
