"""Clients that a test gets started, and that end with it.

Answers: ``rocketmq_producer``, ``rocketmq_consumer(...)``, their twins for coroutines and
``rocketmq_recorder(...)``: how each client is started so that nothing sent afterwards can miss it,
and how it is shut down. Must not know: pytest. Read on: ``embedded_broker/kit/fixture_broker.py``,
``recorder.py``.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from embedded_broker.errors import WaitTimeoutError
from embedded_broker.kit.fixture_broker import (
    CONSUMER_SETTINGS,
    EmbeddedFixtureBroker,
    FixtureBroker,
)
from embedded_broker.kit.recorder import Recorder
from embedded_broker.kit.threads import in_thread
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    MessageExt,
    MessageQueue,
)
from rocketmq_py.errors import ConfigError, IllegalStateError

if TYPE_CHECKING:
    from rocketmq_py import aio

ListenFunction = Callable[[list[MessageExt], ConsumeConcurrentlyContext], ConsumeConcurrentlyStatus]


def start_producer(fixture: FixtureBroker, group: str, ends: ExitStack) -> DefaultMQProducer:
    """Start a producer that is shut down with its test."""
    producer = DefaultMQProducer(group, namesrv_addr=fixture.namesrv_addr)
    ends.enter_context(producer)
    return producer


def start_aio_producer(fixture: FixtureBroker, group: str, ends: ExitStack) -> "aio.Producer":
    """Start a producer of the test's event loop, before there is one; it ends with its test."""
    from rocketmq_py import aio  # loads asyncio

    producer = aio.Producer(group, namesrv_addr=fixture.namesrv_addr)
    ends.enter_context(producer)
    return producer


class Consumers:
    """``rocketmq_consumer``: call it to start a consumer. Every call starts another one."""

    def __init__(
        self, fixture: FixtureBroker, topic: Callable[[], str], group: str, ends: ExitStack
    ) -> None:
        self._fixture = fixture
        self._topic = topic
        self._group = group
        self._ends = ends

    def __call__(
        self,
        group: str | None = None,
        topic: str | None = None,
        listener: Any = None,  # Any: whatever the consumer takes as a listener
        *,
        tags: str = "*",
        **given: Any,  # Any: settings of the consumer, which checks them
    ) -> DefaultMQPushConsumer:
        """Start a consumer, and return when it has queues of the topic.

        ``listener`` is called as ``listener(messages, context)`` and returns a
        ``ConsumeConcurrentlyStatus``. Without ``group`` and ``topic`` it has the group and the
        topic of this test. Other keywords are settings of ``DefaultMQPushConsumer``.
        """
        __tracebackhide__ = True
        if listener is None:
            raise ConfigError(
                "listener", None, "a function, as in rocketmq_consumer('billing', 'Orders', listen)"
            )
        topic = self._topic() if topic is None else topic
        return start_consumer(
            self._fixture,
            self._group if group is None else group,
            topic,
            listener,
            tags,
            given,
            self._ends,
        )

    async def aio(
        self,
        group: str | None = None,
        topic: str | None = None,
        listener: Any = None,  # Any: as above
        *,
        tags: str = "*",
        **given: Any,  # Any: as above
    ) -> DefaultMQPushConsumer:
        """Start a consumer from a coroutine. The listener runs on a thread of the consumer."""
        return await in_thread(lambda: self(group, topic, listener, tags=tags, **given))


class AsyncConsumers:
    """``rocketmq_aio_consumer``: await a call of it to start a consumer of the running loop."""

    def __init__(
        self, fixture: FixtureBroker, topic: Callable[[], str], group: str, ends: ExitStack
    ) -> None:
        self._fixture = fixture
        self._topic = topic
        self._group = group
        self._ends = ends

    async def __call__(
        self,
        group: str | None = None,
        topic: str | None = None,
        listener: "aio.Listener | aio.Orderly | None" = None,
        *,
        tags: str = "*",
        **given: Any,  # Any: settings of the consumer, which checks them
    ) -> "aio.Consumer":
        """Start a consumer, and return when it has queues of the topic.

        ``listener`` is a coroutine function that gets an ``aio.Delivery``, or an ``aio.Orderly``;
        without one the consumer is iterated over. Without ``group`` and ``topic`` it has the group
        and the topic of this test. Other keywords are settings of ``aio.Consumer``.
        """
        __tracebackhide__ = True
        from rocketmq_py import aio  # loads asyncio

        fixture, group = self._fixture, self._group if group is None else group
        topic = await in_thread(self._topic) if topic is None else topic
        await in_thread(partial(fixture.ready_topic, topic))
        consumer = aio.Consumer(
            group, namesrv_addr=fixture.namesrv_addr, **CONSUMER_SETTINGS | given
        )
        consumer.subscribe(topic, tags)
        if listener is not None:
            consumer.register_message_listener(listener)
        self._ends.callback(_end, consumer)
        await consumer.start()
        await in_thread(partial(wait_for_queues, fixture, consumer, group, topic))
        return consumer


