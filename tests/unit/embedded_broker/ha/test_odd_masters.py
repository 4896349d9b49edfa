"""A slave of servers that say what makes no sense: it warns, and follows as soon as it can."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.ha import request_line
from embedded_broker.ha.client import HAClient
from embedded_broker.ha.request_line import RequestLine
from embedded_broker.store.following import Follower
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.namesrv import RegisterBrokerResponseHeader
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.ha.raw_slave import service_of
from tests.unit.embedded_broker.store.store_tools import new_store
from tests.unit.rocketmq_py.scripted import Peer, ScriptedServer
from tests.waiting import until

ODD_ANSWERS = {
    RequestCode.GET_ALL_TOPIC_CONFIG: b"[]",
    RequestCode.GET_ALL_CONSUMER_OFFSET: b'{"offsetTable":{"T@G":[7]}}',
    RequestCode.GET_ALL_DELAY_OFFSET: b"[]",
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: b"7",
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: b'{"messageRequestModeMap":{"T":1}}',
    RequestCode.GET_TIMER_CHECK_POINT: b"{}",
}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    made = ScriptedServer()
    yield made
    made.close()


def test_a_table_that_is_none_leaves_the_others_to_be_asked_for(
    start_broker: StartBroker, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    def register(request: RemotingCommand, _: Peer) -> RemotingCommand:
        found = RegisterBrokerResponseHeader(master_addr=server.address)
        return request.answer(ResponseCode.SUCCESS, ext_fields=found.to_ext())

    def answer(request: RemotingCommand, _: Peer) -> RemotingCommand:
        return request.answer(ResponseCode.SUCCESS, body=ODD_ANSWERS[RequestCode(request.code)])

    server.on(RequestCode.REGISTER_BROKER, register)
    for code in ODD_ANSWERS:
        server.on(code, answer)
    slave = {"brokerRole": "SLAVE", "brokerId": 1, "namesrvAddr": server.address}
    start_broker(config=slave, topics=["T"])
    for code in ODD_ANSWERS:
        server.wait_for(code)
    assert f"master {server.address}: " in caplog.text


def test_an_address_that_is_none_is_told_and_the_next_one_is_followed(
    start_broker: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    master = start_broker(config={"haListenPort": 0})
    parts = start_broker()._parts()
    client = HAClient(parts.door, Follower(parts.store), parts.config)
    client.go_to("nowhere")
    client.start()
    try:
        until(lambda: "master nowhere: " in caplog.text)
        client.go_to(master.ha_addr)
        master.wait_for(lambda _: service_of(master).slaves)
    finally:
        client.close()


def test_a_server_that_never_comes_to_the_answer_is_waited_for_so_long(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_line, "WAIT_S", 0.05)
    is_over = threading.Event()

    def chatter(_: RemotingCommand, peer: Peer) -> None:
        while not is_over.wait(0.001):
            peer.send(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))

    server.on(RequestCode.GET_ALL_TOPIC_CONFIG, chatter)
    line = RequestLine(server.address, 479)
    try:
        with pytest.raises(TimeoutError):
            line.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    finally:
        is_over.set()
        line.close()


def test_a_log_does_not_begin_before_0() -> None:
    store = new_store()
    with pytest.raises(StoreError, match="begins at -5"):
        Follower(store).append(-5, b"x")
    assert (store.log.min_offset, store.log.max_offset) == (0, 0)
