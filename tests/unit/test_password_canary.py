"""A password in every place where one can be typed or read shows nowhere: neither in an output nor in a file.

The tables are made of the command tree and of the keys of client properties, so that a new option or key is covered
without anybody thinking of it.
"""

from __future__ import annotations

import io
import json
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from quotaform.cli.client_quotas import run as run_client_quotas
from quotaform.cli.main import run
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.properties import USED
from quotaform.model.errors import ClusterError
from tests import command_line
from tests.builder import PRODUCER
from tests.command_line import LEAVES

pytestmark = pytest.mark.exhaustive

CANARY: Final = "c4nary-Pa55word"
SPELLED: Final = "".join(f"\\u{ord(letter):04x}" for letter in CANARY)
"""As escapes of a properties file."""

SCRAM: Final = sorted(path for path in LEAVES if path.startswith("quotaform scram"))
ASKS_A_CLUSTER: Final = sorted(
    path for path, command in LEAVES.items() if any("--command-config" in each.opts for each in command.params)
)
REQUIRED: Final = {**command_line.REQUIRED, "quotaform validate": ("--check-principals",)}
"""What a command needs to reach a cluster."""


class Place:
    """A folder in which commands run, and a cluster that cannot be reached, whose error shows all that is known."""

    def __init__(self, path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self.capfd = capfd

    def run(self, *arguments: str, is_java: bool = False) -> None:
        """Run a command and look for the password in what it printed and in the files that it left."""
        self.read = {path: path.read_bytes() for path in self.path.rglob("*") if path.is_file()}
        try:
            (run_client_quotas if is_java else run)([*arguments])
        except Exception:  # With -v an internal error goes on to Python, which prints it.
            traceback.print_exc()
        printed = "".join(self.capfd.readouterr())
        assert printed, arguments
        self.require_absent(printed, arguments)
        for path in self.path.rglob("*"):
            self.require_absent(path.name, arguments)
            if path.is_file() and path not in self.read:
                self.require_absent(path.read_text(errors="replace"), arguments)

    @staticmethod
    def require_absent(text: str, about: object) -> None:
        for spelling in (CANARY, CANARY.upper(), SPELLED, CANARY[:-1], CANARY[1:]):
            assert spelling not in text, (about, text)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PW", CANARY)
    monkeypatch.setenv("QUOTAFORM_ENV", "QUOTAFORM_PASSWORD")
    monkeypatch.setenv("QUOTAFORM_PASSWORD", CANARY)
    monkeypatch.setenv("SECRET", CANARY)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def refuse(servers: object, config: ClientConfig, **more: object) -> None:
        raise ClusterError(f"no connection: {servers} {config} {config!r} {more}")

    monkeypatch.setattr("quotaform.cluster.kafka.ClusterConnection", refuse)
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/a.yaml").write_text(f"quotas: [{{match: {{user: a}}, values: {{{PRODUCER}: 1}}}}]\n")
    write_config(tmp_path)
    (tmp_path / "password").write_text(f"{CANARY}\n")
    (tmp_path / "password").chmod(0o600)
    return Place(tmp_path, capfd)


def write_config(folder: Path, **cluster: object) -> None:
    document = {"clusters": {"lab": {"bootstrap_servers": ["127.0.0.1:1"], **cluster}}}
    (folder / "quotaform.yaml").write_text(json.dumps(document))


def typed(path: str) -> Iterator[tuple[str, ...]]:
    """Yield arguments with the password in the place of each value, glued and apart, and where none belongs."""
    yield (CANARY,)
    yield (f"--{CANARY}",)
    yield ("--password", CANARY)
    yield (f"--password={CANARY}",)
    yield (f"-p{CANARY}",)
    for parameter in LEAVES[path].params:
        if parameter.param_type_name == "argument":
            continue  # A name is shown: it is what the command is about.
        yield (f"{parameter.opts[0]}={CANARY}",)
        yield (parameter.opts[0], CANARY)
        yield (parameter.opts[0], f"a={CANARY}")
        yield (parameter.opts[0], CANARY, CANARY)


@pytest.mark.parametrize("path", SCRAM)
def test_a_password_in_any_place_of_a_scram_command_line_is_not_repeated(path: str, place: Place) -> None:
    for arguments in typed(path):
        place.run(*path.split()[1:], *REQUIRED.get(path, ()), *arguments, "-v")


@pytest.mark.parametrize("path", ASKS_A_CLUSTER)
def test_a_password_in_an_address_is_not_repeated(path: str, place: Place) -> None:
    for address in (f"me:{CANARY}@b:9092", f"SASL_SSL://me:{CANARY}@b:9092", f"b:9092,me:{CANARY}@c"):
        place.run(*path.split()[1:], *REQUIRED.get(path, ()), "--bootstrap-server", address)
        write_config(place.path, bootstrap_servers=[address])
        place.run(*path.split()[1:], *REQUIRED.get(path, ()))


JAAS: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required username=me password="
PROPERTIES: Final = (
    f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}"{CANARY}";',
    f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}"{SPELLED}";',
    f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}"${{env:QUOTAFORM_PASSWORD}}";',
    f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}"${{env:SECRET}}";',
    f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}{CANARY}",
    f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}"{CANARY}',
    f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}"x" {CANARY};',
    f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={CANARY} required x="y";',
    f'security.protocol=SASL_SSL \\\nsasl.jaas.config={JAAS}"{CANARY}";',
    f'security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.jaas.config={JAAS}"{CANARY}";',
    f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=password\nssl.key.password={CANARY}",
    f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key={CANARY}\nssl.keystore.certificate.chain=x",
    f"{CANARY}",
    f"{CANARY}=1",
    f"sasl.{CANARY}=1",
    f"# a comment\n\n  {CANARY} : x",
)


