"""How POP names messages: receipt handles, the offsets of an answer, and retry topics.

Facts of the original's ``ExtraInfoUtil`` and ``KeyBuilder``. A broker answers with offsets per
queue (`start_offsets_text`, `message_offsets_text`, `order_counts_text`); the client reads them and
makes a handle for each message (property ``POP_CK``, header ``extraInfo``), which comes back with
the ack.
Must not know: what a broker keeps. Read on: `bodies.pop` for batch acks and stored check points.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Self

from rocketmq_py.protocol.headers import read_int64
from rocketmq_py.protocol.names import GROUP_LENGTH_MAX_V4, RETRY_PREFIX, TOPIC_LENGTH_MAX

ORDERED_REVIVE_QUEUE: Final = 999
"""The revive queue in handles of ordered pops, which have no check points."""

_V1: Final = "_"
_V2: Final = "+"
_ITEMS_MIN: Final = 6
_ITEMS_OF_MESSAGE: Final = 8
_ITEMS_OF_LINE: Final = 3
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
"""What a message's topic is, in handles and offsets."""


def pop_retry_topic(topic: str, group: str, *, v2: bool = False) -> str:
    """Name the topic of what a group popped from a topic and did not ack.

    >>> pop_retry_topic("orders", "shop"), pop_retry_topic("orders", "shop", v2=True)
    ('%RETRY%shop_orders', '%RETRY%shop+orders')
    """
    return f"{RETRY_PREFIX}{group}{_V2 if v2 else _V1}{topic}"


def normal_topic(topic: str, group: str) -> str:
    """Name the topic whose retry topic of a group this is; any other is its own.

    >>> normal_topic("%RETRY%shop_orders", "shop"), normal_topic("orders", "shop")
    ('orders', 'orders')
    """
    for separator in (_V2, _V1):
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return topic


class GroupAndTopic(NamedTuple):
    """A group, and a topic that it pops from."""

    group: str
    topic: str


def pops_of_retry_topic(retry_topic: str) -> Iterator[tuple[GroupAndTopic, bool]]:
    """Give each group and topic whose retry topic this may be, and whether that is certain.

    The older form leaves it open where group and topic meet. Longer names than there can be are
    left out, so that a name of any length is read in the same time.

    >>> list(pops_of_retry_topic("%RETRY%shop+my_orders"))
    [(GroupAndTopic(group='shop', topic='my_orders'), True)]
    >>> [one for one, _ in pops_of_retry_topic("%RETRY%a_b_c")]
    [GroupAndTopic(group='a', topic='b_c'), GroupAndTopic(group='a_b', topic='c')]
    """
    rest = retry_topic.removeprefix(RETRY_PREFIX)
    group, separator, topic = rest.partition(_V2)
    if separator:
        yield GroupAndTopic(group, topic), True
        return
    first, last = max(1, len(rest) - 1 - TOPIC_LENGTH_MAX), min(len(rest) - 2, GROUP_LENGTH_MAX_V4)
    for at in range(first, last + 1):
        if rest[at] == _V1:
            yield GroupAndTopic(rest[:at], rest[at + 1 :]), False


def retry_flag(topic: str) -> str:
    """Say what kind of topic it is: `NORMAL`, `RETRY_V1` or `RETRY_V2`."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if _V2 in topic else RETRY_V1


def real_topic(topic: str, group: str, flag: str) -> str:
    """Name the topic in which a message lies; raises ValueError for an unknown flag."""
    if flag == NORMAL:
        return topic
    if flag not in {RETRY_V1, RETRY_V2}:
        raise ValueError(f"the retry flag is {flag!r}, not 0, 1 or 2")
    return pop_retry_topic(topic, group, v2=flag == RETRY_V2)


class PopHandle(NamedTuple):
    """What a message's handle says: which pop took it, and where it lies.

    `start_offset` is where that pop began in the queue. The last two are missing in handles that
    name no single message.
    """

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    flag: str
    broker_name: str
    queue_id: int | None = None
    offset: int | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether an ordered pop took it."""
        return self.revive_queue == ORDERED_REVIVE_QUEUE

    def text(self) -> str:
        """Write the handle."""
        return " ".join(str(item) for item in self if item is not None)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a handle; the last items may be missing. Raises ValueError that says what is wrong.

        >>> PopHandle.parse("7 1700000000000 60000 3 0 broker-a 1 9").offset
        9
        """
        items = text.split(" ")
        if len(items) < _ITEMS_MIN:
            raise ValueError(f"it has {len(items)} items, not 8")
        numbers = [_number(items, at) for at in range(4)]
        places = [_number(items, at) if at < len(items) else None for at in (6, 7)]
        start, pop_time, invisible, revive_queue = numbers
        return cls(start, pop_time, invisible, revive_queue, items[4], items[5], *places)


class Receipt(NamedTuple):
    """A handle as gRPC clients get it: with the place of the message in the commit log.

    >>> Receipt.parse("7 1700000000000 60000 3 0 broker-a 1 9 4711").commit_log_offset
    4711
    """

    handle: PopHandle
    queue_id: int
    offset: int
    commit_log_offset: int = -1

    def text(self) -> str:
        """Write the receipt handle: nine items."""
        return f"{self.handle.text()} {self.commit_log_offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read eight items or more. Raises ValueError that says what is wrong."""
        items = text.split(" ")
        if len(items) < _ITEMS_OF_MESSAGE:
            raise ValueError(f"it has {len(items)} items, not {_ITEMS_OF_MESSAGE} or more")
        handle = PopHandle.parse(text)
        if handle.queue_id is None or handle.offset is None:
            raise ValueError("it names no message")
        place = _number(items, _ITEMS_OF_MESSAGE) if len(items) > _ITEMS_OF_MESSAGE else -1
        return cls(handle, handle.queue_id, handle.offset, place)


