"""What every client of the 5.0 API has: where its servers are, start and end.

Must not know sending and receiving; `producer` and the consumers derive from `Client`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, Self, TypedDict

import rocketmq_py
from compat.v5.errors import IllegalArgumentException, translated

if TYPE_CHECKING:
    from rocketmq_py.config import CredentialsSource

REQUEST_TIMEOUT_S: Final = 3
_MILLISECOND: Final = timedelta(milliseconds=1)
_SCHEMES: Final = ("http://", "https://", "grpc://")


class Credentials:
    """The key pair that signs requests; without keys nothing is signed. Its repr hides the secret.

    ``sts`` is the token of a temporary account.
    """

    def __init__(self, ak: str | None = "", sk: str | None = "", sts: str | None = None) -> None:
        self._ak = ak or ""
        self._sk = sk or ""
        self._sts = sts

    @property
    def ak(self) -> str:
        """The access key."""
        return self._ak

    @property
    def sk(self) -> str:
        """The secret key."""
        return self._sk

    @property
    def source(self) -> CredentialsSource | None:
        """The same for the SDK; None: nothing is signed."""
        if not self._ak and not self._sk:
            return None
        return rocketmq_py.Credentials(self._ak, self._sk, self._sts)

    def __repr__(self) -> str:
        return f"Credentials(ak={self._ak!r}, sk={'***' if self._sk else ''!r})"


class ClientConfiguration:
    """Where the servers are, and as whom a client speaks to them.

    ``endpoints`` are **name servers** as ``host:port;host:port``, not the proxy that the official
    client connects to. ``credentials``: `Credentials`, or a function that gives the SDK's
    `rocketmq_py.Credentials` and is asked for each request. ``request_timeout`` is in seconds, or
    a timedelta. Raises IllegalArgumentException for values that cannot be, TypeError for endpoints
    that are no text.
    """

    def __init__(
        self,
        endpoints: str,
        credentials: Credentials | CredentialsSource | None = None,
        namespace: str = "",
        request_timeout: float | timedelta = REQUEST_TIMEOUT_S,
        *,
        ssl_enabled: bool = False,
    ) -> None:
        if not isinstance(endpoints, str):
            raise TypeError(f"endpoints are a str like 'host:port;host:port', not {endpoints!r}")
        addresses = [one.strip() for one in endpoints.split(";") if one.strip()]
        for scheme in _SCHEMES:
            addresses = [one.removeprefix(scheme) for one in addresses]
        if not addresses:
            raise IllegalArgumentException("endpoints must name a name server, as host:port")
        self._addresses = ";".join(addresses)
        self._credentials = credentials
        self._namespace = namespace
        self._request_timeout_ms = milliseconds_of(request_timeout, "request_timeout", least_ms=1)
        self._ssl_enabled = ssl_enabled
        with translated():
            rocketmq_py.ClientConfig(**settings_of(self))

    @property
    def endpoints(self) -> str:
        """The name servers, as ``host:port;host:port``."""
        return self._addresses

    @property
    def credentials(self) -> Credentials | CredentialsSource | None:
        """Who signs requests."""
        return self._credentials

    @property
    def namespace(self) -> str:
        """What servers put before topics and groups of the program."""
        return self._namespace

    @property
    def request_timeout(self) -> float:
        """How long one request may take, in seconds."""
        return self._request_timeout_ms / 1000

    @property
    def ssl_enabled(self) -> bool:
        """Whether connections are encrypted."""
        return self._ssl_enabled

    @property
    def request_timeout_ms(self) -> int:
        """The same in milliseconds."""
        return self._request_timeout_ms

    def __repr__(self) -> str:
        return f"ClientConfiguration({self._addresses!r}, namespace={self._namespace!r})"


class Settings(TypedDict):
    """What a `ClientConfiguration` says to each client of the SDK."""

    namesrv_addr: str
    credentials: CredentialsSource | None
    namespace_v2: str
    mq_client_api_timeout: int
    use_tls: bool


class ClientConfigurationBuilder:
    """Builds a `ClientConfiguration` with the setters of the 5.0 documents."""

    def __init__(self) -> None:
        self._endpoints = ""
        self._credentials: Credentials | CredentialsSource | None = None
        self._namespace = ""
        self._request_timeout: float | timedelta = REQUEST_TIMEOUT_S
        self._ssl_enabled = False

    def set_endpoints(self, endpoints: str) -> Self:
        """Set the name servers, as ``host:port;host:port``."""
        self._endpoints = endpoints
        return self

    def set_credential_provider(self, credentials: Credentials | CredentialsSource) -> Self:
        """Set who signs requests."""
        self._credentials = credentials
        return self

    def set_namespace(self, namespace: str) -> Self:
        """Set the namespace."""
        self._namespace = namespace
        return self

    def set_request_timeout(self, request_timeout: float | timedelta) -> Self:
        """Set how long one request may take, in seconds or as a timedelta."""
        self._request_timeout = request_timeout
        return self

    def enable_ssl(self, ssl_enabled: bool) -> Self:
        """Set whether connections are encrypted."""
        self._ssl_enabled = ssl_enabled
        return self

    def build(self) -> ClientConfiguration:
        """Give the configuration; raises as it does."""
        return ClientConfiguration(
            self._endpoints,
            self._credentials,
            self._namespace,
            self._request_timeout,
            ssl_enabled=self._ssl_enabled,
        )


class Engine(Protocol):
    """A client of the SDK."""

    @property
    def client_id(self) -> str:
        """Its name at brokers."""

    @property
    def is_running(self) -> bool:
        """Whether it is started and not shut down."""

    def start(self) -> None:
        """Get ready."""

    def shutdown(self) -> None:
        """End it."""

    def check_running(self) -> None:
        """Raise unless it runs."""


class Client:
    """Base of producers and consumers: `startup`, `shutdown`, and ``with`` for both.

    Its threads are daemons, so it keeps no program alive.
    """

    def __init__(self, client_configuration: ClientConfiguration, engine: Engine) -> None:
        self._client_configuration = client_configuration
        self._client = engine

    @property
    def client_configuration(self) -> ClientConfiguration:
        """What it was made with."""
        return self._client_configuration

    @property
    def client_id(self) -> str:
        """Its name at brokers; IllegalStateException before the start."""
        with translated():
            return self._client.client_id

    @property
    def is_running(self) -> bool:
        """Whether it is started and not shut down."""
        return self._client.is_running

    def startup(self) -> None:
        """Get ready; no server needs to be reachable yet."""
        with translated():
            self._client.start()

    def shutdown(self) -> None:
        """End it for good, within little more than 3 seconds. May be called again."""
        self._client.shutdown()

    def close(self) -> None:
        """Do what `shutdown` does, under the documents' name."""
        self.shutdown()

    def __enter__(self) -> Self:
        """Start, unless it is running already."""
        if not self.is_running:
            self.startup()
        return self

    def __exit__(self, *exception: object) -> None:
        """Shut down."""
        self.shutdown()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._client!r})"

    def _check_running(self) -> None:
        with translated():
            self._client.check_running()


