"""Certificates, which take seconds to make, once for all tests."""

from __future__ import annotations

import pytest

from quotaform.sandbox.certificate import Certificates, make_certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates") / "pem")
