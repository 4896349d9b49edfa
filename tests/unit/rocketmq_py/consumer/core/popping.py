"""Popped messages, and the parts of a popping consumer whose broker is the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from rocketmq_py.consumer.core.acks import Acks
from rocketmq_py.consumer.core.outcome import Outcome
from rocketmq_py.consumer.core.pop_calls import ALL_QUEUES, PopCalls, Receipt
from rocketmq_py.consumer.core.pop_lane import PopLane
from rocketmq_py.consumer.core.pop_progress import Receipts
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.bodies.pop import BatchAckRequest
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.pop_handles import PopHandle
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    BROKER,
    GROUP,
    FakeClock,
    FakeEngine,
    message,
    ok,
)

ANY = MessageQueue("T", BROKER, ALL_QUEUES)
INVISIBLE_MS = 60_000
ACK, ACKS = RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE
HIDE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
HIDDEN = {"popTime": "7", "invisibleTime": "60000", "reviveQid": "3"}


class PopEngine(FakeEngine):
    """Runs what may block where it runs everything else: when the test says so."""

    def submit_background(self, task: Callable[..., object], *args: object) -> bool:
        return self.submit(task, *args)


def receipt(offset: int, pop_time_ms: int = 1_000) -> Receipt:
    handle = PopHandle(0, pop_time_ms, INVISIBLE_MS, 3, "0", BROKER, 0, offset)
    return Receipt("T", handle, 0, offset)


def popped(offset: int, *, reconsume_times: int = 0, pop_time_ms: int = 1_000) -> MessageExt:
    made = message(offset, reconsume_times=reconsume_times)
    made.properties[Prop.POP_CK] = receipt(offset, pop_time_ms).handle.text()
    made.born_timestamp = FakeClock().now_ms
    return made


class DeadLetters:
    """Takes messages or not."""

    def __init__(self) -> None:
        self.takes = True
        self.taken: list[MessageExt] = []

    def arrange(self, message: MessageExt, outcome: Outcome) -> bool:
        del outcome
        if self.takes:
            self.taken.append(message)
        return self.takes

    def plan(self, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        raise AssertionError(message, delay_ms)


class Bench:
    """The receipts of a consumer, one lane, and a broker that takes everything."""

    def __init__(self, *, in_order: bool = False, **settings: object) -> None:
        self.engine = PopEngine()
        for code in (ACK, ACKS):
            self.engine.answers[code] = lambda _: ok()
        self.engine.answers[HIDE] = lambda _: ok(HIDDEN)
        self.now_s = 1_000.0
        self.clock = FakeClock()
        self.dead_letters = DeadLetters()
        self.receipts = Receipts(
            engine=self.engine,
            group=GROUP,
            calls=PopCalls(self.engine, GROUP),
            settings=PushConsumerConfig(**cast("Any", settings)),
            dead_letters=self.dead_letters,
            clock=self.clock,
            now=lambda: self.now_s,
            in_order=in_order,
        )
        self.lane: PopLane = self.receipts.begin(ANY)

    @property
    def acks(self) -> Acks:
        return self.receipts.acks

    def put(self, *messages: MessageExt, claim: bool = True) -> list[MessageExt]:
        self.lane.put(messages)
        return list(self.receipts.claim(self.lane, messages)) if claim else []

    def settle(self, messages: list[MessageExt], outcome: Outcome) -> None:
        assert self.receipts.settle(self.lane, messages, outcome) == []
        self.engine.run_tasks()

    def acked(self) -> list[list[int]]:
        """The offsets of each request."""
        return [offsets_of(one) for _, one in self.engine.calls if one.code in {ACK, ACKS}]

    def hidden(self) -> list[tuple[int, int]]:
        """Offset and ms of each change of an invisible time."""
        return [
            (int(one.ext_fields["offset"]), int(one.ext_fields["invisibleTime"]))
            for one in self.engine.called(HIDE)
        ]


def offsets_of(command: RemotingCommand) -> list[int]:
    if command.code == ACK:
        return [int(command.ext_fields["offset"])]
    acks = BatchAckRequest.decode(command.body).acks
    return [offset for one in acks for offset in one.offsets()]
