"""The official gRPC clients through RocketMQ's own proxy, before our broker and a real one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from embedded_broker.kit.process import servers
from tests.interop.conftest import Done, serving_words
from tests.interop.grpc_clients import CLIENTS, SETTINGS, Address, served, told
from tests.interop.java_tools import CACHE
from tests.interop.real_proxy import real_proxy
from tests.interop.scenarios import Cell, Client

VERSION = "5.3.3"
AT_ONCE = 2
"""Where proxy, broker and clients have no time left, messages come twice."""
SERVERS = ("embedded", f"real {VERSION}")
CELLS = [
    pytest.param(
        client, scenario, server, id=f"{client.name}-{scenario}-{server}".replace(" ", "_")
    )
    for server in SERVERS
    for client in CLIENTS
    for scenario in client.scenarios
]


Look = Callable[[Client, str], dict[str, Cell]]


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    """What became of a client's scenarios: all run one time for each server, two at once."""
    begun: dict[str, dict[str, Future[dict[str, Cell]]]] = {}
    with contextlib.ExitStack() as life, ThreadPoolExecutor(AT_ONCE) as pool:

        def look(client: Client, server: str) -> dict[str, Cell]:
            if server not in begun:
                opened = open_front(server, tmp_path_factory.mktemp("front"))
                front = pool.submit(life.enter_context, opened)
                begun[server] = {
                    one.name: pool.submit(served, one, front.result) for one in CLIENTS
                }
            return told(client, begun[server][client.name])

        yield look


@contextlib.contextmanager
def open_front(server: str, home: Path) -> Iterator[Address]:
    """Start either server, and the proxy before it."""
    with contextlib.ExitStack() as life:
        if server == "embedded":
            options = [word for item in SETTINGS.items() for word in ("--set", "=".join(item))]
            words = life.enter_context(serving_words(*options))
            namesrv, broker = words["namesrv"], words["broker"]
        else:
            pair = servers(home / "real", VERSION, settings=SETTINGS, cache=CACHE, politely=False)
            real = life.enter_context(pair)
            namesrv, broker = real.namesrv_addr, real.broker_addr
        endpoints = life.enter_context(real_proxy(home / "proxy", namesrv, VERSION))
        yield Address(namesrv, broker, endpoints)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("client", "scenario", "server"), CELLS)
def test_a_grpc_client_gets_what_was_sent_once(
    look: Look, done: Done, client: Client, scenario: str, server: str
) -> None:
    cell = look(client, server)[scenario]
    done(f"{client.name}, {server}", scenario, cell)
    assert cell.wrong(scenario) is None