def milliseconds_of(
    span: float | timedelta, name: str, *, least_ms: int, most_ms: int | None = None
) -> int:
    """Read seconds, or a timedelta, as milliseconds; IllegalArgumentException out of range."""
    if isinstance(span, bool) or not isinstance(span, (int, float, timedelta)):
        raise TypeError(
            f"{name} is a number of seconds or a timedelta, not {type(span).__name__} {span!r}"
        )
    try:
        whole = span if isinstance(span, timedelta) else timedelta(seconds=span)
        span_ms = -(-whole // _MILLISECOND)
    except (OverflowError, ValueError):  # too long, or no number at all
        span_ms = least_ms - 1
    if span_ms < least_ms or (most_ms is not None and span_ms > most_ms):
        most = "" if most_ms is None else f" to {most_ms / 1000:g}"
        raise IllegalArgumentException(
            f"{name} = {span!r} is not possible: seconds, or a timedelta, from "
            f"{least_ms / 1000:g}{most}"
        )
    return span_ms


def settings_of(configuration: ClientConfiguration, *, tls_enable: bool = False) -> Settings:
    """Give a configuration as the SDK's settings; a client may ask for TLS by itself, too.

    Raises TypeError for what is no configuration.
    """
    if not isinstance(configuration, ClientConfiguration):
        raise TypeError(
            f"a client needs a ClientConfiguration, not {configuration!r}: "
            "ClientConfiguration('host:port')"
        )
    known = configuration.credentials
    return Settings(
        namesrv_addr=configuration.endpoints,
        credentials=known.source if isinstance(known, Credentials) else known,
        namespace_v2=configuration.namespace,
        mq_client_api_timeout=configuration.request_timeout_ms,
        use_tls=configuration.ssl_enabled or tls_enable,
    )
