"""The official gRPC clients through RocketMQ's own proxy, before our broker and a real one."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from attrs import frozen

from embedded_broker.kit.backend import BackendError
from embedded_broker.kit.process import servers
from rocketmq_py import DefaultMQProducer
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from tests.interop.conftest import Done, serving_words
from tests.interop.grpc_clients import CLIENTS, KINDS, ORDERLY
from tests.interop.java_tools import CACHE
from tests.interop.real_proxy import real_proxy
from tests.interop.scenarios import QUEUES, Cell, Client, run
from tests.unit.embedded_broker.wire_peer import WirePeer

SETTINGS = {
    "recallMessageEnable": "true",
    "enablePropertyFilter": "true",
    "transactionTimeOut": "1500",
    "transactionCheckInterval": "1000",
}
SOON_AGAIN = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [100]}}
"""The clients are told of it by the proxy, which reads the group's settings."""
VERSION = "5.3.3"
SERVERS = ("embedded", f"real {VERSION}")
CELLS = [
    pytest.param(
        client, scenario, server, id=f"{client.name}-{scenario}-{server}".replace(" ", "_")
    )
    for server in SERVERS
    for client in CLIENTS
    for scenario in client.scenarios
]


@frozen
class Front:
    """A broker with a proxy before it."""

    namesrv: str
    broker: str
    endpoints: str


Look = Callable[[Client, str], dict[str, Cell]]


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    """What became of a client's scenarios: all clients run at once, one time for each server."""
    begun: dict[str, dict[str, Future[dict[str, Cell]]]] = {}
    with contextlib.ExitStack() as life, ThreadPoolExecutor(1 + len(CLIENTS)) as pool:

        def look(client: Client, server: str) -> dict[str, Cell]:
            if server not in begun:
                opened = open_front(server, tmp_path_factory.mktemp("front"))
                front = pool.submit(life.enter_context, opened)
                begun[server] = {one.name: pool.submit(served, one, front) for one in CLIENTS}
            try:
                return begun[server][client.name].result()
            except BackendError as error:
                missing = f"{client.name} is not run: {error}"
                if os.environ.get("CI"):
                    pytest.fail(missing)
                pytest.skip(missing)

        yield look


@contextlib.contextmanager
def open_front(server: str, home: Path) -> Iterator[Front]:
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
        yield Front(namesrv, broker, endpoints)


def served(client: Client, front: Future[Front]) -> dict[str, Cell]:
    """Make topics and groups, and let the client do all that it can."""
    client.program()
    name = client.name.replace(" ", "_").replace(".", "_")
    prefix = f"{name}_{uuid.uuid4().hex[:6]}"
    prepare(front.result(), prefix, client)
    return run(client, front.result().endpoints, prefix)


def prepare(front: Front, prefix: str, client: Client) -> None:
    """Create topics of the right kinds, and the groups that are served in order.

    Of these, each message is tried twice. A consumer starts when its topic is there, so the one of
    dead letters is made, too.
    """
    topics = {f"{prefix}_{one}": KINDS.get(one, "NORMAL") for one in client.scenarios}
    topics[f"%DLQ%{prefix}_dead_letters_group"] = "NORMAL"
    with DefaultMQProducer(f"{prefix}_makes", namesrv_addr=front.namesrv) as producer:
        for topic, kind in topics.items():
            attributes = {"message.type": kind}
            producer.create_topic(AUTO_CREATE_TOPIC, topic, QUEUES, attributes=attributes)
    with WirePeer(front.broker) as peer:
        for scenario in ORDERLY:
            group = SubscriptionGroupConfig(
                f"{prefix}_{scenario}_group",
                consume_message_orderly=True,
                retry_max_times=1,
                group_retry_policy=SOON_AGAIN,
            )
            answer = peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
            assert answer.code == 0, answer.remark


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("client", "scenario", "server"), CELLS)
def test_a_grpc_client_gets_what_was_sent_once(
    look: Look, done: Done, client: Client, scenario: str, server: str
) -> None:
    cell = look(client, server)[scenario]
    done[f"{client.name}, {server}", scenario] = cell
    assert cell.wrong(scenario) is None
