from __future__ import annotations

import pytest

from compat.ons import Message, ONSClientException, ONSFactory, Properties, PropertyKeyConst
from embedded_broker import EmbeddedBroker
from tests.unit.compat.ons import aliyun_programs
from tests.unit.compat.ons.ons_bench import PATIENCE


@pytest.mark.case("T86")
@pytest.mark.case("T87")
def test_the_two_aliyun_programs_run_as_they_were_written(broker: EmbeddedBroker) -> None:
    sent: list[str] = []
    received: list[str] = []

    def now() -> int:
        return broker.clock.now_ms

    running = aliyun_programs.consumer(broker.namesrv_addr, now, received.append)
    with running:
        aliyun_programs.timer_producer(broker.namesrv_addr, now, sent.append)
        broker.wait_for(lambda _: len(sent) == 2, timeout=PATIENCE)
        broker.clock.advance(9.9)
        assert received == ["Consumer Started"]
        broker.clock.advance(0.1)
        broker.wait_for(lambda _: len(received) == 3, timeout=PATIENCE)
    (async_line,) = [line for line in sent if "async" in line]
    (success_line,) = [line for line in sent if "success" in line]
    message_id = async_line.rpartition("=")[2]
    assert success_line == f"send message success. topic=TopicTestMQ, msgId={message_id}"
    assert received[1].startswith("Receive: Message [topic=TopicTestMQ, tag=TagA, key=ORDERID_100")
    assert received[2].startswith(f"Receive message[msgId={message_id} ")


@pytest.mark.case("T85")
def test_a_producer_needs_no_group_and_a_consumer_needs_one(broker: EmbeddedBroker) -> None:
    properties = Properties({PropertyKeyConst.NAMESRV_ADDR: broker.namesrv_addr})
    with ONSFactory.createProducer(properties) as producer:
        assert producer.send(Message("TopicTestMQ", "TagA", b"x")).getTopic() == "TopicTestMQ"
    with pytest.raises(ONSClientException, match="GROUP_ID"):
        ONSFactory.createConsumer(properties)