def _number(items: Sequence[str], at: int) -> int:
    try:
        return read_int64(items[at])
    except ValueError:
        raise ValueError(f"item {at + 1} is {items[at][:40]!r}, not a 64-bit number") from None


class PopPortion(NamedTuple):
    """What a pop took of one queue: the offsets of its messages, from a start offset on."""

    topic: str
    queue_id: int
    start_offset: int
    offsets: Sequence[int]


def start_offsets_text(portions: Iterable[PopPortion]) -> str:
    """Write ``startOffsetInfo``: ``flag queue start;...``."""
    return ";".join(
        f"{retry_flag(one.topic)} {one.queue_id} {one.start_offset}" for one in portions
    )


def message_offsets_text(portions: Iterable[PopPortion]) -> str:
    """Write ``msgOffsetInfo``: ``flag queue offset,offset;...``."""
    return ";".join(
        f"{retry_flag(one.topic)} {one.queue_id} {','.join(map(str, one.offsets))}"
        for one in portions
    )


QueueOfPop = tuple[str, int]
"""A queue in the texts of an answer: what its topic is (`retry_flag`), and its number."""


def start_offsets(text: str) -> dict[QueueOfPop, int]:
    """Read ``startOffsetInfo``; raises ValueError that says what is wrong.

    >>> start_offsets("0 1 7;1 0 3")
    {('0', 1): 7, ('1', 0): 3}
    """
    return {
        (flag, read_int64(queue_id)): read_int64(offset) for flag, queue_id, offset in _lines(text)
    }


def message_offsets(text: str) -> dict[QueueOfPop, list[int]]:
    """Read ``msgOffsetInfo``; raises ValueError that says what is wrong.

    >>> message_offsets("0 1 7,9;1 0 3")
    {('0', 1): [7, 9], ('1', 0): [3]}
    """
    return {
        (flag, read_int64(queue_id)): [read_int64(offset) for offset in offsets.split(",")]
        for flag, queue_id, offsets in _lines(text)
    }


def _lines(text: str) -> Iterator[list[str]]:
    """Give the items of each line, no queue twice."""
    seen: set[tuple[str, str]] = set()
    for line in text.split(";") if text else ():
        items = line.split(" ")
        if len(items) != _ITEMS_OF_LINE:
            raise ValueError(f"{line[:80]!r} has {len(items)} items, not {_ITEMS_OF_LINE}")
        if (items[0], items[1]) in seen:
            raise ValueError(f"{line[:80]!r} is the second about its queue")
        seen.add((items[0], items[1]))
        yield items


class OrderCount(NamedTuple):
    """How often messages of an ordered pop were handed out before.

    Of one message, or with `offset` None the least often of all that were popped of the queue.
    """

    topic: str
    queue_id: int
    offset: int | None
    times: int


def order_counts_text(counts: Iterable[OrderCount]) -> str:
    """Write ``orderCountInfo``: ``flag qo<queue>%<offset> count`` or ``flag queue count``."""
    return ";".join(
        f"{retry_flag(topic)} {queue_id if offset is None else f'qo{queue_id}%{offset}'} {times}"
        for topic, queue_id, offset, times in counts
    )


class OrderCounts:
    """What ``orderCountInfo`` says; raises ValueError that says what is wrong.

    >>> counts = OrderCounts("0 qo1%7 2;0 1 1")
    >>> counts.of(("0", 1), 7), counts.of(("0", 1), 8), counts.of(("0", 2), 8)
    (2, 1, 0)
    """

    def __init__(self, text: str) -> None:
        self._times = {(flag, key): read_int64(times) for flag, key, times in _lines(text)}

    def of(self, queue: QueueOfPop, offset: int) -> int:
        """Say how often a message was handed out before: by itself, or as all of its queue."""
        flag, queue_id = queue
        known = self._times.get((flag, f"qo{queue_id}%{offset}"))
        return self._times.get((flag, str(queue_id)), 0) if known is None else known
