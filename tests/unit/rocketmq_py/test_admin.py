"""What administrators ask, and what they hear when nobody can answer."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ClientClosedError,
    ConfigError,
    DefaultMQAdminExt,
    DefaultMQProducer,
    Message,
    MQBrokerException,
    NotStartedError,
    RemotingException,
)
from rocketmq_py.client.instance import IDLE_CHECK_EVERY_MS, ClientInstance
from rocketmq_py.protocol.codes import RequestCode, ResponseCode


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_broker_is_asked_about_its_timers(transport: str) -> None:
    with (
        EmbeddedBroker(clock=VirtualClock()) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        DefaultMQAdminExt(transport=transport) as admin,  # type: ignore[arg-type]
    ):
        producer.send(Message("T", b"x", delay=timedelta(minutes=1)))
        producer.send(Message("T", b"x").set_delay_time_level(3))
        address = broker.addr
        assert admin.get_timer_metrics(address).timing_count["T"].count == 1
        assert admin.get_all_delay_offset(address).offset_table == {3: 0}
        assert admin.fetch_broker_runtime_stats(address)["timerCongestNum"] == "1"
        assert admin.get_timer_check_point(address).state_version == 0
        cluster = admin.examine_broker_cluster_info(broker.namesrv_addr)
        assert cluster.broker_addr_table["broker-a"].broker_addrs == {0: address}


def test_an_administrator_sets_who_pops() -> None:
    with EmbeddedBroker(topics=["T"]) as broker, DefaultMQAdminExt() as admin:
        admin.set_message_request_mode(broker.addr, "T", "G", "POP", share_queues=2)
        sent = broker.journal.requests(code=RequestCode.SET_MESSAGE_REQUEST_MODE)
        assert [one.response_code for one in sent] == [ResponseCode.SUCCESS]
        with pytest.raises(MQBrokerException) as caught:
            admin.set_message_request_mode(broker.addr, "none", "G", "POP")
        assert caught.value.code == ResponseCode.TOPIC_NOT_EXIST
        with pytest.raises(ConfigError, match=r"'PUSH'.*PULL or POP"):
            admin.set_message_request_mode(broker.addr, "T", "G", "PUSH")


def test_a_refusal_carries_the_brokers_code() -> None:
    with EmbeddedBroker(profile="rocketmq-4.9") as broker, DefaultMQAdminExt() as admin:
        with pytest.raises(MQBrokerException) as caught:
            admin.get_timer_metrics(broker.addr)
        assert caught.value.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_calls_need_a_start_and_a_usable_address() -> None:
    admin = DefaultMQAdminExt()
    with pytest.raises(NotStartedError):
        admin.get_timer_metrics("127.0.0.1:1")
    with pytest.raises(ConfigError, match="host:port"):
        admin.get_timer_metrics("nowhere")
    with pytest.raises(ConfigError, match="timeout_millis"):
        DefaultMQAdminExt(timeout_millis=0)
    admin.start()
    admin.shutdown()
    with pytest.raises(ClientClosedError):
        admin.get_timer_metrics("127.0.0.1:1")


def test_nobody_there_and_nobody_answering_are_errors_in_bounded_time() -> None:
    with socket.socket() as deaf, DefaultMQAdminExt(timeout_millis=100) as admin:
        deaf.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(RemotingException):
            admin.get_timer_metrics(address)
        deaf.listen(1)
        with pytest.raises(RemotingException, match="no answer from"):
            admin.get_timer_metrics(address)


def test_an_admin_client_keeps_no_routes_so_none_of_its_connections_is_closed_for_lack_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduled: list[float] = []

    def note(_instance: ClientInstance, first_ms: float, *_: object) -> None:
        scheduled.append(first_ms)

    monkeypatch.setattr(ClientInstance, "schedule_every", note)
    with DefaultMQAdminExt():
        assert scheduled == [IDLE_CHECK_EVERY_MS]