@pytest.mark.parametrize("path", ASKS_A_CLUSTER)
def test_a_password_in_client_properties_shows_nowhere(path: str, place: Place) -> None:
    """With the properties of the command line and of quotaform.yaml, which may refer to variables."""
    words = (*path.split()[1:], *REQUIRED.get(path, ()))
    for text in PROPERTIES:
        (place.path / "client.properties").write_text(f"{text}\n")
        place.run(*words, "--bootstrap-server", "127.0.0.1:1", "--command-config", "client.properties", "-v")
    write_config(place.path, command_config="client.properties")
    place.run(*words)
    for reference in ("${env:SECRET}", "${env:QUOTAFORM_PASSWORD}", f"${{env:{CANARY}}}"):
        write_config(place.path, command_config=reference)
        place.run(*words, "-v")


@pytest.mark.parametrize("key", sorted(USED - {"client.id"} | {"sasl.password", "sasl.username", "unknown.key"}))
def test_a_password_in_the_value_of_any_property_shows_nowhere(key: str, place: Place) -> None:
    """Of any but `client.id`, which brokers show in their logs and metrics."""
    for protocol in ("SSL", "SASL_SSL"):
        for value in (f"={CANARY}", f" {CANARY}", f":{SPELLED}", f"={CANARY[:5]}\\\n   {CANARY[5:]}", CANARY):
            text = f"{'' if key == 'security.protocol' else f'security.protocol={protocol}'}\n{key}{value}\n"
            (place.path / "client.properties").write_text(text)
            place.run("describe", "--bootstrap-server", "b:1", "--command-config", "client.properties")
        line = ("--bootstrap-server", "b:1", "--describe", "--adminclient-property", f"security.protocol={protocol}")
        for more in (f"{key}={CANARY}", f"{key} {CANARY}", f"{key}={CANARY},{CANARY}", f"{CANARY}={key}", CANARY):
            place.run(*line, "--adminclient-property", more, is_java=True)


@pytest.mark.parametrize(
    "cluster",
    [
        {"sasl.password": CANARY},
        {"password": CANARY},
        {"command_config": {"sasl.password": CANARY}},
        {"command_config": [f"sasl.password={CANARY}"]},
        {"client": {"sasl.jaas.config": f'{JAAS}"{CANARY}";'}},
        {"bootstrap_servers": f"me:{CANARY}@b:9092"},
        {"bootstrap_servers": [{"password": CANARY}]},
        {"snapshot": f"me:{CANARY}@b:9092"},
        {"confirm": f"me:{CANARY}@b:9092"},
        {"bootstrap_servers": ["${env:SECRET}:9092"]},
        {"bootstrap_servers": ["${env:QUOTAFORM_PASSWORD}"]},
        {"bootstrap_servers": ["${env:QUOTAFORM_PASSWORD}.example:9092"]},
        {"cluster_id": "${env:QUOTAFORM_PASSWORD}"},
        {"confirm": "${env:QUOTAFORM_PASSWORD}"},
    ],
    ids=json.dumps,
)
def test_a_password_in_quotaform_yaml_shows_nowhere(cluster: dict[str, Any], place: Place) -> None:
    write_config(place.path, **cluster)
    for line in (
        "validate",
        "plan --out plan.json",
        "drift",
        "apply --auto-approve --receipt receipt.json",
        "describe",
    ):
        for form in ("text", "json"):
            place.run(*line.split(), "--format", form, "-v")


def test_a_password_that_is_used_shows_nowhere(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file, a variable and the standard input; good ones and ones that cannot be used."""
    words = ("scram", "upsert", "user=a", "--mechanism", "SCRAM-SHA-256", "-v")
    for content in (CANARY, f"{CANARY}\n{CANARY}\n", f"{CANARY}\n\n\n", f"{CANARY}\udcff", f"{CANARY}\0"):
        (place.path / "password").write_bytes(content.encode(errors="surrogateescape"))
        place.run(*words, "--password-file", "password")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode(errors="surrogateescape"))))
        place.run(*words, "--password-file", "-")
        if "\0" not in content:
            monkeypatch.setitem(os.environ, "PW", content)
            place.run(*words, "--password-env", "PW")
