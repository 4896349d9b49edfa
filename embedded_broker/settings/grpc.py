"""Settings of gRPC: ports, and what names and unknown topics mean.

Answers: what ``grpc=`` of an embedded broker may be. Must not know: protobuf, sockets. Read on:
``embedded_broker/grpc/server.py``.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Final, Literal, get_args

from attrs import field, frozen

from embedded_broker.settings.tls import Tls
from rocketmq_py.errors import ConfigError, how_to_install

NamespaceMode = Literal["ignore", "prefix"]
Strictness = Literal["5.3.3"]
PORT_MAX: Final = 65_535
LONG_POLLING_MIN_S: Final = 1
LONG_POLLING_MAX_S: Final = 20


SELF_SIGNED: Final = "self-signed"
OPENSSL_S: Final = 60


@frozen
class Certificates:
    """What a listener with TLS shows, in PEM, and which authorities it trusts."""

    chain: bytes = field(repr=False)
    key: bytes = field(repr=False)
    trusted: bytes | None = field(default=None, repr=False)
    asks_clients: bool = field(default=False, kw_only=True)


@frozen(kw_only=True)
class GrpcOptions:
    """The gRPC endpoint of an embedded broker, for RocketMQ's official 5.x clients.

    ``port`` and ``tls_port``: 0 takes a free one. ``namespace``: what the namespace of a client
    does; ``"ignore"`` leaves it out, as RocketMQ's proxy 5.3 does, ``"prefix"`` sets it before the
    names of topics and groups. ``auto_create``: a topic that a client asks for is created with the
    type MIXED. ``long_polling``: for how many seconds, 1 to 20, a receive waits at most, and those
    of push consumers do; several clients end only when their last receive has. ``strict``:
    ``"5.3.3"`` answers with the codes of RocketMQ's proxy of that release, which often say only
    that something failed (50001), and takes what that takes. Raises ``ConfigError`` for what is
    not possible.
    """

    port: int = 0
    tls_port: int = 0
    namespace: NamespaceMode = "ignore"
    auto_create: bool = False
    long_polling: float = LONG_POLLING_MAX_S
    strict: Strictness | None = None

    def __attrs_post_init__(self) -> None:
        for name in ("port", "tls_port"):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= PORT_MAX:
                raise ConfigError(f"grpc {name}", value, f"0 (any free port) to {PORT_MAX}")
        if self.port == self.tls_port != 0:
            raise ConfigError("grpc tls_port", self.tls_port, "it must differ from port")
        if self.namespace not in get_args(NamespaceMode):
            wanted = "one of " + ", ".join(get_args(NamespaceMode))
            raise ConfigError("grpc namespace", self.namespace, wanted)
        if type(self.auto_create) is not bool:
            raise ConfigError("grpc auto_create", self.auto_create, "True or False")
        seconds = self.long_polling
        is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not is_number or not LONG_POLLING_MIN_S <= seconds <= LONG_POLLING_MAX_S:
            wanted = f"{LONG_POLLING_MIN_S} to {LONG_POLLING_MAX_S} seconds"
            raise ConfigError("grpc long_polling", seconds, wanted)
        if self.strict not in {None, *get_args(Strictness)}:
            raise ConfigError("grpc strict", self.strict, "None or '5.3.3'")

    @property
    def long_polling_ms(self) -> int:
        """``long_polling`` in milliseconds."""
        return round(self.long_polling * 1000)


def checked_certificates(given: object) -> Certificates | None:
    """Read the argument ``grpc_tls``; None for none."""
    if given is None:
        return None
    if given == SELF_SIGNED:
        return self_signed()
    if isinstance(given, (str, os.PathLike)):
        given = Tls.from_file(given)
    if not isinstance(given, Tls):
        raise ConfigError("grpc_tls", given, f"{SELF_SIGNED!r}, Tls(...) or a tls.properties")
    if given.context is not None or given.key_password is not None or given.certificate is None:
        limit = "a Tls with the files certificate and key, the key without a password: gRPC's own"
        raise ConfigError("grpc_tls", given, limit)
    if given.client_certificates == "optional" or given.mode == "disabled":
        limit = "mode enforcing or permissive, client_certificates none or require, with gRPC"
        raise ConfigError("grpc_tls", given, limit)
    given.make_context()  # tries them
    chain = Path(given.certificate).read_bytes()
    key = chain if given.key is None else Path(given.key).read_bytes()
    trusted = None if given.trusted is None else Path(given.trusted).read_bytes()
    return Certificates(chain, key, trusted, asks_clients=given.client_certificates == "require")


def self_signed() -> Certificates:
    """Make a certificate for loopback that is signed by itself, by the program ``openssl``."""
    from subprocess import SubprocessError, run
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        chain, key = Path(folder) / "chain.pem", Path(folder) / "key.pem"
        command = [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "3650", "-subj", "/CN=localhost", "-keyout", str(key)),
            *("-out", str(chain), "-addext", "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost"),
        ]
        try:
            run(command, check=True, capture_output=True, timeout=OPENSSL_S)  # noqa: S603
        except (OSError, SubprocessError) as error:
            limit = f"made by the program openssl; else Tls(certificate=..., key=...): {error}"
            raise ConfigError("grpc_tls", SELF_SIGNED, limit) from error
        return Certificates(chain.read_bytes(), key.read_bytes())


def demand_grpc() -> None:
    """Raise ``ConfigError`` where the extra is not installed."""
    try:
        import_module("grpc.aio")
        import_module("google.protobuf.message_factory")
    except ImportError as error:
        raise ConfigError("grpc", True, f"{error}: {how_to_install('grpc')}") from error
