"""Our SDK against a real 5.3.3 name server and broker: every way of asking for a delay."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    SystemClock,
)
from tests.interop.java_tools import client_program
from tests.interop.real_broker import RealCluster
from tests.waiting import HANG_S

CLOCK = SystemClock()
DELAY_MS = 3000
# A hang guard, not a figure: the real broker itself is up to about a second late.
LATE_MS = 15_000

Ask = Callable[[Message, int], object]
WAYS: dict[str, Ask] = {
    "level": lambda message, _due: message.set_delay_time_level(1),
    "seconds": lambda message, _due: message.set_delay_time_sec(DELAY_MS // 1000),
    "milliseconds": lambda message, _due: message.set_delay_time_ms(DELAY_MS),
    "deliver time": lambda message, due: message.set_deliver_time_ms(due),
    "TIMER_DELAY_SEC": lambda message, _due: message.put_user_property(
        "TIMER_DELAY_SEC", str(DELAY_MS // 1000)
    ),
    "TIMER_DELAY_MS": lambda message, _due: message.put_user_property(
        "TIMER_DELAY_MS", str(DELAY_MS)
    ),
    "TIMER_DELIVER_MS": lambda message, due: message.put_user_property(
        "TIMER_DELIVER_MS", str(due)
    ),
    "__STARTDELIVERTIME": lambda message, due: message.put_user_property(
        "__STARTDELIVERTIME", str(due)
    ),
    "timedelta": lambda message, _due: message.set_delay(timedelta(milliseconds=DELAY_MS)),
    "datetime": lambda message, due: message.set_deliver_at(
        datetime.fromtimestamp(due / 1000, UTC)
    ),
}
LEVEL_1_MS = 1000


class Inbox:
    """A listener that keeps what arrived and when."""

    def __init__(self) -> None:
        self.arrived: queue.Queue[tuple[MessageExt, int]] = queue.Queue()

    def __call__(
        self, messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            self.arrived.put((message, CLOCK.now_ms))
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def consumer(real: RealCluster, topic: str, inbox: Inbox) -> DefaultMQPushConsumer:
    made = DefaultMQPushConsumer(f"G_{topic}", namesrv_addr=real.namesrv_addr)
    made.consume_from_where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    made.subscribe(topic, "*")
    made.register_message_listener(inbox)
    return made


@pytest.mark.smoke
def test_every_way_of_asking_arrives_once_and_never_early(real: RealCluster) -> None:
    print(f"our SDK against a real {real.version} broker")
    topic = f"Ways_{uuid.uuid4().hex[:8]}"
    inbox = Inbox()
    due: dict[str, int] = {}
    with DefaultMQProducer(f"P_{topic}", namesrv_addr=real.namesrv_addr) as producer:
        ids = {}
        for way, ask in WAYS.items():
            now = CLOCK.now_ms
            message = Message(topic, way.encode(), tags="T", keys=[way.replace(" ", "_")])
            ask(message, now + DELAY_MS)
            due[way] = now + (LEVEL_1_MS if way == "level" else DELAY_MS)
            ids[way] = producer.send(message).msg_id
        recalled = Message(topic, b"recalled").set_delay_time_ms(DELAY_MS)
        handle = producer.send(recalled).recall_handle
        assert handle is not None
        assert producer.recall_message(topic, handle) == recalled.properties["UNIQ_KEY"]
        with consumer(real, topic, inbox):
            arrived = [inbox.arrived.get(timeout=HANG_S) for _ in WAYS]
    assert sorted(message.body.decode() for message, _ in arrived) == sorted(WAYS)
    for message, at in arrived:
        way = message.body.decode()
        assert ids[way] == message.msg_id
        assert due[way] <= at <= due[way] + LATE_MS, way
        assert message.tags == "T"
    assert inbox.arrived.empty()


@pytest.mark.parametrize("version", ["4.9.4", "5.3.3"])
def test_what_java_sends_our_consumer_reads_and_the_other_way_round(
    real: RealCluster, version: str
) -> None:
    topic = f"Mixed_{version.replace('.', '')}"
    inbox = Inbox()
    program = "LegacyTimerSend" if version == "4.9.4" else "TimerSend"
    with client_program(version, program, real.namesrv_addr, topic, "1000") as sender:
        assert sender.finish(HANG_S) == 0, sender.lines
    with consumer(real, topic, inbox):
        arrived = [inbox.arrived.get(timeout=HANG_S)[0] for _ in range(3)]
    sent = {row[0]: row[1] for row in sender.table("SENT")}
    assert {str(m.keys[0]): m.msg_id for m in arrived} == {
        way: msg_id for way, msg_id in sent.items() if way != "recalled"
    }
    back = f"Back_{version.replace('.', '')}"
    with DefaultMQProducer(f"P_{back}", namesrv_addr=real.namesrv_addr) as producer:
        mine = producer.send(Message(back, b"x" * 5000, keys=["mine"], delay=timedelta(seconds=1)))
    with client_program(
        version, "TimerReceive", real.namesrv_addr, back, "1", str(HANG_S), f"G_{back}"
    ) as receiver:
        assert receiver.finish(HANG_S) == 0, receiver.lines
    assert [row[:2] for row in receiver.table("RECEIVED")] == [["mine", mine.msg_id]]
