"""The table of faces: each way in which a program can consume, as one set of cases sees it.

``test_faces.py`` runs every case for every face. A new face is one more entry of `FACES`: a
function that starts it with a `Desk`, which says of each message whether it is handled. A case that
a face cannot have stands in ``cannot`` beforehand, with the reason.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import pytest
from attrs import frozen

from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    DefaultLitePullConsumer,
    DefaultMQPushConsumer,
    Delivery,
    MessageExt,
    MessageListenerOrderly,
    MessageModel,
    MessageQueue,
)
from tests.sdk.listeners import ONE_SECOND_LEVEL, SOON_MS

SOON_AGAIN_MS = 10
"""How often what is missing is asked for again, and how long a queue waits in order."""


HELD_S = 120.0
_COUNTING = threading.Lock()


class Case(Enum):
    """What is asked of every face; the value names it in the name of a test."""

    DELIVERY = "delivery"
    IN_ORDER = "in order"
    RETRY = "retry"
    ONCE = "once, handled or not"
    DEAD_LETTERS = "dead letters"
    RESTART = "restart"
    REBALANCE = "rebalance"
    CONSUMER_CRASH = "crash of a consumer"
    BROKER_CRASH = "crash of the broker"
    AWAY = "a broker that is away"
    SUSPEND = "suspend and resume"
    FLOW_CONTROL = "flow control"
    SHUTDOWN = "shutdown in every state"


class Desk:
    """The program behind a face: it notes each message, and says whether it is handled.

    ``stop`` lets every call wait until `go_on`; an end of the test lets all go. ``inside`` are the
    queues that have a message in a call; ``overlaps`` those that had two at a time.
    """

    def __init__(
        self,
        handles: Callable[[MessageExt], bool] = lambda _message: True,
        *,
        beside: Desk | None = None,
    ) -> None:
        self.inside: Counter[int] = Counter() if beside is None else beside.inside
        self.overlaps: list[int] = [] if beside is None else beside.overlaps
        self._handles = handles
        self._lock = threading.Lock()
        self._may_go = threading.Event()
        self._may_go.set()
        self.entered = threading.Event()
        self.messages: list[MessageExt] = []
        self.attempts: list[int] = []

    def __call__(self, message: MessageExt) -> bool:
        """Note a message; whether it is handled."""
        with _COUNTING:
            self.inside[message.queue_id] += 1
            if self.inside[message.queue_id] > 1:
                self.overlaps.append(message.queue_id)
        self.entered.set()
        self._may_go.wait(HELD_S)
        with _COUNTING:
            self.inside[message.queue_id] -= 1
        with self._lock:
            self.messages.append(message)
            self.attempts.append(message.reconsume_times + 1)
        return self._handles(message)

    def stop(self) -> None:
        """Let calls wait from now on."""
        self.entered.clear()
        self._may_go.clear()

    def go_on(self) -> None:
        """Let all calls go."""
        self._may_go.set()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let calls wait inside this block."""
        self.stop()
        try:
            yield
        finally:
            self.go_on()

    @property
    def bodies(self) -> list[bytes]:
        """What has come so far."""
        with self._lock:
            return [one.body for one in self.messages]

    def __len__(self) -> int:
        return len(self.messages)


class Member(Protocol):
    """A started consumer, whatever its face."""

    def assigned_queues(self) -> list[MessageQueue]:
        """Return the queues that it has now."""

    def suspend(self) -> None:
        """Fetch nothing more."""

    def resume(self) -> None:
        """Fetch again."""

    def shutdown(self, timeout: float | None = None) -> None:
        """End it."""


@frozen
class Ground:
    """Where a member is started."""

    namesrv_addr: str
    topic: str
    group: str
    folder: Path
    """Of this machine: a member that is started again finds what it kept there."""


Start = Callable[[Ground, Desk, dict[str, Any]], Member]
"""Starts a member with further settings."""


@frozen
class Face:
    """One way to consume."""

    name: str
    start: Start
    cannot: Mapping[Case, str]

    @property
    def in_order(self) -> bool:
        """Whether the messages of a queue come one after the other."""
        return Case.IN_ORDER not in self.cannot


# --- push -------------------------------------------------------------------------------------


def _push(listener_of: Callable[[Desk], Any], model: MessageModel) -> Start:
    def start(ground: Ground, desk: Desk, settings: dict[str, Any]) -> Member:
        consumer = DefaultMQPushConsumer(
            ground.group,
            **{
                "namesrv_addr": ground.namesrv_addr,
                "message_model": model,
                "pull_time_delay_millis_when_exception": SOON_AGAIN_MS,
                "poll_name_server_interval": SOON_MS,
                "suspend_current_queue_time_millis": SOON_AGAIN_MS,
                "local_offset_store_dir": ground.folder,
                **settings,
            },
        )
        consumer.subscribe(ground.topic)
        consumer.register_message_listener(listener_of(desk))
        consumer.start()
        return consumer

    return start


