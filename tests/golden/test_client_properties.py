"""What clients read in Java's properties, or say about them: `texts-properties.txt`, in the form of `table`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from re import Match, sub

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.reader import load_client_config
from quotaform.cluster.sasl.password import Password
from quotaform.model.errors import InvalidFilesError
from quotaform.model.server import parse_servers
from quotaform.sandbox.security import Certificates
from tests.golden.conftest import FOLDER, Golden
from tests.golden.table import Lines, Text, told

ENVIRONMENT = {
    "QUOTAFORM_ENV": "QUOTAFORM_PASS,QUOTAFORM_JAAS,QUOTAFORM_X,QUOTAFORM_HOST,WHO,SERVERS,UNSET",
    "QUOTAFORM_PASS": "s${env:NO}",
    "QUOTAFORM_JAAS": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\\"q";',
    "QUOTAFORM_X": "y",
    "QUOTAFORM_HOST": "b1",
    "WHO": "bob",
    "SERVERS": "",
}
KEYS = "password=old\npassword : p\\=1\na\\:b=\\u00e9\n# x=\nbad=\\u1\nuser=bob\nservers=b1:9092,b2:9092\nk=hunter2\n"

STORES = FOLDER.parent / "data" / "stores"


@pytest.fixture
def folder(tmp_path: Path, certificates: Certificates) -> Path:
    """Files that properties refer to; the mount is that of a Kubernetes secret."""
    tenant, other = certificates.client("tenant"), certificates.client("quota-admin")
    key, chain = tenant.with_suffix(".key"), tenant.with_suffix(".crt").read_text()
    command = f"openssl pkcs8 -topk8 -in {key} -out {tmp_path}/encrypted.key -passout pass:open-sesame"
    subprocess.run(command.split(), check=True, capture_output=True)
    encrypted = (tmp_path / "encrypted.key").read_text()
    stores = {
        "ca": certificates.authority.read_text(), "tenant": tenant.read_text(),
        "key": key.read_text(), "chain": chain,
        "mixed": key.read_text() + other.with_suffix(".crt").read_text(),
        "encrypted": encrypted + chain,
    }  # fmt: skip
    for name, text in stores.items():
        (tmp_path / f"{name}.pem").write_text(text)
    texts = {"keys": KEYS, "keys.properties": KEYS, "password": "s3cret\n", "a": "k=v", "in/a": "k=v", "out/a": "k=v"}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "large").write_bytes(b"hunter2 " * (1 << 17) + b"x")
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    data = tmp_path / "mount" / "..2026"
    data.mkdir(parents=True)
    (data / "password").write_text("s3cret two\n")
    (data / "nested").write_text("${env:QUOTAFORM_X}")
    (data.parent / "..data").symlink_to(data.name)
    for name in ("password", "nested"):
        (data.parent / name).symlink_to(f"..data/{name}")
    return tmp_path


def test_client_properties_are_read_or_refused_in_these_words(folder: Path, golden: Golden) -> None:
    """`FOLDER` is that of the files that a file may refer to, beside which it lies; `STORES` has stores of Java.

    `INLINE:FILE` is the text of a file on one line, with spaces or, as `INLINE_ESCAPED`, with escapes for line ends.
    """
    path = folder / "client.properties"

    def inline(found: Match[str]) -> str:
        return (folder / found[2]).read_text().strip().replace("\n", "\\n" if found[1] else " ")

    def of_properties(text: Text) -> Lines:
        written = sub(r"INLINE(_ESCAPED)?:([\w.]+)", inline, str(text))
        path.write_bytes(written.replace("FOLDER", str(folder)).replace("STORES", str(STORES)).encode())
        try:
            config = load_client_config(path, environ=ENVIRONMENT)
        except InvalidFilesError as error:
            said = [f"{problem.location}: {problem.message}".removeprefix(f"{path}:") for problem in error.problems]
            assert "hunter2" not in str(said)
            return [each.replace(str(folder), "FOLDER") for each in said]
        assert "hunter2" not in f"{config!r} {config}"
        return [each.replace(str(folder), "FOLDER") for each in differing(config)]

    file = "texts-properties.txt"
    written = (FOLDER / file).read_text(encoding="utf-8")
    golden(file, "\n".join(told(written, of_properties)).lstrip("\n") + "\n")


def differing(config: ClientConfig) -> Iterator[str]:
    """Yield the fields that are not the default, with the password."""
    default = ClientConfig()
    for name in ClientConfig.__slots__:
        value = getattr(config, name)
        if isinstance(value, Password):
            yield f"{value.mechanism} {value.username!r} {value.password.reveal()!r}, shown as {value.who}"
        elif name == "bootstrap_servers" and value:
            yield f"{name} {value!r}, which are {[tuple(server) for server in parse_servers(value)]}"
        elif name == "tls" and value is not None:
            yield tls_of(config)
        elif value != getattr(default, name):
            yield f"{name} {value!r}"


def tls_of(config: ClientConfig) -> str:
    """Return what is trusted, shown and offered."""
    context = config.ssl_context()
    assert context is not None
    assert config.tls is not None
    trusted = f"{len(context.get_ca_certs())} authorities" if config.tls and config.tls.ca is not None else "the system"
    ciphers = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    said = [
        f"tls trusts {trusted}",
        f"{context.minimum_version.name} to {context.maximum_version.name}",
        "shows a certificate" * config.has_certificate,
        "" if context.check_hostname else "checks no host",
        " ".join(ciphers if any("_WITH_" in each for each in config.tls.ciphers) else []),
    ]
    return ", ".join(filter(None, said))
