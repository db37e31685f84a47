"""`kafka-client-quotas` on a broker: KIP-546's own examples, letter by letter, refusals, credentials and a pipe.

What needs no broker is in `tests/golden/story-script.txt`.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from quotaform.cli import client_quotas as command
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from quotaform.sandbox.configuration import render_properties
from tests.broker import client_properties, client_settings
from tests.builder import CONSUMER, PRODUCER
from tests.workflow.command import SCRIPT, Cluster, Result, call, run_process

pytestmark = pytest.mark.workflow


Script = Callable[..., Result]


def run(*arguments: str) -> Result:
    return call(command.run, *arguments)


@pytest.fixture
def script(sandbox: Sandbox, cluster: Cluster) -> Script:
    """The command, connected to the shared broker; what it alters is waited for, as the command itself does not."""

    def run_script(*arguments: str) -> Result:
        done = run("--bootstrap-server", sandbox.bootstrap_servers, *arguments)
        if "--alter" in arguments and "--validate-only" not in arguments:
            cluster.settle()
        return done

    return run_script


@pytest.fixture
def typed(sandbox: Sandbox, cluster: Cluster) -> Script:
    """A line of the KIP as a person types it into a shell; only the script's and the broker's place are put in."""

    def run_line(line: str) -> Result:
        assert line.startswith("./bin/kafka-client-quotas.sh --bootstrap-server localhost:9092 ")
        line = line.replace("./bin/kafka-client-quotas.sh", shlex.quote(SCRIPT))
        line = line.replace("localhost:9092", sandbox.bootstrap_servers)
        done = run_process("-c", line, cwd=Path.cwd(), command="sh")
        if "--alter" in line:
            cluster.settle()
        return done

    return run_line


class TestExamplesOfTheKip:
    @pytest.mark.parametrize("flag", ["--names=client-id=my-client", "--names client-id=my-client"])
    def test_describe_prints_what_the_kip_shows(self, typed: Script, cluster: Cluster, flag: str) -> None:
        cluster.alter(
            {
                Entity(user="user-one", client_id="my-client"): {CONSUMER: 4e6, PRODUCER: 1e6},
                Entity(user="user-two", client_id="my-client"): {PRODUCER: 2e6},
                Entity(user=None, client_id="my-client"): {CONSUMER: 1e6, PRODUCER: 5e5},
                Entity(user="user-one", client_id="another"): {PRODUCER: 1.0},
                Entity(user="user-one"): {PRODUCER: 1.0},
            }
        )
        done = typed(f"./bin/kafka-client-quotas.sh --bootstrap-server localhost:9092 --describe \\\n {flag}")
        assert done == Result(
            0,
            "{user=user-one, client-id=my-client} consumer_byte_rate=4000000 producer_byte_rate=1000000\n"
            "{user=user-two, client-id=my-client} producer_byte_rate=2000000\n"
            "{user=<default>, client-id=my-client} consumer_byte_rate=1000000 producer_byte_rate=500000\n",
            "",
        )

    def test_resolve_prints_what_the_kip_shows(self, typed: Script, cluster: Cluster) -> None:
        # The KIP's two examples do not belong to one state of a cluster; this is the one that this output is true of.
        cluster.alter(
            {
                Entity(user="user-two", client_id="my-client"): {CONSUMER: 2e6},
                Entity(user=None, client_id="my-client"): {CONSUMER: 1e6, PRODUCER: 5e5},
            }
        )
        done = typed(
            "./bin/kafka-client-quotas.sh --bootstrap-server localhost:9092 --resolve \\\n"
            " --names=user=user-two,client-id=my-client"
        )
        assert done == Result(
            0,
            "consumer_byte_rate=2000000 {user=user-two, client-id=my-client}\n"
            "producer_byte_rate=500000 {user=<default>, client-id=my-client}\n",
            "",
        )

    def test_alter_changes_what_the_kip_says(self, typed: Script, cluster: Cluster) -> None:
        cluster.alter({Entity(user=None, client_id="my-client"): {CONSUMER: 1e6, PRODUCER: 5e5}})
        altered = typed(
            "./bin/kafka-client-quotas.sh --bootstrap-server localhost:9092 --alter \\\n"
            " --names=client-id=my-client --defaults=user \\\n"
            " --add=consumer_byte_rate=2000000 \\\n"
            " --delete=producer_byte_rate"
        )
        assert altered == Result(0, "", "")
        described = typed(
            "./bin/kafka-client-quotas.sh --bootstrap-server localhost:9092 --describe \\\n"
            " --names=client-id=my-client --defaults=user"
        )
        assert described == Result(0, "{user=<default>, client-id=my-client} consumer_byte_rate=2000000\n", "")


class TestBroker:
    def test_one_of_several_servers_is_enough(self, sandbox: Sandbox, cluster: Cluster) -> None:
        cluster.set({PRODUCER: 1.0}, user="a")
        servers = f"127.0.0.1:1,{sandbox.bootstrap_servers}"
        assert run("--bootstrap-server", servers, "--describe") == Result(0, "{user=a} producer_byte_rate=1\n", "")

    def test_what_it_refuses_is_told_in_its_words(self, script: Script, cluster: Cluster) -> None:
        refused = script("--alter", "--names=user=a", f"--add={PRODUCER}=-1", "--validate-only")
        assert refused == Result(
            1, "", "kafka-client-quotas: user=a: Quota producer_byte_rate must be greater than 0\n"
        )
        cut = script("--alter", "--names=user=CN=a,O=b", f"--add={PRODUCER}=1")
        assert (cut.code, cut.out) == (1, "")
        assert "Unhandled client quota entity type: O" in cut.err
        assert 'is "O" part of a name? A name with a comma is written whole' in cut.err
        assert cluster.read() == {}

    def test_nobody_there_is_one_sentence(self) -> None:
        for arguments, words in (((), "There is no bootstrap server"), (("127.0.0.1:1",), "nothing listens at")):
            done = run(*(word for each in arguments for word in ("--bootstrap-server", each)), "--describe")
            assert (done.code, done.out) == (1, "")
            assert words in done.err

    def test_a_broken_pipe_is_no_error(self, sandbox: Sandbox, cluster: Cluster) -> None:
        cluster.set({PRODUCER: 1.0}, user="a")
        line = shlex.join([SCRIPT, "--bootstrap-server", sandbox.bootstrap_servers, "--describe"])
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line} | true"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


class TestCredentials:
    def test_properties_come_from_a_file_and_from_options_which_win(
        self, secured_sandbox: Sandbox, tmp_path: Path
    ) -> None:
        listener = "SASL_PLAINTEXT"
        settings = client_settings(secured_sandbox, listener)
        file = tmp_path / "client.properties"
        file.write_text(render_properties(settings), encoding="utf-8")
        server = secured_sandbox.listeners[listener]
        by_file = run("--bootstrap-server", server, "--command-config", str(file), "--describe")
        assert (by_file.code, by_file.err) == (0, "")
        lines = [f"{name}={value}" for name, value in settings.items()]
        assert run("--bootstrap-server", server, "--adminclient-property", ",".join(lines), "--describe") == by_file
        file.write_text(client_properties(secured_sandbox, listener, password="wrong"), encoding="utf-8")
        refused = run("--bootstrap-server", server, "--command-config", str(file), "--describe")
        assert (refused.code, refused.out) == (1, "")
        login = f"sasl.jaas.config={settings['sasl.jaas.config']}"
        options = ["--command-config", str(file), "--adminclient-property", login]
        assert run("--bootstrap-server", server, *options, "--describe") == by_file
