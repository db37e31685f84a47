"""`kafka-client-quotas`: KIP-546's own examples, letter by letter, and the manners of a Kafka script."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from quotaform import __version__
from quotaform.cli.client_quotas import command
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.workflow.command import SCRIPT, Cluster, Result, call, run_process

pytestmark = pytest.mark.workflow

PRODUCE, CONSUME = "producer_byte_rate", "consumer_byte_rate"

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
                Entity(user="user-one", client_id="my-client"): {CONSUME: 4e6, PRODUCE: 1e6},
                Entity(user="user-two", client_id="my-client"): {PRODUCE: 2e6},
                Entity(user=None, client_id="my-client"): {CONSUME: 1e6, PRODUCE: 5e5},
                Entity(user="user-one", client_id="another"): {PRODUCE: 1.0},
                Entity(user="user-one"): {PRODUCE: 1.0},
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
                Entity(user="user-two", client_id="my-client"): {CONSUME: 2e6},
                Entity(user=None, client_id="my-client"): {CONSUME: 1e6, PRODUCE: 5e5},
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
        cluster.alter({Entity(user=None, client_id="my-client"): {CONSUME: 1e6, PRODUCE: 5e5}})
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


class TestDescribe:
    def test_a_type_that_is_left_out_is_a_wildcard(self, script: Script, cluster: Cluster) -> None:
        shapes = [
            Entity(user="a"), Entity(user="a", client_id="x"), Entity(user="a", client_id=None), Entity(user="b"),
            Entity(user="b", client_id="x"), Entity(user=None), Entity(user=None, client_id="x"),
            Entity(user=None, client_id=None), Entity(client_id="x"), Entity(client_id=None),
        ]  # fmt: skip
        ips = [Entity(ip="10.0.0.1"), Entity(ip=None)]
        cluster.alter(
            {entity: {PRODUCE: 1.0} for entity in reversed(shapes)}
            | {entity: {"connection_creation_rate": 5.0} for entity in reversed(ips)}
        )

        def described(*arguments: str) -> list[str]:
            done = script("--describe", *arguments)
            assert (done.code, done.err) == (0, "")
            return [line.partition("}")[0] + "}" for line in done.out.splitlines()]

        assert described() == [
            "{user=a}", "{user=a, client-id=x}", "{user=a, client-id=<default>}", "{user=b}", "{user=b, client-id=x}",
            "{user=<default>}", "{user=<default>, client-id=x}", "{user=<default>, client-id=<default>}",
            "{client-id=x}", "{client-id=<default>}", "{ip=10.0.0.1}", "{ip=<default>}",
        ]  # fmt: skip
        assert described("--names", "user=a") == ["{user=a}", "{user=a, client-id=x}", "{user=a, client-id=<default>}"]
        assert described("--names", "client-id=x", "--defaults", "user") == ["{user=<default>, client-id=x}"]
        assert described("--defaults", "user,client-id") == ["{user=<default>, client-id=<default>}"]
        assert described("--names=ip=10.0.0.1") == ["{ip=10.0.0.1}"]
        assert described("--names=user=nobody") == []

    def test_names_are_printed_sanitized_and_taken_back(self, script: Script, cluster: Cluster) -> None:
        names = ["CN=a b,O=Å/ß+*~'\"", "<default>", "a%20b", "100%", "new\nline", "日本", "{x, y=z}"]
        cluster.alter({Entity(user=name, client_id=name): {PRODUCE: 1.0} for name in names})
        done = script("--describe")
        lines = done.out.splitlines()
        assert len(lines) == len(names)
        assert "{user=%3Cdefault%3E, client-id=%3Cdefault%3E} producer_byte_rate=1" in lines
        assert "{user=a%2520b, client-id=a%2520b} producer_byte_rate=1" in lines
        for line in lines:
            printed = line[1 : line.index("}")].replace(", ", ",")
            assert script("--alter", "--names", printed, "--delete", PRODUCE) == Result(0, "", "")
        assert cluster.read() == {}

    def test_what_is_printed_for_the_default_is_not_taken_for_a_name(self, script: Script, cluster: Cluster) -> None:
        """It was, and pasting it back made a quota of a user who is really called so."""
        for operation in (("--alter", "--add", f"{PRODUCE}=1"), ("--describe",), ("--resolve",)):
            done = script(*operation, "--names", "user=<default>")
            assert done.code == 1
            assert "write --defaults=user; a literal name <default> is written %3Cdefault%3E" in done.err
        assert cluster.read() == {}

    def test_values_are_exact_and_can_be_given_back(self, script: Script, cluster: Cluster) -> None:
        values = {
            PRODUCE: 2.0**63,
            CONSUME: 1024.0000005,
            "request_percentage": 0.1 + 0.2,
            "controller_mutation_rate": 1e308,
        }
        cluster.set(values, user="exact")
        printed = script("--describe", "--names=user=exact").out.split()[1:]
        assert printed[2:] == ["producer_byte_rate=9223372036854775808", "request_percentage=0.30000000000000004"]
        assert script("--alter", "--names=user=copy", "--add", ",".join(printed)) == Result(0, "", "")
        assert cluster.values(user="copy") == values

    def test_one_of_several_servers_is_enough(self, sandbox: Sandbox, cluster: Cluster) -> None:
        cluster.set({PRODUCE: 1.0}, user="a")
        servers = f"127.0.0.1:1,{sandbox.bootstrap_servers}"
        assert run("--bootstrap-server", servers, "--describe") == Result(0, "{user=a} producer_byte_rate=1\n", "")


class TestResolve:
    def test_an_empty_client_id_meets_no_quota_of_client_ids(self, script: Script, cluster: Cluster) -> None:
        cluster.alter({Entity(client_id=None): {PRODUCE: 6.0}, Entity(user=None): {CONSUME: 7.0}})
        assert script("--resolve", "--names=user=a,client-id=").out == f"{CONSUME}=7 {{user=<default>}}\n"
        both = f"{CONSUME}=7 {{user=<default>}}\n{PRODUCE}=6 {{client-id=<default>}}\n"
        assert script("--resolve", "--names=user=a,client-id=x") == Result(0, both, "")

    def test_an_omitted_name_is_one_that_no_quota_mentions_and_stderr_says_so(
        self, script: Script, cluster: Cluster
    ) -> None:
        """An omitted client-id was taken for an empty one, which nearly no client sends."""
        cluster.alter({Entity(client_id=None): {PRODUCE: 6.0}, Entity(client_id="x"): {PRODUCE: 7.0}})
        assert script("--resolve", "--names=user=a") == Result(
            0,
            f"{PRODUCE}=6 {{client-id=<default>}}\n",
            "kafka-client-quotas: resolved for a client-id that no quota mentions; producer_byte_rate differs for 1 "
            "client-id\n",
        )

    def test_a_default_is_one_whom_no_quota_names(self, script: Script, cluster: Cluster) -> None:
        cluster.alter({Entity(user="a"): {PRODUCE: 1.0}, Entity(user=None, client_id="x"): {PRODUCE: 2.0}})
        done = script("--resolve", "--defaults=user", "--names=client-id=x")
        assert done.out == f"{PRODUCE}=2 {{user=<default>, client-id=x}}\n"
        note = f"a user and a client-id that no quota mentions; {PRODUCE} differs for 1 client-id and 1 user"
        assumed = Result(0, "", f"kafka-client-quotas: resolved for {note}\n")
        assert script("--resolve", "--defaults=user,client-id") == script("--resolve", "--defaults=user") == assumed
        assumed = Result(0, "", "kafka-client-quotas: resolved for an ip that no quota mentions\n")
        assert script("--resolve", "--defaults=ip") == assumed

    def test_a_request_that_nobody_makes_is_refused(self, script: Script, cluster: Cluster) -> None:
        for words in ("--names=user=", "--names=ip=10.0.0.1,user=a", "--names=group=g", "--defaults=group"):
            done = script("--resolve", words)
            assert (done.code, done.out) == (1, "")
            assert done.err.startswith("kafka-client-quotas: ")


class TestAlter:
    def test_a_validation_is_silent_and_changes_nothing(self, script: Script, cluster: Cluster) -> None:
        assert script("--alter", "--names=user=a", f"--add={PRODUCE}=1", "--validate-only") == Result(0, "", "")
        assert cluster.read() == {}
        refused = script("--alter", "--names=user=a", f"--add={PRODUCE}=-1", "--validate-only")
        assert refused == Result(
            1, "", "kafka-client-quotas: user=a: Quota producer_byte_rate must be greater than 0\n"
        )

    def test_lists_and_repeated_options_add_up(self, script: Script, cluster: Cluster) -> None:
        done = script(
            "--alter", "--names", "user=a", "--names", "client-id=b",
            f"--add={PRODUCE}=1e3,{CONSUME}=2.5e3", "--add", "request_percentage=.5",
            "--delete=controller_mutation_rate,x",
        )  # fmt: skip
        assert done == Result(0, "", "")
        expected = {Entity(user="a", client_id="b"): {PRODUCE: 1000.0, CONSUME: 2500.0, "request_percentage": 0.5}}
        assert cluster.read() == expected

    @pytest.mark.parametrize(
        "value", ["NaN", "nan", "Infinity", "-inf", "1e999", "10MiB/s", "1_000", "0x10", "", " 1", "１"]
    )
    def test_what_is_no_finite_number_is_refused(self, script: Script, cluster: Cluster, value: str) -> None:
        done = script("--alter", "--names=user=a", f"--add={PRODUCE}={value}")
        assert (done.code, done.out) == (1, "")
        assert "is not a finite decimal number" in done.err
        assert cluster.read() == {}

    def test_a_name_cut_at_its_comma_changes_nothing_and_is_explained(self, script: Script, cluster: Cluster) -> None:
        done = script("--alter", "--names=user=CN=a,O=b", f"--add={PRODUCE}=1")
        assert (done.code, done.out) == (1, "")
        assert "Unhandled client quota entity type: O" in done.err
        assert 'is "O" part of a name? A name with a comma is written whole' in done.err
        assert script("--alter", "--names=user=CN=a%2CO=b", f"--add={PRODUCE}=1").code == 0
        expected = {Entity(user="CN=a%2CO=b"): {PRODUCE: 1.0}}
        assert cluster.read() == expected, "half sanitized is not sanitized"
        assert script("--alter", "--names=user=CN%3Da%2CO%3Db", f"--add={PRODUCE}=1").code == 0
        expected |= {Entity(user="CN=a,O=b"): {PRODUCE: 1.0}}
        assert cluster.read() == expected


class TestManners:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], "give one of --describe, --resolve, --alter"),
            (["--describe", "--alter"], "argument --alter: not allowed with argument --describe"),
            (["--resolve", "--describe", "--names=user=a"], "not allowed with argument --resolve"),
            (["--describe", "--add=x=1"], "--add can only be used with --alter"),
            (["--resolve", "--names=user=a", "--delete=x", "--validate-only"], "--delete and --validate-only can only"),
            (["--resolve"], "--resolve requires an entity"),
            (["--alter", "--add=x=1"], "--alter requires an entity"),
            (["--alter", "--names=user=a"], "--alter requires --add or --delete"),
            (["--describe", "--names=user"], '--names: "user" is not type=name'),
            (["--describe", "--names==a"], '--names: "=a" is not type=name'),
            (["--describe", "--names=user=a,"], "has an empty item"),
            (["--describe", "--names="], "has an empty item"),
            (["--describe", "--names=user=a,user=b"], 'the entity type "user" is given twice'),
            (["--describe", "--names=user=a", "--defaults=user"], 'the entity type "user" is given twice'),
            (["--describe", "--defaults=user=a"], "names go into --names"),
            (["--alter", "--names=user=a", "--add=x"], '--add: "x" is not key=value'),
            (["--alter", "--names=user=a", "--add=x=1", "--delete=x"], '--delete: "x" is given twice'),
            (["--alter", "--names=user=a", "--delete=x=1"], "is not the name of a quota key"),
            (["--describe", "--name=user=a"], "unrecognized arguments"),
            (["--describe", "--adminclient-property=secret"], "--adminclient-property is not key=value"),
            (["--describe", "--names=user=" + "x" * 32_768], "cannot be a name"),
            (["--describe", "--bootstrap-server=nonsense"], "is not host:port"),
        ],
        ids=" ".join,
    )
    def test_wrong_usage_exits_1_and_says_so_on_stderr(self, script: Script, arguments: list[str], words: str) -> None:
        done = script(*arguments)
        assert (done.code, done.out) == (1, "")
        assert words in done.err
        assert done.err.count("\n") == 1
        assert "secret" not in done.err

    def test_without_a_server_it_says_so(self) -> None:
        done = run("--describe")
        assert (done.code, done.out) == (1, "")
        assert "There is no bootstrap server to connect to" in done.err

    def test_nobody_there_is_one_sentence(self) -> None:
        done = run("--bootstrap-server", "127.0.0.1:1", "--describe")
        assert (done.code, done.out) == (1, "")
        assert "nothing listens at 127.0.0.1:1" in done.err

    def test_help_and_version_exit_0(self) -> None:
        done = run("--help")
        assert (done.code, done.err) == (0, "")
        options = "describe resolve alter names defaults add delete validate-only bootstrap-server command-config"
        for option in [*(f"--{name}" for name in options.split()), "--adminclient-property"]:
            assert option in done.out
        assert run("--version") == Result(0, f"kafka-client-quotas {__version__}\n", "")

    def test_a_broken_pipe_is_no_error(self, sandbox: Sandbox, cluster: Cluster) -> None:
        cluster.set({PRODUCE: 1.0}, user="a")
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
        text = secured_sandbox.client_properties(listener)
        file = tmp_path / "client.properties"
        file.write_text(text, encoding="utf-8")
        server = secured_sandbox.listeners[listener]
        by_file = run("--bootstrap-server", server, "--command-config", str(file), "--describe")
        assert (by_file.code, by_file.err) == (0, "")
        lines = [line for line in text.splitlines() if "=" in line and not line.startswith("#")]
        assert run("--bootstrap-server", server, "--adminclient-property", ",".join(lines), "--describe") == by_file
        wrong = file.read_text(encoding="utf-8").replace("admin-secret", "wrong")
        assert wrong != text
        file.write_text(wrong, encoding="utf-8")
        refused = run("--bootstrap-server", server, "--command-config", str(file), "--describe")
        assert (refused.code, refused.out) == (1, "")
        login = next(line for line in lines if line.startswith("sasl.jaas.config"))
        options = ["--command-config", str(file), "--adminclient-property", login]
        assert run("--bootstrap-server", server, *options, "--describe") == by_file
