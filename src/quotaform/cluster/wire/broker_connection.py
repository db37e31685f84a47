"""A connection to one broker: frames, API versions, authentication, one request at a time."""

from __future__ import annotations

from ssl import SSLCertVerificationError, SSLContext
from threading import Event
from time import monotonic
from typing import Final

from quotaform import __version__
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.failure import (
    SASL_FAILED,
    CertificateError,
    CodeError,
    LoginError,
    NotKafkaError,
    Stage,
    TooOldError,
    UnprovenError,
)
from quotaform.cluster.wire.message import (
    INT32,
    UNSUPPORTED_VERSION,
    ApiVersions,
    BrokerRequest,
    BrokerVersions,
    ClusterMetadata,
    MalformedError,
    Metadata,
    ResponseT,
    SaslAuthenticate,
    SaslHandshake,
)
from quotaform.cluster.wire.stream import Stream
from quotaform.model.server import Server

MAX_FRAME: Final = 256 << 20
"""Over three million quotas; and less than what the first bytes of a TLS alert say when read as a length."""
_SESSION_SHARE: Final = 0.85
"""The part of a session's lifetime after which one authenticates again; Kafka's own clients choose 0.85 to 0.95."""


class BrokerConnection(Stream):
    """A connection to a broker; deadlines are times of `monotonic`.

    `versions` are the lowest and the highest that the broker speaks, by API key. `session_lifetime` is in seconds,
    0 for never; `throttle_ms` is how long the broker asked to wait in its last answer.
    """

    def __init__(
        self,
        server: Server,
        config: ClientConfig,
        *,
        ssl_context: SSLContext | None,
        closing: Event,
    ) -> None:
        """Describe a connection; `open` makes it.

        Once `closing` is set, every call ends.
        """
        super().__init__(closing)
        self.server = server
        self.stage = Stage.CONNECT
        self.versions: dict[int, tuple[int, int]] = {}
        self.session_lifetime = 0.0
        self.throttle_ms = 0
        self._config = config
        self._ssl_context = ssl_context
        self.client_id = config.client_id or f"quotaform/{__version__}"
        self._correlation_id = 0
        self._authenticate_at: float | None = None

    def open(self, deadline: float) -> ClusterMetadata:
        """Connect, authenticate, and return which cluster this is.

        Raises any cause of `quotaform.cluster.wire.failure`; `stage` says where.
        """
        self.connect(self.server, deadline)
        if self._ssl_context is not None:
            self.stage = Stage.TLS
            try:
                self.start_tls(self._ssl_context, self.server.host, deadline)
            except SSLCertVerificationError as error:
                raise CertificateError(error) from None
        self.stage = Stage.API_VERSIONS
        self.versions = dict(self._ask_versions(deadline).versions)
        if self._config.credentials is not None:
            self.stage = Stage.SASL
            deadline = self.authenticate(deadline)
        self.stage = Stage.METADATA
        return self.exchange(Metadata(), deadline)

    def _ask_versions(self, deadline: float) -> BrokerVersions:
        request = ApiVersions(__version__)
        version = request.VERSIONS[-1]
        answer = self.exchange(request, deadline, version)
        if answer.error_code == UNSUPPORTED_VERSION and version:
            _, newest = answer.versions.get(request.API_KEY, (0, 0))
            answer = self.exchange(request, deadline, max(0, min(newest, version - 1)))
        if answer.error_code:
            raise CodeError(answer.error_code)
        return answer

    def authenticate(self, deadline: float) -> float:
        """Authenticate with SASL; repeated on the same connection before a session expires (KIP-368).

        Getting a token or ticket, in which the broker has no part, moves the deadline; it is returned. Raises
        `LoginError` before anything was sent, `CodeError` if the server does not accept the mechanism or the
        credentials, and `LostError` if it hung up, as it does after wrong credentials.
        """
        credentials = self._config.credentials
        if credentials is None:
            return deadline
        begun_at = monotonic()
        steps = credentials.exchange(self.server.host)
        token = next(steps)
        deadline += monotonic() - begun_at
        if code := self.exchange(SaslHandshake(credentials.mechanism), deadline):
            raise CodeError(code)
        while True:
            begun_at = monotonic()
            answer = self.exchange(SaslAuthenticate(token), deadline)
            if answer.error_code:
                # A mechanism may know more of the reason.
                steps.throw(CodeError(SASL_FAILED))
                raise CodeError(SASL_FAILED)
            self.session_lifetime = lifetime = answer.session_lifetime_ms / 1000
            try:
                token = steps.send(answer.token)
            except StopIteration:
                break
            except (CodeError, LoginError, MalformedError):
                raise
            except Exception:
                # A mechanism reads what a server says before that has proved anything.
                raise UnprovenError from None
        self._authenticate_at = begun_at + _SESSION_SHARE * lifetime if lifetime > 0 else None
        return deadline

    @property
    def must_authenticate(self) -> bool:
        """Whether the session is about to expire, so the next request requires authentication."""
        return self._authenticate_at is not None and monotonic() >= self._authenticate_at

    def choose_version(self, request: BrokerRequest[ResponseT]) -> int:
        """Return the best version of a request that both sides speak."""
        lowest, highest = self.versions.get(request.API_KEY, (0, -1))
        known = [version for version in request.VERSIONS if lowest <= version <= highest]
        if not known:
            raise TooOldError
        return known[-1]

    def exchange(self, request: BrokerRequest[ResponseT], deadline: float, version: int | None = None) -> ResponseT:
        """Send a request and return its answer, in a version that was chosen for it unless one is given.

        Raises the causes of `quotaform.cluster.wire.failure`, or `OSError`.
        """
        version = self.choose_version(request) if version is None else version
        frame = self.encode(request, version)
        try:
            self.send(frame, deadline)
        except OSError as error:
            # The last response before the connection was closed is more informative.
            if isinstance(error, TimeoutError):
                raise
        return self.read_answer(request, version, deadline)

    def encode(self, request: BrokerRequest[ResponseT], version: int) -> bytes:
        """Return the bytes of the next request."""
        self._correlation_id = self._correlation_id + 1 & 0x7FFFFFFF
        return request.encode(version, correlation_id=self._correlation_id, client_id=self.client_id)

    def read_answer(
        self, request: BrokerRequest[ResponseT], version: int, deadline: float, silence: float | None = None
    ) -> ResponseT:
        """Return the answer to the request that was sent last; see `exchange` and `Stream.receive`."""
        head = self.receive(INT32.size, deadline, silence)
        (size,) = INT32.unpack(head)
        if not 0 <= size <= MAX_FRAME:
            raise NotKafkaError(head)
        if size < INT32.size:
            raise MalformedError(f"it has {size} bytes, fewer than the header of a response")
        if size > request.MAX_RESPONSE:
            raise MalformedError(f"it has {size:,} bytes, more than the limit of {request.MAX_RESPONSE:,}")
        answer = self.receive(size, deadline, silence)
        (correlation_id,) = INT32.unpack_from(answer)
        if correlation_id != self._correlation_id:
            raise MalformedError("it belongs to another request")
        decoded, self.throttle_ms = request.decode(answer, version)
        return decoded
