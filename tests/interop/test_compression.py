"""A long body that Java has compressed is read by our consumer, and the other way round."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.remoting.journal import JournalEntry
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.protocol.codes import RequestCode
from tests.interop.java_tools import client_program
from tests.unit.rocketmq_py.consumer.inbox import Inbox, consumer
from tests.waiting import HANG_S, until

TEXT = "0123456789" * 500
COMPRESSED, COMPRESSED_AND_NAMED_ZLIB = 0x1, 0x301


def only_send(broker: EmbeddedBroker, topic: str) -> JournalEntry:
    """Give the one send to a topic; its body was compressed."""
    (entry,) = broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2, topic=topic)
    assert 0 < entry.body_size < len(TEXT) // 10
    return entry


@pytest.mark.case("W41")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ["4.9.4", "5.3.3"])
def test_a_long_body_goes_both_ways(version: str) -> None:
    with EmbeddedBroker(topics=["FromJava", "FromUs"]) as broker:
        namesrv = broker.namesrv_addr
        inbox = Inbox()
        reader = consumer("Readers", namesrv, inbox, {"FromJava": "*"})
        with reader, DefaultMQProducer("Senders", namesrv_addr=namesrv) as producer:
            with client_program(version, "LongBodySend", namesrv, "FromJava", TEXT) as java:
                assert java.finish(HANG_S) == 0, java.said()
            until(lambda: inbox.bodies, HANG_S)
            assert inbox.bodies == [TEXT.encode()]
            assert int(only_send(broker, "FromJava").fields["f"]) == COMPRESSED_AND_NAMED_ZLIB

            producer.send(Message("FromUs", TEXT.encode()))
            assert int(only_send(broker, "FromUs").fields["f"]) == COMPRESSED
            arguments = (namesrv, "FromUs", "1", str(HANG_S), "JavaReaders")
            with client_program(version, "TimerReceive", *arguments) as java:
                assert java.finish(HANG_S) == 0, java.said()
            assert [row[3] for row in java.table("RECEIVED")] == [TEXT]
