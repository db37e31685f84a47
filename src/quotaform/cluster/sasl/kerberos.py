"""GSSAPI (RFC 4752): Kerberos tickets of a ticket cache or a keytab, by the library that the system has for it."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address
from secrets import token_hex
from socket import gethostbyaddr
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from quotaform.cluster.client.config import Exchange
from quotaform.cluster.client.properties import ClientProperties
from quotaform.cluster.sasl.jaas import read_jaas, render_jaas
from quotaform.cluster.wire.failure import LoginError
from quotaform.model.errors import missing_extra
from quotaform.model.text import inert

if TYPE_CHECKING:
    from gssapi import Credentials
    from gssapi.exceptions import GSSError

_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_SERVICE: Final = "sasl.kerberos.service.name"
_LARGEST_KEYTAB: Final = 1 << 20
FORM: Final = (
    f"write: sasl.jaas.config={_MODULE} required useTicketCache=true; or, with a keytab, useKeyTab=true"
    ' keyTab="FILE" principal="NAME@REALM" instead'
)
_NO_LAYER: Final = b"\x01\0\0\0"
"""What Kafka's messages have after authentication: they are neither signed nor encrypted by Kerberos."""
_ERRORS: Final = {
    -1765328377: (
        "the KDC does not know the service {service}",
        f"check {_SERVICE}, and that bootstrap.servers has the host name of the broker's principal",
    ),
    -1765328360: (
        "the KDC did not accept the key of {who} in the keytab",
        "write a new keytab: the password was changed after this one was written",
    ),
    -1765328352: ("the Kerberos ticket of {who} has expired", "run kinit, or use a keytab (useKeyTab=true)"),
    -1765328347: ("the clocks of this machine and the KDC differ too much", "set the clock of this machine"),
    -1765328228: ("no KDC can be reached for {who}", "check its address in krb5.conf, and firewalls on the way to it"),
}
"""What to say and do, by the codes of MIT Kerberos (`krb5_err.et`); other errors are told in its own words."""
_ABSENT: Final = frozenset({-1765328243, -1765328203, -1765328189, 39756032 - (1 << 32), 39756033 - (1 << 32)})
"""Codes for a ticket cache or keytab that does not exist, or has nothing of the principal."""


