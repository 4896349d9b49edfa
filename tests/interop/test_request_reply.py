"""Requests and replies: Java's client at both ends of our broker, and with our client at one end.

4.9.8: the blocking `request` of 4.9.4 returns before the reply is there, and that of 5.3.3 does not
return when it is, at a real broker neither.
"""

from __future__ import annotations

import pytest

from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    create_reply_message,
)
from tests.interop.conftest import Serve
from tests.interop.java_tools import client_program
from tests.interop.real_broker import RealCluster
from tests.waiting import HANG_S

COUNT = 6
TOPIC = "RequestTopic"
VERSION = "4.9.8"
PATIENCE_MS = 60_000


def expected(*, tag: str = "reply to ") -> list[list[str]]:
    return sorted(
        [f"question {number}", f"{tag}question {number}", "true"] for number in range(COUNT)
    )


@pytest.mark.smoke
@pytest.mark.case("W93")
def test_java_asks_and_java_answers(serve: Serve) -> None:
    with (
        serve("--topic", TOPIC) as namesrv,
        client_program(VERSION, "RequestReply", namesrv, TOPIC, "answer", str(COUNT)) as replier,
        client_program(VERSION, "RequestReply", namesrv, TOPIC, "ask", str(COUNT)) as asker,
    ):
        assert asker.finish(HANG_S) == 0, asker.lines
        assert replier.finish(HANG_S) == 0, replier.lines
    assert sorted(asker.table("REPLY")) == expected()
    assert asker.table("TIMEOUT") == [["10006"]]
    assert replier.table("SENT") == [["SEND_OK"]] * COUNT


@pytest.mark.case("W93")
def test_java_asks_and_we_answer(serve: Serve) -> None:
    with serve("--topic", TOPIC) as namesrv, DefaultMQProducer("R", namesrv_addr=namesrv) as made:
        consumer = DefaultMQPushConsumer("Answers", namesrv_addr=namesrv)
        consumer.subscribe(TOPIC, "ask")

        def listen(
            messages: list[MessageExt], context: ConsumeConcurrentlyContext
        ) -> ConsumeConcurrentlyStatus:
            del context
            for one in messages:
                made.send(create_reply_message(one, b"reply to " + one.body))
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

        consumer.register_message_listener(listen)
        consumer.start()
        try:
            asks = client_program(VERSION, "RequestReply", namesrv, TOPIC, "ask", str(COUNT))
            with asks as asker:
                assert asker.finish(HANG_S) == 0, asker.lines
        finally:
            consumer.shutdown()
    assert sorted(asker.table("REPLY")) == expected()


@pytest.mark.case("W93")
def test_we_ask_and_java_answers(serve: Serve) -> None:
    with (
        serve("--topic", TOPIC) as namesrv,
        client_program(VERSION, "RequestReply", namesrv, TOPIC, "answer", str(COUNT)) as replier,
    ):
        replier.wait_for_line("STARTED", HANG_S)
        assert ask(namesrv) == expected()
        assert replier.finish(HANG_S) == 0, replier.lines


@pytest.mark.case("W93")
def test_at_a_real_broker_we_ask_and_java_answers(real: RealCluster) -> None:
    namesrv = real.namesrv_addr
    with client_program(VERSION, "RequestReply", namesrv, TOPIC, "answer", str(COUNT)) as replier:
        replier.wait_for_line("STARTED", HANG_S)
        assert ask(namesrv) == expected()
        assert replier.finish(HANG_S) == 0, replier.lines


def ask(namesrv: str) -> list[list[str]]:
    """Ask all questions with our client; gives what the Java program prints of its own."""
    with DefaultMQProducer("WeAsk", namesrv_addr=namesrv) as producer:
        rows = []
        for number in range(COUNT):
            question = Message(TOPIC, f"question {number}".encode(), tags="ask")
            reply = producer.request(question, timeout=PATIENCE_MS)
            rows.append([question.body.decode(), reply.body.decode(), "true"])
    return sorted(rows)
