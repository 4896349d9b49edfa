"""How a queue is asked about: the headers of pulls and offsets, and what the answers mean.

The one place of the client that builds these headers (11, 14, 15, 29 to 32), whoever asks; those
of sends are built in ``protocol/headers/send.py``. Must not know retries or the life of a client.
Read on: ``queries.py`` for questions about topics and messages, ``queue_access.py`` and
``../consumer/calls.py`` for who asks.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Final, Literal, TypeVar

from attrs import frozen

from rocketmq_py.client.answers import broker_error, check_answer
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.errors import MQBrokerException, RemotingException, RocketMQError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
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

IN_FLIGHT_MOST = 256
"""Questions that one broker has before it at a time, so that the last one is not late."""

_K = TypeVar("_K")
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
_PULL_RESULTS: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


def queue_request(code: RequestCode, queue: MessageQueue, **fields: object) -> RemotingCommand:
    """Make a request about one queue; ``fields`` are what its header has beyond the queue."""
    header = _HEADERS[code](
        topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name, **fields
    )
    return RemotingCommand(code, ext_fields=header.to_ext())


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


def side_by_side(
    places: Iterable[_K], broker_of: Callable[[_K], str], begin: Callable[[_K], Future[_T]]
) -> dict[_K, _T | RocketMQError]:
    """Ask about many places, `IN_FLIGHT_MOST` at each broker at a time; return what became of each.

    ``begin`` sends one question and must end its future in time. Who does not answer one of them
    is not asked the later ones.
    """
    left: dict[str, deque[_K]] = {}
    for place in places:
        left.setdefault(broker_of(place), deque()).append(place)
    found: dict[_K, _T | RocketMQError] = {}
    while left:
        begun: list[tuple[_K, str, Future[_T]]] = []
        for broker, waiting in list(left.items()):
            for _ in range(min(IN_FLIGHT_MOST, len(waiting))):
                place = waiting.popleft()
                begun.append((place, broker, _begun(begin, place)))
            if not waiting:
                del left[broker]
        for place, broker, future in begun:
            try:
                found[place] = future.result()
            except RocketMQError as error:
                found[place] = error
                if isinstance(error, RemotingException):
                    found |= dict.fromkeys(left.pop(broker, ()), error)
    return found


def _begun(begin: Callable[[_K], Future[_T]], place: _K) -> Future[_T]:
    try:
        return begin(place)
    except RocketMQError as error:
        failed: Future[_T] = Future()
        failed.set_exception(error)
        return failed


def pull_answer(
    answer: RemotingCommand, address: str | None = None, topic: str | None = None
) -> RawPull:
    """Read the answer of a pull; MQBrokerException for a code that is no pull result."""
    if answer.code not in _PULL_RESULTS:
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
        self._timeout_ms = timeout_ms

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get (30)."""
        return self._offset(RequestCode.GET_MAX_OFFSET, queue)

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset that can be read (31)."""
        return self._offset(RequestCode.GET_MIN_OFFSET, queue)

    def search_offset(
        self, queue: MessageQueue, timestamp_ms: int, boundary: Boundary | None = "LOWER"
    ) -> int:
        """Return the offset of a store time (29); 4.9 brokers ignore ``boundary``."""
        return self._offset(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            queue,
            timestamp=timestamp_ms,
            boundary_type=boundary,
        )

    def earliest_msg_store_time(self, queue: MessageQueue) -> int:
        """Return the store time of the first message in ms, -1 for an empty queue (32)."""
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        return TimestampResponseHeader.from_ext(self._ask(code, queue).ext_fields).timestamp

    def group_offset(
        self, group: str, queue: MessageQueue, *, zero_if_none: bool | None = None
    ) -> int | None:
        """Return the offset that the broker keeps for a group, None when it keeps none (14)."""
        try:
            return self._offset(
                RequestCode.QUERY_CONSUMER_OFFSET,
                queue,
                consumer_group=group,
                set_zero_if_not_found=zero_if_none,
            )
        except MQBrokerException as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    def store_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Tell the broker a group's offset and wait for its answer (15)."""
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        self._ask(code, queue, consumer_group=group, commit_offset=offset)

    def ask_many(
        self, code: RequestCode, asked: Mapping[MessageQueue, Mapping[str, object]]
    ) -> dict[MessageQueue, RemotingCommand | RocketMQError]:
        """Ask about many queues side by side; the values are what a header has beyond the queue.

        Returns each broker's answer, or why there is none; no error of a server is raised.
        """

        def begin(queue: MessageQueue) -> Future[RemotingCommand]:
            address = self._instance.routes.require_address(queue.topic, queue.broker_name)
            command = queue_request(code, queue, **asked[queue])
            return self._instance.remoting.invoke_async(address, command, self._timeout_ms)

        found = side_by_side(asked, lambda queue: queue.broker_name, begin)
        for queue, answer in found.items():
            if isinstance(answer, RemotingCommand) and answer.code != ResponseCode.SUCCESS:
                address = self._instance.routes.broker_address(queue.broker_name)
                found[queue] = broker_error(answer, address, topic=queue.topic)
        return found

    def _offset(self, code: RequestCode, queue: MessageQueue, **fields: object) -> int:
        return OffsetResponseHeader.from_ext(self._ask(code, queue, **fields).ext_fields).offset

    def _ask(self, code: RequestCode, queue: MessageQueue, **fields: object) -> RemotingCommand:
        address = self._instance.routes.require_address(queue.topic, queue.broker_name)
        command = queue_request(code, queue, **fields)
        answer = self._instance.remoting.invoke(address, command, self._timeout_ms)
        check_answer(answer, address, queue.topic)
        return answer
