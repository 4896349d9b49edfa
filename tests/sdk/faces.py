"""The table of faces: each way in which a program can consume, as one set of cases sees it.

``test_faces.py`` runs every case for every face. A new face is one more entry of `FACES`: a
function that starts it with a `Desk`, which says of each message whether it is handled. A case that
a face cannot have stands in ``cannot`` beforehand, with the reason.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import pytest
from attrs import frozen

from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    DefaultLitePullConsumer,
    DefaultMQPushConsumer,
    Delivery,
    DeliveryEndedError,
    MessageExt,
    MessageListenerOrderly,
    MessageModel,
    MessageQueue,
    aio,
)
from tests.sdk.desk import HELD_S, Desk, Loop
from tests.sdk.listeners import ONE_SECOND_LEVEL, SOON_MS
from tests.sdk.request_mode import set_mode

SOON_AGAIN_MS = 10
"""How often what is missing is asked for again, and how long a queue waits in order."""

QUEUES = 4
"""Of the topic of each test."""
INVISIBLE_MS = 5_000
"""The shortest time that a pop may hide messages: then they come again by themselves."""


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
    loop: Loop
    """For members of an event loop."""


Start = Callable[[Ground, Desk, dict[str, Any]], Member]
"""Starts a member with further settings."""


@frozen
class Limit:
    """A bound of what a member holds, and what it says when it fetches nothing more because of it.

    It holds when one queue has a few messages, or all queues of a topic have some more.
    """

    name: str
    settings: Mapping[str, int]
    words: str


_PULL_LIMITS = (
    Limit("queue", {"pull_threshold_for_queue": 3}, "pull_threshold_for_queue 3"),
    Limit("topic", {"pull_threshold_for_topic": 20}, "messages cached"),
)


@frozen
class Face:
    """One way to consume."""

    name: str
    start: Start
    cannot: Mapping[Case, str]
    limits: tuple[Limit, ...] = _PULL_LIMITS
    pops: bool = False
    """Each member gets messages of all queues, and what it loses comes when it is hidden no more.

    So all queues of the topic are in its assignment, or one that stands for those of a broker."""

    def queues(self, count: int) -> int:
        """Say how many entries an assignment of so many queues has."""
        if self.pops:
            return QUEUES if self.in_order else 1
        return count

    @property
    def in_order(self) -> bool:
        """Whether the messages of a queue come one after the other."""
        return Case.IN_ORDER not in self.cannot


# --- push -------------------------------------------------------------------------------------


def _quick(ground: Ground, model: MessageModel) -> dict[str, Any]:
    """Give settings of a member that does not wait for long between two tries."""
    return {
        "namesrv_addr": ground.namesrv_addr,
        "message_model": model,
        "pull_time_delay_millis_when_exception": SOON_AGAIN_MS,
        "poll_name_server_interval": SOON_MS,
        "suspend_current_queue_time_millis": SOON_AGAIN_MS,
        "local_offset_store_dir": ground.folder,
    }


def _push(listener_of: Callable[[Desk], Any], model: MessageModel) -> Start:
    def start(ground: Ground, desk: Desk, settings: dict[str, Any]) -> Member:
        consumer = DefaultMQPushConsumer(
            ground.group,
            **{
                **_quick(ground, model),
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

    return MessageListenerOrderly(listen)


# --- pops -------------------------------------------------------------------------------------


def _popping(of_broker: Start) -> Start:
    """Let brokers assign the queues, and the group pop them."""

    def start(ground: Ground, desk: Desk, settings: dict[str, Any]) -> Member:
        namespace = settings.get("namespace", "")
        set_mode(ground.namesrv_addr, ground.topic, ground.group, "POP", namespace=namespace)
        pops = {
            "client_rebalance": False,
            "consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            "pop_batch_nums": 1,
            "pop_invisible_time": INVISIBLE_MS,
        }
        return of_broker(ground, desk, pops | settings)

    return start


def _popping_all(of_kind: Start) -> Start:
    """Let each member pop every broker, whatever brokers would assign."""

    def start(ground: Ground, desk: Desk, settings: dict[str, Any]) -> Member:
        namespace = settings.get("namespace", "")
        set_mode(ground.namesrv_addr, ground.topic, ground.group, "PULL", namespace=namespace)
        pops = {
            "pop_all_queues": True,
            "consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            "pop_batch_nums": 1,
            "pop_invisible_time": INVISIBLE_MS,
        }
        return of_kind(ground, desk, pops | settings)

    return start


def _concurrently_by_attempt(desk: Desk) -> object:
    def listen(
        messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        if all(map(desk, messages)):
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    return listen


# --- asyncio ----------------------------------------------------------------------------------


class _Tasks:
    """A program of tasks, which lets a desk have each message."""

    def __init__(self, consumer: aio.Consumer, loop: Loop, desk: Desk) -> None:
        self.consumer = consumer
        self._loop = loop
        self._desk = desk

    def start(self, *, iterates: bool = False) -> None:
        self._wait_for(self.consumer.start())
        if iterates:
            self._loop.begin(self._iterate())

    async def handles(self, delivery: aio.Delivery) -> bool:
        return await self._loop.off(self._desk, delivery.message)

    async def listen(self, delivery: aio.Delivery) -> None:
        """Say nothing of what is handled."""
        if not await self.handles(delivery):
            with suppress(DeliveryEndedError):  # it comes again anyway
                await delivery.nack(timedelta(seconds=1))

    async def listen_or_raise(self, delivery: aio.Delivery) -> None:
        """Raise for what is not handled."""
        if not await self.handles(delivery):
            raise LookupError("the desk does not handle it")

    async def _settle(self, delivery: aio.Delivery) -> None:
        handled = await self.handles(delivery)
        with suppress(DeliveryEndedError):  # it comes again anyway
            await (delivery.ack() if handled else delivery.nack(timedelta(seconds=1)))

    async def _iterate(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            async for delivery in self.consumer:
                tasks.create_task(self._settle(delivery))

    def _wait_for(self, call: Coroutine[Any, Any, None]) -> None:
        self._loop.begin(call).result(HELD_S)

    def assigned_queues(self) -> list[MessageQueue]:
        return self.consumer.assigned_queues()

    def suspend(self) -> None:
        self.consumer.suspend()

    def resume(self) -> None:
        self.consumer.resume()

    def shutdown(self, timeout: float | None = None) -> None:
        self._wait_for(self.consumer.shutdown(timeout))


def _on_loop(
    listener_of: Callable[[_Tasks], Any] | None, model: MessageModel = MessageModel.CLUSTERING
) -> Start:
    def start(ground: Ground, desk: Desk, settings: dict[str, Any]) -> Member:
        consumer = aio.Consumer(
            ground.group,
            **{
                **_quick(ground, model),
                **settings,
            },
        )
        consumer.subscribe(ground.topic)
        tasks = _Tasks(consumer, ground.loop, desk)
        if listener_of is not None:
            consumer.register_message_listener(listener_of(tasks))
        tasks.start(iterates=listener_of is None)
        return tasks

    return start


def _in_order(tasks: _Tasks) -> aio.Orderly:
    return aio.Orderly(tasks.listen_or_raise)


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


def _quick_polls(ground: Ground) -> dict[str, Any]:
    return {
        "namesrv_addr": ground.namesrv_addr,
        "auto_commit": False,
        "pull_batch_size": 1,
        "pull_time_delay_millis_when_exception": SOON_AGAIN_MS,
        "poll_name_server_interval": SOON_MS,
    }


def _polled(ground: Ground, desk: Desk, settings: dict[str, Any]) -> Member:
    consumer = DefaultLitePullConsumer(ground.group, **{**_quick_polls(ground), **settings})
    consumer.subscribe(ground.topic)
    consumer.start()
    return _Poller(consumer, desk)


class _PollingTask:
    """A program that polls in one task, lets a desk have each message, and commits."""

    def __init__(self, consumer: aio.LitePullConsumer, loop: Loop, desk: Desk) -> None:
        self._consumer = consumer
        self._loop = loop
        self._desk = desk
        loop.begin(consumer.start()).result(HELD_S)
        loop.begin(self._work())

    async def _work(self) -> None:
        async for batch in self._consumer.batches():
            for message in batch:
                await self._loop.off(self._desk, message)
            if self._consumer.is_running:
                self._consumer.commit()

    def assigned_queues(self) -> list[MessageQueue]:
        return self._consumer.assignment()

    def suspend(self) -> None:
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._consumer.resume(self._consumer.assignment())

    def shutdown(self, timeout: float | None = None) -> None:
        end = self._consumer.shutdown(3.0 if timeout is None else timeout)
        self._loop.begin(end).result(HELD_S)


def _polled_on_loop(ground: Ground, desk: Desk, settings: dict[str, Any]) -> Member:
    consumer = aio.LitePullConsumer(
        ground.group, **{**_quick_polls(ground), "poll_timeout_millis": SOON_MS, **settings}
    )
    consumer.subscribe(ground.topic)
    return _PollingTask(consumer, ground.loop, desk)


_CLUSTER, _BROADCAST = MessageModel.CLUSTERING, MessageModel.BROADCASTING
_EACH_HAS_ALL = "each member has every queue for itself"
_ONCE = "each member gets each message once, whatever became of it"
_NO_GRAVE = "there are no dead letters: each member would have its own"

_AGAIN = "what is not handled comes again"
_SIDE_BY_SIDE = "listeners run side by side"

_COMMITTED = "a program commits an offset, and what it did not handle is its own business"

_ASKED = {
    Case.RETRY: _COMMITTED,
    Case.DEAD_LETTERS: _COMMITTED,
    Case.IN_ORDER: "a program may still have a batch of a queue that is another member's",
}

_NEVER_LAST = "a popped message that fails is hidden ever longer, and given up after four hours"

_ONE_BLOCK = "of a queue there is nothing more to fetch until what came of it is acked"

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
    Face("lite pull", _polled, _ASKED),
    Face("asyncio lite pull", _polled_on_loop, _ASKED),
    Face("asyncio", _on_loop(None), _SHARED | _ANY_ORDER),
    Face("asyncio listener", _on_loop(lambda tasks: tasks.listen), _SHARED | _ANY_ORDER),
    Face("asyncio in order", _on_loop(_in_order), _SHARED),
    Face(
        "asyncio broadcasting",
        _on_loop(lambda tasks: tasks.listen_or_raise, _BROADCAST),
        _TO_EACH | _ANY_ORDER | {Case.RETRY: _ONCE},
    ),
    *(
        Face(
            name,
            _popping(of_broker),
            _SHARED | _ANY_ORDER | {Case.DEAD_LETTERS: _NEVER_LAST},
            (Limit("queue", {"pop_threshold_for_queue": 3}, "pop_threshold_for_queue 3"),),
            pops=True,
        )
        for name, of_broker in (
            ("pop", _push(_concurrently_by_attempt, _CLUSTER)),
            ("pop settled by the program", _push(_settling, _CLUSTER)),
            ("asyncio pop", _on_loop(None)),
        )
    ),
    Face(
        "pop all queues",
        _popping_all(_push(_concurrently_by_attempt, _CLUSTER)),
        _SHARED | _ANY_ORDER,
        (
            Limit("queue", {"pop_threshold_for_queue": 3}, "pop_threshold_for_queue 3"),
            Limit("bytes", {"pop_threshold_bytes_for_queue": 3}, "pop_threshold_bytes_for_queue 3"),
        ),
        pops=True,
    ),
    Face(
        "pop all queues in order",
        _popping_all(_push(_orderly, _CLUSTER)),
        _SHARED | {Case.FLOW_CONTROL: _ONE_BLOCK},
        pops=True,
    ),
    *(
        Face(name, _popping(of_broker), _SHARED | {Case.FLOW_CONTROL: _ONE_BLOCK}, pops=True)
        for name, of_broker in (
            ("pop in order", _push(_orderly, _CLUSTER)),
            ("pop in order settled by the program", _push(_settling_in_order, _CLUSTER)),
            ("asyncio pop in order", _on_loop(_in_order)),
        )
    ),
)
"""All faces; each runs every case that it can."""


def each_face(case: Case) -> pytest.MarkDecorator:
    """Run a test for every face that can have the case."""
    able = [face for face in FACES if case not in face.cannot]
    return pytest.mark.parametrize("face", able, ids=[face.name.replace(" ", "-") for face in able])


def each_limit(test: Any) -> Any:  # Any: pytest has no name for a marked test
    """Run a test for every limit of every face that can have the case of flow control."""
    cells = [
        pytest.param(face, limit, id=f"{limit.name}-{face.name.replace(' ', '-')}")
        for face in FACES
        if Case.FLOW_CONTROL not in face.cannot
        for limit in face.limits
    ]
    return pytest.mark.parametrize(("face", "limit"), cells)(test)
