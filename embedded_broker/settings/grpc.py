"""How a broker is reached by gRPC clients: ports, and what names and unknown topics mean.

Answers: what ``grpc=`` of an embedded broker may be. Must not know: protobuf, sockets. Read on:
``embedded_broker/grpc/server.py``.
"""

from importlib import import_module
from typing import Final, Literal, get_args

from attrs import frozen

from rocketmq_py.errors import ConfigError, how_to_install

NamespaceMode = Literal["ignore", "prefix"]
PORT_MAX: Final = 65_535


@frozen(kw_only=True)
class GrpcOptions:
    """The gRPC endpoint of an embedded broker, for RocketMQ's official 5.x clients.

    ``port`` and ``tls_port``: 0 takes a free one. ``namespace``: what the namespace of a client
    does; ``"ignore"`` leaves it out, as RocketMQ's proxy 5.3 does, ``"prefix"`` sets it before the
    names of topics and groups. ``auto_create``: a topic that a client asks for is created with the
    type MIXED. Raises ``ConfigError`` for what is not possible.
    """

    port: int = 0
    tls_port: int = 0
    namespace: NamespaceMode = "ignore"
    auto_create: bool = False

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


def demand_grpc() -> None:
    """Raise ``ConfigError`` where the extra is not installed."""
    try:
        import_module("grpc.aio")
        import_module("google.protobuf.message_factory")
    except ImportError as error:
        raise ConfigError("grpc", True, f"{error}: {how_to_install('grpc')}") from error
