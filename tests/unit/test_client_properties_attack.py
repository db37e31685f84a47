"""Client properties that somebody made to find out a secret, to crash the reader or to keep it busy."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from time import process_time

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.properties import USED
from quotaform.cluster.client.reader import load_client_config
from quotaform.model.errors import InvalidFilesError
from quotaform.sandbox.security import Certificates

pytestmark = pytest.mark.exhaustive

SECRET = "hunter2"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
SASL = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n"
STORE = "security.protocol=SSL\nssl.truststore.type=PEM\n"


def load(folder: Path, text: str | bytes) -> ClientConfig:
    path = folder / "client.properties"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_client_config(path, environ={"QUOTAFORM_X": SECRET})


def refused(folder: Path, text: str | bytes) -> str:
    with pytest.raises(InvalidFilesError) as caught:
        load(folder, text)
    return str(caught.value)


def told(folder: Path, text: str | bytes) -> str:
    """Return what is printed of properties that may be right or wrong."""
    try:
        return repr(load(folder, text))
    except InvalidFilesError as error:
        return str(error)


VARIABLE = "${env:QUOTAFORM_X}"
VALUES = (
    *(SECRET, f"https://me:{SECRET}@b1:9092", f"me:{SECRET}@b1", f"PLAIN,{SECRET}", f"{SECRET}:1x"),
    *(f"/{SECRET}/ca.pem", "12345678", f"{SECRET},12345678", f"{SECRET}\n{SECRET}"),
)


@pytest.mark.parametrize("base", [SASL, STORE, "security.protocol=SASL_SSL\n", ""])
@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_never_repeated_whatever_its_key(tmp_path: Path, base: str, value: str) -> None:
    """A password where another value belongs was printed with what was wrong about it.

    So were a number that a variable held, and the line after one that ends with a backslash.
    """
    (tmp_path / "secret").write_text(value)
    for key in (*USED, "sasl.password", "sasl.mechanims", "ssl.hunter", "foo", "a.b", ""):
        texts = [f"{key}=${{dir:{tmp_path}:secret}}\n", f"{key}=SASL_PLAINTEXT \\\nsasl.jaas.config={JAAS}\n"]
        if SECRET in value and "\n" not in value:
            texts += [f"{key}={each}\nsasl.mechanism=nope\n" for each in (value, value.replace(SECRET, VARIABLE))]
        ends = ["foo=\n"] if key in {"client.id", "bootstrap.servers"} else ["", "foo=\n"]
        for text, end in product(texts, ends):
            shown = told(tmp_path, base + text + end)
            assert not any(part in shown for part in (SECRET, "12345678")), text


@pytest.mark.parametrize(
    "text",
    [
        "client.id=" + "${" * 200_000,
        "client.id=" + "${env:" * 100_000,
        "client.id=" + "${file:/etc/hostname:x}" * 40_000,
        "client.id=" + "\\\n" * 300_000,
        "client.id=" + "a\\\n" * 300_000,
        "client.id=" + "\\" * 400_001,
        "client.id=" + "\\u" * 200_000,
        "\n".join(f"k{number}=v" for number in range(200_000)),
        "\n".join("\\u" for _ in range(200_000)),
        "=\n" * 300_000,
        SASL + "sasl.jaas.config=" + "/*\\n" * 200_000,
        SASL + "sasl.jaas.config=" + "a" * 400_000,
        SASL + 'sasl.jaas.config="' + "\\\\" * 200_000,
        SASL + "sasl.jaas.config=x.PlainLoginModule required " + 'a="b" ' * 60_000 + ";",
        STORE + "ssl.truststore.certificates=" + "-----BEGIN CERTIFICATE-----" * 50_000,
        STORE + "ssl.truststore.certificates=" + "-----BEGIN X-----a-----END X-----" * 40_000,
        STORE + "ssl.truststore.certificates=-----BEGIN " + "A" * 400_000,
        "ssl.enabled.protocols=" + "," * 400_000,
        "ssl.enabled.protocols=" + "a," * 200_000,
        "bootstrap.servers=" + "a:1," * 100_000,
        "request.timeout.ms=" + "9" * 1_000_000,
    ],
    ids=lambda text: text[-60:-40] + str(len(text)),
)
def test_reading_takes_time_in_proportion(tmp_path: Path, text: str) -> None:
    """400 KB of `${`, 300,000 continued lines or 50,000 PEM headers took over 15 s."""
    start = process_time()
    shown = told(tmp_path, text)
    assert process_time() - start < 20
    assert len(shown) < 50_000 or text.startswith(("client.id", "bootstrap.servers"))


def test_what_is_around_certificates_may_be_in_any_language(tmp_path: Path, certificates: Certificates) -> None:
    """A comment in Greek in a PEM file ended as an internal error."""
    pem = certificates.authority.read_text(encoding="utf-8")
    (tmp_path / "ca.pem").write_text(f"# Αρχή Πιστοποίησης\n{pem}\nτέλος\n", encoding="utf-8")
    config = load(tmp_path, f"{STORE}ssl.truststore.location={tmp_path}/ca.pem\n")
    assert config.ssl_context() is not None
    assert load(tmp_path, f"{STORE}ssl.truststore.location={certificates.authority}\n") == config
