"""The official gRPC clients at our broker's own endpoint: no proxy, and a clock that can be moved.

``test_grpc_clients.py`` runs the same programs through RocketMQ's proxy, before a real broker, too.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from embedded_broker import AuthUser, EmbeddedBroker, GrpcOptions, UserAcl, VirtualClock
from tests.interop.conftest import Done
from tests.interop.grpc_clients import CLIENTS_OF_OURS, SETTINGS, Address, served, told
from tests.interop.scenarios import Cell, Client

CELLS = [
    pytest.param(client, scenario, id=f"{client.name}-{scenario}".replace(" ", "_"))
    for client in CLIENTS_OF_OURS
    for scenario in client.scenarios
]
ACCOUNT, SECRET = "reader", "a secret of its own"
Look = Callable[[Client], dict[str, Cell]]


@contextlib.contextmanager
def own_broker() -> Iterator[Address]:
    """A broker for one client: nobody else feels it move the clock."""
    with (
        TemporaryDirectory() as folder,
        EmbeddedBroker(
            clock=VirtualClock(rate=1),
            config=SETTINGS,
            grpc=GrpcOptions(long_polling=1),  # a push consumer ends when its last receive does
            grpc_tls="self-signed",
            control=True,
        ) as broker,
        EmbeddedBroker(
            grpc=GrpcOptions(auto_create=True, long_polling=1),
            acl=UserAcl(users=(AuthUser(username=ACCOUNT, password=SECRET, superuser=True),)),
        ) as signed,
    ):
        host, port = broker.tls_endpoints.split(":")
        authority = Path(folder) / "authority.pem"
        authority.write_text(ssl.get_server_certificate((host, int(port))), encoding="ascii")
        variables = {
            "TLS_ENDPOINTS": broker.tls_endpoints,
            "CONTROL": broker.control_url,
            "SIGNED_ENDPOINTS": signed.endpoints,
            "ACCESS_KEY": ACCOUNT,
            "SECRET_KEY": SECRET,
            # Of the clients in Python and Node; the others trust any server.
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(authority),
        }
        yield Address(broker.namesrv_addr, broker.addr, broker.endpoints, variables)


def at_broker(client: Client, address: Address) -> dict[str, Cell]:
    """Let a client do all that it can."""
    return served(client, lambda: address)


@pytest.fixture(scope="module")
def look() -> Iterator[Look]:
    """What became of a client's scenarios: all clients run at once."""
    begun: dict[str, Future[dict[str, Cell]]] = {}
    with contextlib.ExitStack() as life:
        brokers = [life.enter_context(own_broker()) for _ in CLIENTS_OF_OURS]
        pool = life.enter_context(ThreadPoolExecutor(len(brokers)))
        for client, address in zip(CLIENTS_OF_OURS, brokers, strict=True):
            begun[client.name] = pool.submit(at_broker, client, address)
        yield lambda client: told(client, begun[client.name])


@pytest.mark.case("G24", "G26", "G28", "G30", "G32", "G41", "G42", "G44")
@pytest.mark.case("G5", "G45", "G46", "G47", "G48", "G52", "G53", "G60", "G70")
@pytest.mark.parametrize(("client", "scenario"), CELLS)
def test_a_grpc_client_gets_what_was_sent_once(
    look: Look, done: Done, client: Client, scenario: str
) -> None:
    cell = look(client)[scenario]
    done(f"{client.name}, endpoint", scenario, cell)
    assert cell.wrong(scenario) is None