def _end(consumer: "aio.Consumer") -> None:
    """End a consumer when its loop may have closed: in another loop, on a thread of its own."""
    import asyncio

    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(consumer.shutdown())).result()


class Recorders:
    """``rocketmq_recorder``: call it to begin to record a topic."""

    def __init__(
        self, fixture: FixtureBroker, topic: Callable[[], str], group: str, ends: ExitStack
    ) -> None:
        self._fixture = fixture
        self._topic = topic
        self._group = group
        self._ends = ends
        self._numbers = count(1)

    def __call__(self, topic: str | None = None, *, tags: str = "*") -> Recorder:
        """Begin to record a topic, or the topic of this test.

        Every recorder is a consumer group of its own. It also gets what was sent before.
        """
        __tracebackhide__ = True
        topic = self._topic() if topic is None else topic
        group = f"{self._group}-recorder-{next(self._numbers)}"
        recorder = Recorder(self._fixture, topic, tags, group)
        given = {"consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET}
        start_consumer(self._fixture, group, topic, recorder.listen, tags, given, self._ends)
        return recorder

    async def aio(self, topic: str | None = None, *, tags: str = "*") -> Recorder:
        """Begin to record a topic from a coroutine."""
        return await in_thread(lambda: self(topic, tags=tags))


def start_consumer(
    fixture: FixtureBroker,
    group: str,
    topic: str,
    listener: ListenFunction,
    tags: str,
    given: dict[str, Any],  # Any: settings of the consumer, which checks them
    ends: ExitStack,
) -> DefaultMQPushConsumer:
    """Start a consumer that is shut down with its test, once it has queues of its topic."""
    __tracebackhide__ = True
    fixture.ready_topic(topic)
    given = CONSUMER_SETTINGS | given
    consumer = DefaultMQPushConsumer(group, namesrv_addr=fixture.namesrv_addr, **given)
    consumer.subscribe(topic, tags)
    consumer.register_message_listener(listener)
    ends.enter_context(consumer)
    wait_for_queues(fixture, consumer, group, topic)
    return consumer


class HasQueues(Protocol):
    """A consumer that has started."""

    def assigned_queues(self) -> list[MessageQueue]:
        """Return the queues that it has now."""


def wait_for_queues(fixture: FixtureBroker, consumer: HasQueues, group: str, topic: str) -> None:
    """Wait until a consumer has queues of a topic; in strict mode check what its group reads."""
    __tracebackhide__ = True

    def has_queues() -> bool:
        return any(one.topic == topic for one in consumer.assigned_queues()) or _is_full(
            fixture, group, topic
        )

    if not has_queues():  # start() gives the queues of every topic that the name server knows
        try:
            fixture.wait(has_queues, f"group {group} to get queues of {topic}")
        except WaitTimeoutError as error:
            raise WaitTimeoutError(f"{error}\nassigned: {consumer.assigned_queues()}") from None
    if fixture.strict:
        check_agreement(fixture)


def check_agreement(fixture: FixtureBroker) -> None:
    """Raise ``IllegalStateError`` when members of one group subscribe to different things."""
    __tracebackhide__ = True
    clashes = list(fixture.disagreements()) if isinstance(fixture, EmbeddedFixtureBroker) else []
    if clashes:
        raise IllegalStateError(f"strict mode: {'; '.join(clashes)}")


def _is_full(fixture: FixtureBroker, group: str, topic: str) -> bool:
    """Whether a group has more members than the topic has queues: then some get none."""
    if not isinstance(fixture, EmbeddedFixtureBroker):
        return False
    queues = sum(one.topics[topic].queues for one in fixture.running if topic in one.topics)
    return fixture.members(group) > queues > 0
