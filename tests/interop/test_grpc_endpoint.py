"""The official gRPC clients at our broker's own endpoint: no proxy, and a clock that can be moved.

``test_grpc_clients.py`` runs the same programs through RocketMQ's proxy, before a real broker, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from embedded_broker import EmbeddedBroker, GrpcOptions, VirtualClock
from tests.interop.conftest import Done
from tests.interop.grpc_clients import CLIENTS_OF_OURS, SETTINGS, Address, served, told
from tests.interop.scenarios import Cell, Client

CELLS = [
    pytest.param(client, scenario, id=f"{client.name}-{scenario}".replace(" ", "_"))
    for client in CLIENTS_OF_OURS
    for scenario in client.scenarios
]
Look = Callable[[Client], dict[str, Cell]]


def at_own_broker(client: Client) -> dict[str, Cell]:
    """Let a client do all that it can; nobody else feels it move the clock."""
    with contextlib.ExitStack() as life:

        def address() -> Address:
            broker = EmbeddedBroker(
                clock=VirtualClock(rate=1),
                config=SETTINGS,
                grpc=GrpcOptions(long_polling=1),  # a push consumer ends when its last receive does
                grpc_tls="self-signed",
                control=True,
            )
            life.enter_context(broker)
            variables = {"TLS_ENDPOINTS": broker.tls_endpoints, "CONTROL": broker.control_url}
            return Address(broker.namesrv_addr, broker.addr, broker.endpoints, variables)

        return served(client, address)


@pytest.fixture(scope="module")
def look() -> Iterator[Look]:
    """What became of a client's scenarios: all clients run at once."""
    begun: dict[str, Future[dict[str, Cell]]] = {}
    with ThreadPoolExecutor(len(CLIENTS_OF_OURS)) as pool:

        def look(client: Client) -> dict[str, Cell]:
            if not begun:
                for one in CLIENTS_OF_OURS:
                    begun[one.name] = pool.submit(at_own_broker, one)
            return told(client, begun[client.name])

        yield look


@pytest.mark.parametrize(("client", "scenario"), CELLS)
def test_a_grpc_client_gets_what_was_sent_once(
    look: Look, done: Done, client: Client, scenario: str
) -> None:
    cell = look(client)[scenario]
    done[f"{client.name}, endpoint", scenario] = cell
    assert cell.wrong(scenario) is None
