"""A Kerberos KDC of its own for tests: krb5kdc as a plain process on loopback, in a temporary folder."""

from __future__ import annotations

import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from socket import create_server
from textwrap import dedent
from typing import Final, Self

from quotaform.sandbox.configuration import HOST
from tests.waiting import wait_until

REALM: Final = "QUOTAFORM.TEST"
MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
INSTALL: Final = "apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc, then make setup"
_PATH: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))


def _command(name: str) -> str:
    found = which(name, path=_PATH)
    if found is None:
        raise AssertionError(f"{name} is not installed, which the tests of Kerberos need: {INSTALL}")
    return found


class Kdc:
    """A KDC of the realm QUOTAFORM.TEST, which `with` starts and stops; Java reads its `krb5_conf`, too."""

    def __enter__(self) -> Self:
        if find_spec("gssapi") is None:
            raise AssertionError(f"The Python module gssapi is not installed: {INSTALL}")
        self._temporary = tempfile.TemporaryDirectory(prefix="quotaform-kdc-")
        self.folder = Path(self._temporary.name)
        self.krb5_conf = self.folder / "krb5.conf"
        with create_server((HOST, 0)) as server:
            self.port = port = server.getsockname()[1]
        self.krb5_conf.write_text(
            dedent(f"""\
            [libdefaults]
                default_realm = {REALM}
                dns_lookup_kdc = false
                dns_lookup_realm = false
                dns_canonicalize_hostname = false
                rdns = false
                udp_preference_limit = 1
            [realms]
                {REALM} = {{
                    kdc = {HOST}:{port}
                }}
            """),
            encoding="utf-8",
        )
        (self.folder / "kdc.conf").write_text(
            dedent(f"""\
            [kdcdefaults]
                kdc_ports = {port}
                kdc_tcp_ports = {port}
                kdc_listen = {HOST}:{port}
                kdc_tcp_listen = {HOST}:{port}
            [realms]
                {REALM} = {{
                    database_name = {self.folder}/principal
                    key_stash_file = {self.folder}/stash
                    acl_file = {self.folder}/kadm5.acl
                    supported_enctypes = aes256-cts-hmac-sha1-96:normal
                    default_principal_flags = +preauth
                    max_life = 1h
                }}
            [logging]
                kdc = FILE:{self.folder}/kdc.log
            """),
            encoding="utf-8",
        )
        self.environ = {
            **os.environ,
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": str(self.folder / "ccache"),
            "LC_ALL": "C",
        }
        try:
            self._run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
            self._process = subprocess.Popen(
                [_command("krb5kdc"), "-n", "-P", str(self.folder / "pid")],
                env=self.environ,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except BaseException:
            self._temporary.cleanup()
            raise
        # It is written once the sockets are bound.
        wait_until((self.folder / "pid").exists)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._temporary.cleanup()

    def add(self, principal: str) -> Path:
        """Add a principal with a random key, unless it is there, and return its keytab, a new one each time."""
        keytab = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.admin(f"addprinc -randkey {principal}")
        self.admin(f"ktadd -norandkey -k {keytab} {principal}")
        return keytab

    def admin(self, query: str) -> None:
        """Run a command of kadmin, such as `cpw -randkey NAME`: the keytabs of the principal are void then."""
        self._run("kadmin.local", "-r", REALM, "-q", query)

    def ticket(self, principal: str, keytab: Path, *options: str) -> Path:
        """Return a new ticket cache with a ticket that was got by a keytab."""
        cache = self.folder / f"{principal}.ccache"
        self._run("kinit", *options, "-c", str(cache), "-k", "-t", str(keytab), principal)
        return cache

    @property
    def jvm_options(self) -> tuple[str, ...]:
        return (f"-Djava.security.krb5.conf={self.krb5_conf}",)

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [_command(name), *arguments], env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise AssertionError(f"{name}: {done.stderr}")


def broker_properties(keytab: Path, principal: str, *listeners: str) -> dict[str, str]:
    """Return what a broker needs to take tickets; `jvm_options` go with it, and `sasl.enabled.mechanisms` is its own.

    `keytab`: of the broker's principal. `principal`: such as `kafka/localhost`. `listeners`: the names of listeners
    with SASL.
    """
    line = f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}";'
    return {"sasl.kerberos.service.name": "kafka"} | {
        f"listener.name.{listener.lower()}.gssapi.sasl.jaas.config": line for listener in listeners
    }
