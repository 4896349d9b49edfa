"""Which queue an attempt goes to: in turn, away from the broker that just failed.

``TopicPublishInfo.selectOneMessageQueue`` and ``MQFaultStrategy`` of the original, and the two
ready-made selectors. Must not know how an attempt is made. Fault records are in ``fault.py``.
"""

import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence

from rocketmq_py.errors import MQClientException
from rocketmq_py.message import Message
from rocketmq_py.producer.fault import BrokerFaults
from rocketmq_py.protocol.tag_hash import java_hash
from rocketmq_py.send_result import MessageQueue

MessageQueueSelector = Callable[[Sequence[MessageQueue], Message, object], MessageQueue | None]
"""Takes all writable queues, the message and the argument of `send`; returns the queue."""

RANDOM_BITS = 31
TOPICS_MAX = 4_096


class QueueSelection:
    """Takes the queues of a topic in turn; each thread counts for itself from a random start.

    ``silent`` gives the brokers that do not answer now, connects or what was asked a while ago:
    they are passed over. ``connected`` gives those with an open connection.
    """

    def __init__(
        self,
        faults: BrokerFaults,
        silent: Callable[[], Collection[str]] = frozenset,
        connected: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self.faults = faults
        self._silent = silent
        self._connected = connected
        self._counters = _Counters()

    def select(
        self, topic: str, queues: Sequence[MessageQueue], last_broker: str | None
    ) -> MessageQueue:
        """Choose the queue of an attempt; ``last_broker`` is the one that just failed."""
        counter = self._counters.of_topics
        if len(counter) > TOPICS_MAX:
            counter.clear()
        index = counter.get(topic)
        if index is None or (last_broker is not None and self.faults.enabled):
            index = random.getrandbits(RANDOM_BITS)
        count = len(queues)
        silent = self._silent()
        if last_broker is None and not self.faults.enabled:  # a first attempt, of nearly every send
            for number in range(index, index + count if silent else index + 1):
                queue = queues[number % count]
                if queue.broker_name not in silent:
                    counter[topic] = number + 1
                    return queue
        for accepts in self._mark_options(last_broker, silent):
            for offset in range(count):
                queue = queues[(index + offset) % count]
                if accepts(queue.broker_name):
                    counter[topic] = index + offset + 1
                    return queue
        counter[topic] = index + 1
        return queues[index % count]

    def _mark_options(
        self, last_broker: str | None, silent: Collection[str]
    ) -> Iterator[Callable[[str], bool]]:
        """Give what to look for, best first; when nothing fits, any queue will do."""
        faults = self.faults
        if faults.enabled:
            avoided = {last_broker, *silent}
            yield lambda name: name not in avoided and faults.is_available(name)
            yield lambda name: name not in avoided and faults.is_reachable(name)
            return
        yield lambda name: name not in silent and name != last_broker
        connected = self._connected()
        if last_broker not in connected:
            # Who is connected may be slow for a moment; who refuses may be away for long.
            yield lambda name: name in connected and name != last_broker
        # The broker that failed is better than one that does not even answer connects.
        yield lambda name: name not in silent


class Choice:
    """The queue that the caller names, or that the caller's selector takes."""

    __slots__ = ("_arg", "_message", "_queue", "_selector")

    def __init__(
        self,
        queue: MessageQueue | None,
        selector: MessageQueueSelector | None,
        message: Message,
        arg: object,
    ) -> None:
        if queue is not None and selector is not None:
            raise TypeError("give queue= or selector=, not both")
        if selector is None and arg is not None:
            raise TypeError(f"arg= is for a selector=, and there is none: arg={arg!r}")
        if queue is not None and not isinstance(queue, MessageQueue):
            raise TypeError(
                f"queue is a MessageQueue, not {type(queue).__name__} {queue!r}: "
                "take one that fetch_publish_message_queues returns"
            )
        if selector is not None and not callable(selector):
            raise TypeError(
                f"selector is a callable (queues, message, arg), not {type(selector).__name__}"
            )
        self._queue = queue
        self._selector = selector
        self._message = message
        self._arg = arg

    def __call__(self, queues: tuple[MessageQueue, ...]) -> MessageQueue:
        """Return the queue; `MQClientException` when it is none of the message's topic."""
        topic = self._message.topic
        queue = self._queue
        if self._selector is not None:
            try:
                queue = self._selector(queues, self._message, self._arg)
            except Exception as error:
                raise MQClientException(
                    f"the queue selector failed for topic {topic}: {error}", topic=topic
                ) from error
        if queue is None:
            raise MQClientException(
                f"the queue selector returned no queue for topic {topic}", topic=topic
            )
        if not isinstance(queue, MessageQueue):
            raise MQClientException(
                f"the queue selector returned {type(queue).__name__} {queue!r} for topic {topic} "
                "instead of one of the queues that it got",
                topic=topic,
            )
        if queue.topic != topic:
            raise MQClientException(
                f"the message's topic {topic} is not the queue's topic {queue.topic}", topic=topic
            )
        return queue


def choice_of(
    queue: MessageQueue | None,
    selector: MessageQueueSelector | None,
    message: Message,
    arg: object,
) -> Choice | None:
    """Give who takes the queue; None: the queues take turns."""
    if queue is None and selector is None and arg is None:
        return None
    return Choice(queue, selector, message, arg)


class _Counters(threading.local):
    """The next index of every topic, per thread."""

    def __init__(self) -> None:
        self.of_topics: dict[str, int] = {}


def select_message_queue_by_hash(
    queues: Sequence[MessageQueue], message: Message, arg: object
) -> MessageQueue:
    """Choose by Java's hash of ``arg``, so that Java and Python producers agree.

    ``arg`` is a str (``String.hashCode``) or an int (``Integer.hashCode``, or ``Long.hashCode``
    beyond 32 bits). Raises `TypeError` for anything else.

    >>> queues = [MessageQueue("T", "b", n) for n in range(8)]
    >>> select_message_queue_by_hash(queues, Message("T", b"x"), "order-1").queue_id
    6
    """
    del message
    # Java takes the remainder first and its absolute value then: equal to this for every hash.
    return queues[abs(_java_hash_of(arg)) % len(queues)]


def select_message_queue_by_random(
    queues: Sequence[MessageQueue], message: Message, arg: object
) -> MessageQueue:
    """Choose any queue."""
    del message, arg
    return random.choice(queues)


def _java_hash_of(arg: object) -> int:
    if isinstance(arg, str):
        return java_hash(arg)
    if isinstance(arg, int) and not isinstance(arg, bool):
        if -(1 << 31) <= arg < 1 << 31:
            return arg
        if -(1 << 63) <= arg < 1 << 63:
            folded = (arg ^ (arg >> 32 & 0xFFFF_FFFF)) & 0xFFFF_FFFF
            return folded - (1 << 32) if folded >> 31 else folded
    raise TypeError(
        f"the hash selector takes a str or a 64-bit int, not {type(arg).__name__} {arg!r}"
    )
