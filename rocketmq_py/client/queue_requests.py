"""How a queue is asked about: the headers of pulls and offsets, and what the answers mean.

The one place of the client that builds these headers (11, 14, 15, 29 to 32), whoever asks; those
of sends are built in ``protocol/headers/send.py``. Must not know retries or the life of a client.
Read on: ``queries.py`` for questions about topics and messages, ``queue_access.py`` and
``../consumer/calls.py`` for who asks.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeVar

from attrs import evolve, frozen

from rocketmq_py.client.answers import broker_error
from rocketmq_py.client.asking import Asker, Broker, Question, nothing
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers import Header
from rocketmq_py.protocol.headers.consume import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    OffsetResponseHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    TimestampResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketmq_py.send_result import MessageQueue

Boundary = Literal["LOWER", "UPPER"]

_T = TypeVar("_T")

_HEADERS: Final[dict[int, type[Header]]] = {
    RequestCode.PULL_MESSAGE: PullMessageRequestHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: QueryConsumerOffsetRequestHeader,
    RequestCode.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffsetRequestHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffsetRequestHeader,
    RequestCode.GET_MAX_OFFSET: GetMaxOffsetRequestHeader,
    RequestCode.GET_MIN_OFFSET: GetMinOffsetRequestHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: GetEarliestMsgStoretimeRequestHeader,
}
_KNOWN_OR_NOT: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND)})
PULL_RESULTS: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


def queue_request(code: RequestCode, queue: MessageQueue, **fields: object) -> RemotingCommand:
    """Make a request about one queue; ``fields`` are what its header has beyond the queue."""
    return RemotingCommand(code, ext_fields=_fields_of(code, queue, fields))


def _fields_of(
    code: RequestCode, queue: MessageQueue, fields: Mapping[str, object]
) -> dict[str, str]:
    header = _HEADERS[code](
        topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name, **fields
    )
    return header.to_ext()


# --- questions -----------------------------------------------------------------------------------


def max_offset_of(queue: MessageQueue) -> Question[int]:
    """Ask for the offset that the queue's next message will get (30)."""
    return _question(RequestCode.GET_MAX_OFFSET, queue, _offset)


def min_offset_of(queue: MessageQueue) -> Question[int]:
    """Ask for the first offset that can be read (31)."""
    return _question(RequestCode.GET_MIN_OFFSET, queue, _offset)


def offset_at(queue: MessageQueue, timestamp_ms: int, boundary: Boundary | None) -> Question[int]:
    """Ask for the offset of a store time (29); 4.9 brokers ignore ``boundary``."""
    code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    return _question(code, queue, _offset, timestamp=timestamp_ms, boundary_type=boundary)


def first_store_time_of(queue: MessageQueue) -> Question[int]:
    """Ask for the store time of the first message in ms, -1 for an empty queue (32)."""
    return _question(RequestCode.GET_EARLIEST_MSG_STORETIME, queue, _timestamp)


def group_offset_in(
    queue: MessageQueue, group: str, *, zero_if_none: bool | None = None
) -> Question[int | None]:
    """Ask for the offset that the broker keeps for a group, None when it keeps none (14)."""
    return _question(
        RequestCode.QUERY_CONSUMER_OFFSET,
        queue,
        _offset_or_none,
        accepts=_KNOWN_OR_NOT,
        consumer_group=group,
        set_zero_if_not_found=zero_if_none,
    )


def group_offset_is(
    queue: MessageQueue, group: str, offset: int, *, first_alone: bool = True
) -> Question[None]:
    """Tell the broker a group's offset (15).

    Of many the first goes alone: a RocketMQ broker that gets a group's first offsets in a topic at
    the same time says success to all and forgets some.
    """
    code = RequestCode.UPDATE_CONSUMER_OFFSET
    asked = _question(code, queue, nothing, consumer_group=group, commit_offset=offset)
    return evolve(asked, first_alone=first_alone)


