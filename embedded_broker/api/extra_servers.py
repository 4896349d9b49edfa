"""Servers beside a broker's port: the control face over HTTP, and gRPC.

Answers: how ``control=True`` becomes a server. The server calls what a test calls, so its room lies
above this one and is named here, not imported; with it, what the extra ``control`` brings is loaded
only when somebody wants it. Must not know: HTTP. Read on: ``embedded_broker/control/server.py``,
``embedded_broker/lifecycle/running_brokers.py`` for when they start and end.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, Protocol

from embedded_broker.api.views import GrpcClientInfo, grpc_clients_of
from embedded_broker.errors import BrokerStateError
from embedded_broker.lifecycle.arguments import PORT_MAX, Arguments
from embedded_broker.lifecycle.running_brokers import RunningBrokers
from embedded_broker.tables.peer import is_loopback
from rocketmq_py.errors import ConfigError, how_to_install

ACCESS_CONTROL: Final = ("aclEnable", "authenticationEnabled", "authorizationEnabled")
CONTROL: Final = "embedded_broker.control.server"


class ControlFace(Protocol):
    """As much of the HTTP face as brokers know."""

    @property
    def url(self) -> str:
        """Where it is."""

    def start(self) -> None:
        """Answer requests; does nothing while it runs."""

    def close(self) -> None:
        """Answer no more; idempotent and bounded in time."""


def control_face(
    running: RunningBrokers,
    brokers: Callable[[], Sequence[object]],
    *,
    control: bool,
    port: int,
    token: str | None,
) -> ControlFace | None:
    """Let brokers that run together have an HTTP face; None when it is not wanted.

    Without a token it listens on loopback even if the brokers are reachable from other hosts.
    Raises ``ConfigError`` when the extra is not installed, for a bad port or token, for a port or
    token without ``control=True``, and for none with access control: whoever reaches the face may
    do everything.
    """
    if not control:
        for setting, value in (("control_port", port), ("control_token", token)):
            if value:
                told = value if setting == "control_port" else "<a token>"
                raise ConfigError(setting, told, "possible only with control=True")
        return None
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= PORT_MAX:
        raise ConfigError("control_port", port, f"0 (any free port) to {PORT_MAX}")
    try:
        module = import_module(CONTROL)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn", "anyio", "h11"}:
            raise
        wanted = f"{error}: {how_to_install('control')}"
        raise ConfigError("control", True, wanted) from error
    arguments = running.slots[0].arguments
    host, config = arguments.host, arguments.config
    if token is None and any(config.flag(name) for name in ACCESS_CONTROL):
        raise ConfigError("control_token", None, "needed: the HTTP face asks for no account")
    if token is None and not is_loopback(host):
        host = "127.0.0.1"
    face: ControlFace = module.ControlServer(brokers, host=host, port=port, token=token)
    running.extra_servers.append(face)
    return face


def grpc_address(
    owner: object, arguments: Arguments, running: RunningBrokers, *, tls: bool = False
) -> str:
    """Give where gRPC clients ask; ``BrokerStateError`` when nobody may, or not yet."""
    _check_grpc(owner, arguments)
    if tls and arguments.grpc_tls is None:
        raise BrokerStateError(f"{owner!r} has no TLS for gRPC clients: pass grpc_tls=...")
    if not any(running.grpc_ports):
        raise BrokerStateError(f"{owner!r} has no address yet: call start()")
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    return f"{host}:{running.grpc_ports[tls]}"


def grpc_clients(
    owner: object, arguments: Arguments, running: RunningBrokers
) -> tuple[GrpcClientInfo, ...]:
    """Give who is connected by gRPC; ``BrokerStateError`` when nobody may, or not now."""
    _check_grpc(owner, arguments)
    face = running.grpc
    return () if face is None else grpc_clients_of(face)


def _check_grpc(owner: object, arguments: Arguments) -> None:
    if arguments.grpc is None:
        raise BrokerStateError(f"{owner!r} lets no gRPC client in: pass grpc=True")


def control_url(owner: object, face: ControlFace | None) -> str:
    """Give the address of the HTTP face; ``BrokerStateError`` when there is none."""
    if face is None:
        raise BrokerStateError(f"{owner!r} has no HTTP face: pass control=True")
    return face.url
