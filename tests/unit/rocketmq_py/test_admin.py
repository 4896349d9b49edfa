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
    DefaultMQPushConsumer,
    Message,
    MQBrokerException,
    NotStartedError,
    RemotingException,
)
from rocketmq_py.admin import GroupSettings, TopicSettings, TrackState
from rocketmq_py.client.instance import IDLE_CHECK_EVERY_MS, ClientInstance
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.rocketmq_py.consumer.inbox import Inbox
from tests.waiting import until


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


def test_java_s_names_are_the_same_acts() -> None:
    with (
        EmbeddedBroker() as broker,
        DefaultMQAdminExt(namesrv_addr=broker.namesrv_addr) as admin,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        addr = broker.addr
        assert admin.examine_topic_config(addr, "T") is None
        admin.create_and_update_topic_config(addr, "T", TopicSettings(2, 2))
        assert admin.examine_topic_config(addr, "T") == TopicSettings(2, 2)
        admin.create_and_update_topic_config(addr, "T", TopicSettings(3, 3))
        assert [one.read_queues for one in admin.examine_topic_route_info("T")] == [3]
        assert "T" in admin.fetch_all_topic_list()
        sent = producer.send(Message("T", b"x"))
        assert admin.examine_topic_stats("T")[sent.message_queue].max_offset == 1
        assert admin.view_message("T", sent.msg_id).body == b"x"
        admin.create_and_update_subscription_group_config(
            addr, "G", GroupSettings(retry_max_times=3)
        )
        admin.update_consume_offset("G", sent.message_queue, 1)
        assert admin.query_topic_consume_by_who("T") == ("G",)
        assert admin.examine_consume_stats("G").lag == 0
        (track,) = admin.message_track_detail(admin.view_message("T", sent.msg_id))
        assert track.state is TrackState.CONSUMED
        assert admin.reset_offset_by_timestamp("T", "G", 0)[sent.message_queue] == 0
        assert admin.examine_consume_stats("G", "T").lag == 1
        assert admin.reset_offset_by_timestamp("T", "G", -1)[sent.message_queue] == 1
        assert admin.examine_consumer_connection_info("G").members == ()
        assert admin.examine_producer_connection_info("P") != ()
        admin.delete_subscription_group(addr, "G", remove_offset=True)
        assert admin.query_topic_consume_by_who("T") == ()
        admin.update_broker_config(addr, {"transactionCheckMax": "9"})
        assert admin.get_broker_config(addr)["transactionCheckMax"] == "9"
        admin.put_kv_config("N", "k", "v")
        assert admin.examine_broker_cluster_info().broker_addr_table.keys() == {"broker-a"}
        admin.delete_topic_in_broker({addr}, "T")
        admin.delete_topic_in_name_server({broker.namesrv_addr}, "T")
        assert admin.examine_topic_route_info("T") == ()
        with pytest.raises(MQBrokerException):
            admin.resume_check_half_message(addr, "T", sent.offset_msg_id)


def test_java_s_names_reach_a_member_of_a_group() -> None:
    inbox = Inbox()
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        DefaultMQAdminExt(namesrv_addr=broker.namesrv_addr) as admin,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        consumer.subscribe("T")
        consumer.register_message_listener(inbox)
        with consumer:
            sent = producer.send(Message("T", b"x"))
            until(lambda: inbox.bodies == [b"x"])
            told = admin.consume_message_directly("G", consumer.client_id, "T", sent.msg_id)
            assert (told.result, inbox.bodies) == ("CR_SUCCESS", [b"x", b"x"])
            state = admin.get_consumer_running_info("G", consumer.client_id, jstack=True)
            assert "T" in state.subscriptions