class Kerberos(Struct, frozen=True, kw_only=True):
    """Where Kerberos tickets come from. Files are opened when one authenticates, on the machine that does."""

    service: str  # the first part of the broker's principal, such as `kafka`
    principal: str | None = None
    keytab: str | None = None
    uses_cache: bool = False  # whether a ticket of the ticket cache is taken; it goes before the keytab
    cache: str | None = None  # the ticket cache; `None` for that of the process (`KRB5CCNAME`, or the library's own)
    is_shown: bool = True  # whether messages may repeat these values: none comes from a variable
    mechanism: str = "GSSAPI"
    check = "check the broker's keytab, and that its clock and that of this machine agree"

    @property
    def who(self) -> str:
        """What messages call the client; asks the ticket cache, in which it is known until it expires."""
        if not self.is_shown:
            return "the principal of sasl.jaas.config"
        try:
            return f"principal {self.principal or _name(self._ticket())}"
        except Exception:
            return "the ticket cache"

    def exchange(self, host: str) -> Exchange:
        try:
            from gssapi import MechType, Name, NameType, SecurityContext
            from gssapi import RequirementFlag as Flag
            from gssapi.exceptions import GSSError
        except (ImportError, OSError):
            raise LoginError("GSSAPI needs the Python module gssapi", missing_extra("kerberos")) from None
        named = host
        with suppress(ValueError, OSError):
            # Like Java, ask DNS for the name of an address (`InetAddress.getHostName`).
            named = gethostbyaddr(str(ip_address(host)))[0]
        try:
            ticket = self._ticket()
            flags = [Flag.mutual_authentication, Flag.integrity]
            # A canonical name from DNS counts, as in Java, if it extends the given one.
            name = Name(f"{self.service}@{named}", NameType.hostbased_service).canonicalize(MechType.kerberos)
            found, realm = str(name).removeprefix(f"{self.service}/").rsplit("@", 1)
            if found != named.lower() and not found.startswith(f"{named.lower()}."):
                name = Name(f"{self.service}/{named.lower()}@{realm}", NameType.kerberos_principal)
            context = SecurityContext(name=name, creds=ticket, usage="initiate", mech=MechType.kerberos, flags=flags)
            token = context.step()
        except (GSSError, NotImplementedError) as error:
            raise self._login_error(error, named, host) from None
        while not context.complete:
            token = context.step((yield token or b""))
        if Flag.mutual_authentication not in context.actual_flags:
            raise ValueError("the server has not authenticated itself")
        layers = context.unwrap((yield token or b"")).message
        if len(layers) != len(_NO_LAYER) or not layers[0] & _NO_LAYER[0]:
            raise ValueError("the server offers no authentication alone, without a layer")
        yield context.wrap(_NO_LAYER + _name(ticket).encode(), False).message

    def _ticket(self) -> Credentials:
        """Return what to authenticate with; what a keytab leads to is kept in no file and met by no other thread."""
        from gssapi import Credentials, MechType, Name, NameType
        from gssapi.exceptions import GSSError

        def acquire(store: dict[str, str] | None) -> Credentials:
            return Credentials(name=name, usage="initiate", mechs=[MechType.kerberos], store=store)

        name = None if self.principal is None else Name(self.principal, NameType.kerberos_principal)
        cached = None if self.cache is None else {"ccache": self.cache}
        if self.keytab is None:
            return acquire(cached)
        if self.uses_cache:
            try:
                if (ticket := acquire(cached)).lifetime:
                    return ticket
            except GSSError:
                pass
        return acquire({"client_keytab": self.keytab, "ccache": f"MEMORY:{token_hex(8)}"})

    def _login_error(self, error: GSSError | NotImplementedError, named: str, host: str) -> LoginError:
        if isinstance(error, NotImplementedError):
            return LoginError("the Kerberos library takes no keytab or ticketCache", "install that of MIT (libkrb5)")
        code = (error.min_code & 0xFFFFFFFF) - (1 << 32)
        who = self.who
        service = f"{self.service}/{{name}}" if self.is_shown else f"of {_SERVICE}"
        if known := _ERRORS.get(code):
            return LoginError(known[0].format(who=who, service=service), known[1], name=named)
        if code in _ABSENT:
            if self.keytab is not None:
                return LoginError(f"the keytab has no key of {who}", "check keyTab and principal (klist -k FILE)")
            of = "" if self.principal is None else f" of {who}"
            return LoginError(f"the ticket cache has no ticket{of}", "run kinit, or use a keytab (useKeyTab=true)")
        text = inert(" ".join(error.get_all_statuses(error.min_code, False)))
        text = text.replace(named, "{name}").replace(host, "{name}")
        why = f" ({text})" if self.is_shown else ""
        problem = f"Kerberos gave no ticket for the service {service}{why}"
        return LoginError(problem, "check krb5.conf and principal", name=named)

    def java_properties(self) -> dict[str, str]:
        options = {"useTicketCache": str(self.uses_cache).lower(), "ticketCache": self.cache, "doNotPrompt": "true"}
        options |= {"useKeyTab": "true", "keyTab": self.keytab} if self.keytab else {}
        options |= {"principal": self.principal}
        line = render_jaas(_MODULE, {name: value for name, value in options.items() if value is not None})
        return {"sasl.mechanism": self.mechanism, "sasl.jaas.config": line, _SERVICE: self.service}


def read(reader: ClientProperties, mechanism: str) -> Kerberos:
    """Return what `sasl.jaas.config` and `sasl.kerberos.service.name` say."""
    key = "sasl.jaas.config"
    forgotten = (
        "" if reader.has("sasl.mechanism") else "sasl.mechanism is missing and means GSSAPI (Kerberos): set it, or "
    )
    options = read_jaas(reader, [_MODULE.rpartition(".")[2]], forgotten + FORM)
    principal, keytab = options.get("principal"), options.get("keyTab", "").removeprefix("FILE:")
    uses_cache, uses_keytab = (options.get(name, "").lower() == "true" for name in ("useTicketCache", "useKeyTab"))
    service = options.get("serviceName") or reader.get(_SERVICE) or ""
    if not service:
        reader.report(key, f"{_SERVICE} is missing; set it to the first part of the broker's principal, often kafka")
    elif reader.has(_SERVICE) and service != reader.get(_SERVICE):
        reader.report(_SERVICE, f"{_SERVICE} and the serviceName of {key} differ; remove one")
    if not (uses_cache or uses_keytab) or (options.get("ticketCache") and not uses_cache):
        reader.report(key, f"{key} cannot be used: it has no useTicketCache=true; {FORM}")
    if uses_keytab != bool(keytab) or (uses_keytab and not principal):
        reader.report(key, f"{key} cannot be used: useKeyTab=true, keyTab and principal go together; {FORM}")
    elif uses_keytab:
        keytab = str(reader.read_file(key, keytab, _LARGEST_KEYTAB, f"{key} names a keytab")[0])
    return Kerberos(
        service=service,
        principal=principal or None,
        keytab=keytab or None,
        uses_cache=uses_cache,
        cache=options.get("ticketCache") or None,
        is_shown=all(reader.written(each) == reader.get(each) for each in (key, _SERVICE) if reader.has(each)),
    )


def _name(ticket: Credentials) -> str:
    return str(ticket.inquire(lifetime=False, usage=False, mechs=False).name)
