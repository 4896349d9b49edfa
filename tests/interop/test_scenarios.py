"""Clients that others wrote do what teams do with them, on our broker and on a real 5.3.3 one."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator

import pytest

from rocketmq_py import DefaultMQProducer
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from tests.interop.conftest import Done, serving
from tests.interop.real_broker import RealCluster, real_cluster
from tests.interop.scenarios import CLIENTS, QUEUES, Cell, Client, run

SETTINGS = {"recallMessageEnable": "true", "enablePropertyFilter": "true"}
SERVERS = ("embedded", "real 5.3.3")
OURS_ALONE = {("ONS 1.8.8", "timers"), ("ali-ons 3.12", "timers")}
"""A real broker delivers at once what asks for a time in Aliyun's way."""
CELLS = [
    pytest.param(
        client, scenario, server, id=f"{client.name}-{scenario}-{server}".replace(" ", "_")
    )
    for server in SERVERS
    for client in CLIENTS
    for scenario in client.scenarios
    if server == "embedded" or (client.name, scenario) not in OURS_ALONE
]

Look = Callable[[Client, str], dict[str, Cell]]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The name server's address of either server, which is started when it is asked for."""
    known: dict[str, str] = {}
    with contextlib.ExitStack() as life:

        def address(server: str) -> str:
            if server not in known:
                if server == "embedded":
                    options = [
                        word for item in SETTINGS.items() for word in ("--set", "=".join(item))
                    ]
                    known[server] = life.enter_context(serving(*options))
                else:
                    home = tmp_path_factory.mktemp("real")
                    cluster: RealCluster = life.enter_context(real_cluster(home, settings=SETTINGS))
                    known[server] = cluster.namesrv_addr
            return known[server]

        yield address


@pytest.fixture(scope="module")
def look(servers: Callable[[str], str]) -> Look:
    """What became of a client's scenarios; it runs once for each server."""
    seen: dict[tuple[str, str], dict[str, Cell]] = {}

    def look(client: Client, server: str) -> dict[str, Cell]:
        key = client.name, server
        if key not in seen:
            # A name of its own: who broadcasts notes offsets at home, by names.
            name = client.name.replace(" ", "_").replace(".", "_")
            namesrv, prefix = servers(server), f"{name}_{uuid.uuid4().hex[:6]}"
            create_topics(namesrv, [f"{prefix}_{scenario}" for scenario in client.scenarios])
            seen[key] = run(client, namesrv, prefix)
        return seen[key]

    return look


def create_topics(namesrv: str, topics: list[str]) -> None:
    """A Java consumer looks for a topic that is new every 30 s only: make them before."""
    with DefaultMQProducer("makes", namesrv_addr=namesrv) as producer:
        for topic in topics:
            producer.create_topic(AUTO_CREATE_TOPIC, topic, QUEUES)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("client", "scenario", "server"), CELLS)
def test_a_client_gets_what_was_sent_once(
    look: Look, done: Done, client: Client, scenario: str, server: str
) -> None:
    if shutil.which(client.needs) is None:
        missing = f"{client.needs} not found: {client.name} is not run"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    cell = look(client, server)[scenario]
    done(f"{client.name}, {server}", scenario, cell)
    assert cell.wrong(scenario) is None