def _concurrently(desk: Desk) -> object:
    def listen(
        messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        context.delay_level_when_next_consume = ONE_SECOND_LEVEL
        if all(map(desk, messages)):
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    return listen


def _orderly(desk: Desk) -> object:
    def listen(messages: list[MessageExt], _context: ConsumeOrderlyContext) -> ConsumeOrderlyStatus:
        if all(map(desk, messages)):
            return ConsumeOrderlyStatus.SUCCESS
        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    return MessageListenerOrderly(listen)


def _settling(desk: Desk) -> Callable[[Delivery], None]:
    def listen(delivery: Delivery) -> None:
        if desk(delivery.message):
            delivery.ack()
        else:
            delivery.nack(timedelta(seconds=1))

    return listen


def _settling_in_order(desk: Desk) -> object:
    def listen(delivery: Delivery) -> None:
        if desk(delivery.message):
            delivery.ack()
        else:
            delivery.nack()

    return MessageListenerOrderly(listen)  # type: ignore[arg-type] # taken as documented


# --- lite pull --------------------------------------------------------------------------------


class _Poller:
    """A program that polls, lets a desk have each message, and commits."""

    def __init__(self, consumer: DefaultLitePullConsumer, desk: Desk) -> None:
        self._consumer = consumer
        self._desk = desk
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        for batch in self._consumer.batches(SOON_MS):
            for message in batch:
                self._desk(message)
            if self._consumer.is_running:
                self._consumer.commit()

    def assigned_queues(self) -> list[MessageQueue]:
        return self._consumer.assignment()

    def suspend(self) -> None:
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._consumer.resume(self._consumer.assignment())

    def shutdown(self, timeout: float | None = None) -> None:
        self._consumer.shutdown(3.0 if timeout is None else timeout)


def _polled(ground: Ground, desk: Desk, settings: dict[str, Any]) -> Member:
    consumer = DefaultLitePullConsumer(
        ground.group,
        **{
            "namesrv_addr": ground.namesrv_addr,
            "auto_commit": False,
            "pull_batch_size": 1,
            "pull_time_delay_millis_when_exception": SOON_AGAIN_MS,
            "poll_name_server_interval": SOON_MS,
            **settings,
        },
    )
    consumer.subscribe(ground.topic)
    consumer.start()
    return _Poller(consumer, desk)


_CLUSTER, _BROADCAST = MessageModel.CLUSTERING, MessageModel.BROADCASTING
_EACH_HAS_ALL = "each member has every queue for itself"
_ONCE = "each member gets each message once, whatever became of it"
_NO_GRAVE = "there are no dead letters: each member would have its own"

_AGAIN = "what is not handled comes again"
_SIDE_BY_SIDE = "listeners run side by side"

_COMMITTED = "a program commits an offset, and what it did not handle is its own business"

_ANY_ORDER = {Case.IN_ORDER: _SIDE_BY_SIDE}
_SHARED = {Case.ONCE: _AGAIN}
_TO_EACH = {
    Case.DEAD_LETTERS: _NO_GRAVE,
    Case.REBALANCE: _EACH_HAS_ALL,
    Case.CONSUMER_CRASH: _EACH_HAS_ALL,
}

FACES = (
    Face("push", _push(_concurrently, _CLUSTER), _SHARED | _ANY_ORDER),
    Face("push in order", _push(_orderly, _CLUSTER), _SHARED),
    Face("push settled by the program", _push(_settling, _CLUSTER), _SHARED | _ANY_ORDER),
    Face("push in order settled by the program", _push(_settling_in_order, _CLUSTER), _SHARED),
    Face(
        "broadcasting",
        _push(_concurrently, _BROADCAST),
        _TO_EACH | _ANY_ORDER | {Case.RETRY: _ONCE},
    ),
    Face("broadcasting in order", _push(_orderly, _BROADCAST), _TO_EACH | {Case.ONCE: _AGAIN}),
    Face(
        "lite pull",
        _polled,
        {
            Case.RETRY: _COMMITTED,
            Case.DEAD_LETTERS: _COMMITTED,
            Case.IN_ORDER: "a program may still have a batch of a queue that is another member's",
        },
    ),
)
"""All faces; each runs every case that it can."""


def each_face(case: Case) -> pytest.MarkDecorator:
    """Run a test for every face that can have the case."""
    able = [face for face in FACES if case not in face.cannot]
    return pytest.mark.parametrize("face", able, ids=[face.name.replace(" ", "-") for face in able])