def _question(
    code: RequestCode,
    queue: MessageQueue,
    read: Callable[[RemotingCommand, str], _T],
    accepts: frozenset[int] = frozenset({0}),
    **fields: object,
) -> Question[_T]:
    where = Broker(queue.topic, queue.broker_name)
    return Question(where, code, read, _fields_of(code, queue, fields), accepts=accepts)


def _offset(answer: RemotingCommand, _: str) -> int:
    return OffsetResponseHeader.from_ext(answer.ext_fields).offset


def _offset_or_none(answer: RemotingCommand, address: str) -> int | None:
    return _offset(answer, address) if answer.code == ResponseCode.SUCCESS else None


def _timestamp(answer: RemotingCommand, _: str) -> int:
    return TimestampResponseHeader.from_ext(answer.ext_fields).timestamp


# --- pulls ---------------------------------------------------------------------------------------


@frozen
class RawPull:
    """A broker's answer to one pull.

    `code` is 0 (found), 19 (nothing there yet), 20 (nothing that matches: go on at
    `next_offset`) or 21 (the offset is outside of the queue: `next_offset` says where to go).
    `records` are stored records back to back, empty unless found. `suggested_broker_id` is the
    one that the broker wants to be asked next time (0 is the master). `offset_delta` is
    what to add to the queue offsets in the records.
    """

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    records: bytes
    offset_delta: int = 0

    @property
    def found(self) -> bool:
        """Whether there are records."""
        return self.code == ResponseCode.SUCCESS

    @property
    def moved(self) -> bool:
        """Whether the offset that was asked for is outside of what can be read (21)."""
        return self.code == ResponseCode.PULL_OFFSET_MOVED


def pull_fields(
    group: str, max_messages: int, expression: str, expression_type: str, version: int
) -> dict[str, object]:
    """Give what the header of a pull that is answered at once has beyond queue and offset."""
    return {
        "max_msg_nums": max_messages,
        "consumer_group": group,
        "sys_flag": PullSysFlag.SUBSCRIPTION,
        "commit_offset": 0,
        "suspend_timeout_millis": 0,
        "subscription": expression,
        "sub_version": version,
        "expression_type": expression_type,
    }


def pull_answer(
    answer: RemotingCommand, address: str | None = None, topic: str | None = None
) -> RawPull:
    """Read the answer of a pull; MQBrokerException for a code that is no pull result."""
    if answer.code not in PULL_RESULTS:
        raise broker_error(answer, address, topic=topic)
    header = PullMessageResponseHeader.from_ext(answer.ext_fields)
    return RawPull(
        answer.code,
        header.next_begin_offset,
        header.min_offset,
        header.max_offset,
        header.suggest_which_broker_id,
        answer.body if answer.code == ResponseCode.SUCCESS else b"",
        header.offset_delta or 0,
    )


class QueueRequests:
    """Questions about single queues; each call waits up to ``timeout_ms``, on any thread.

    Calls raise `MQClientException` when no route names the broker, `RemotingException` when it
    does not answer in time, `MQBrokerException` when it refuses.
    """

    def __init__(self, instance: ClientInstance, timeout_ms: int) -> None:
        self._instance = instance
        self._asker = Asker(instance)
        self._timeout_ms = timeout_ms

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get (30)."""
        return self._asker.answer(max_offset_of(queue), self._timeout_ms)

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset that can be read (31)."""
        return self._asker.answer(min_offset_of(queue), self._timeout_ms)

    def search_offset(
        self, queue: MessageQueue, timestamp_ms: int, boundary: Boundary | None = "LOWER"
    ) -> int:
        """Return the offset of a store time (29); 4.9 brokers ignore ``boundary``."""
        return self._asker.answer(offset_at(queue, timestamp_ms, boundary), self._timeout_ms)

    def earliest_msg_store_time(self, queue: MessageQueue) -> int:
        """Return the store time of the first message in ms, -1 for an empty queue (32)."""
        return self._asker.answer(first_store_time_of(queue), self._timeout_ms)

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Return the offset that the broker keeps for a group, None when it keeps none (14)."""
        return self._asker.answer(group_offset_in(queue, group), self._timeout_ms)
