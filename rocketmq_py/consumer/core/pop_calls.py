"""Requests of a POP consumer: which queues, take messages and hide them, ack, hide longer.

In POP mode brokers hand out messages one by one and hide each from the group until it is acked or
its time is over; the `Receipt` of a message says which delivery is meant. `PopCalls` sends requests
400, 200050, 200051, 200053 and 200151 and waits for nothing; every failure is in the future.
The ``read_`` functions read the answers and may take a while, so they are not for the thread that
completes a future. This module must not know when something is asked. Facts: ``MQClientAPIImpl``
(``processPopResponse``), ``ExtraInfoUtil``. Read on: ``../../protocol/pop_handles.py``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from rocketmq_py.client.answers import broker_error
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.errors import (
    BodyError,
    HeaderError,
    MQClientException,
    RemotingCommandException,
    RocketMQError,
)
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.bodies.pop import (
    POP,
    PULL,
    BatchAck,
    BatchAckRequest,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from rocketmq_py.protocol.message_codec import MessageRecord, iter_records
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.pop_handles import (
    NORMAL,
    RETRY_V1,
    RETRY_V2,
    OrderCounts,
    PopHandle,
    QueueOfPop,
    message_offsets,
    real_topic,
    retry_flag,
    start_offsets,
)
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.send_result import MessageQueue

_T = TypeVar("_T")

ALL_QUEUES: Final = -1
"""The number of an assigned queue that stands for all queues of its broker."""
CALL_TIMEOUT_MS: Final = 5_000
GIVEN_BACK_MS: Final = 1_000
"""What a member that leaves has not handled comes to others after so long."""
POP_GRACE_MS: Final = 10_000
"""How much longer than its polling time a pop may take."""

_FROM_FIRST, _FROM_LAST = 0, 1
"""``ConsumeInitMode``."""
_BROKER_FILLS_IN: Final = 0
"""As the time of birth of a pop: a client's clock that is late would make every pop too old."""
_GONE: Final = frozenset({ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL})
"""How brokers answer when the offset is no longer in its queue, or not in the ordered block."""
_FLAGS: Final = frozenset({NORMAL, RETRY_V1, RETRY_V2})
_NO_ATTACHMENTS: Final[Mapping[str, str]] = MappingProxyType({})


class Assignment(NamedTuple):
    """A queue that the broker assigns, and how its messages are got: `PULL` or `POP`."""

    queue: MessageQueue
    mode: str
    attachments: Mapping[str, str] = _NO_ATTACHMENTS


class PopAsk(NamedTuple):
    """One pop of a queue, or with the number `ALL_QUEUES` of any queue of its broker.

    The broker keeps it for up to ``poll_ms`` while it finds nothing. ``from_last`` counts for a
    group that has consumed nothing yet. ``order``: the queue gives nothing else until these are
    acked; only a pop of the same ``attempt_id`` gets them again before that.
    """

    queue: MessageQueue
    messages_max: int
    invisible_ms: int
    poll_ms: int
    subscription: SubscriptionData
    from_last: bool = False
    order: bool = False
    attempt_id: str | None = None


class Receipt(NamedTuple):
    """What names one delivery of a message to its broker; ``topic`` is the one that was popped.

    Each new invisible time makes a new receipt; acks by older ones change nothing.
    """

    topic: str
    handle: PopHandle
    queue_id: int
    offset: int

    @classmethod
    def of(cls, topic: str, handle: PopHandle) -> "Receipt | None":
        """Make the receipt of a handle; None when that names no single message of a topic."""
        if handle.queue_id is None or handle.offset is None or handle.flag not in _FLAGS:
            return None
        return cls(topic, handle, handle.queue_id, handle.offset)


class Popped(NamedTuple):
    """A message and the receipt of this delivery; its body may be compressed."""

    message: MessageExt
    receipt: Receipt


class PopStatus(Enum):
    """How a pop ended. `FULL`: nothing, and too many pops wait, so the next one should, too."""

    FOUND = auto()
    NOTHING = auto()
    FULL = auto()


_STATUSES: Final[Mapping[int, PopStatus]] = {
    ResponseCode.SUCCESS: PopStatus.FOUND,
    ResponseCode.POLLING_TIMEOUT: PopStatus.NOTHING,
    ResponseCode.PULL_NOT_FOUND: PopStatus.NOTHING,
    ResponseCode.NO_MESSAGE: PopStatus.NOTHING,
    ResponseCode.POLLING_FULL: PopStatus.FULL,
}


class PopAnswer(NamedTuple):
    """What a pop got: `popped` in the order of the broker, and how many messages it has left.

    ``unwanted`` are those whose tag is not wanted: who popped acks them, or they come again. With
    a ``problem`` there were messages that cannot be read or have no receipt; they come again, and
    in order all behind them.
    """

    status: PopStatus
    popped: Sequence[Popped] = ()
    unwanted: Sequence[Receipt] = ()
    left: int = 0
    problem: RemotingCommandException | None = None


class AckBatch(NamedTuple):
    """Receipts that travel in one request, and its answer for `read_ack`."""

    receipts: Sequence[Receipt]
    answer: Future[RemotingCommand]


class PopCalls:
    """The requests of one consumer group. Every method may be called by any thread.

    A method waits only for a route that is not known yet. Messages are asked for and acked at
    masters only. No method raises `RocketMQError`: the future does.
    """

    def __init__(self, engine: ClientInstance, group: str) -> None:
        self._engine = engine
        self._group = group

    def ask_assignments(
        self,
        topic: str,
        strategy_name: str,
        message_model: str = "CLUSTERING",
        *,
        timeout_ms: float = CALL_TIMEOUT_MS,
    ) -> Future[RemotingCommand]:
        """Ask a broker of the topic for this client's queues (400); see `read_assignments`."""
        routes, silent = self._engine.routes, self._engine.connections.silent
        addresses = routes.addresses_to_ask(topic)
        if not addresses:
            routes.update(topic)
            addresses = routes.addresses_to_ask(topic)
        if not addresses:
            return _failed(MQClientException(f"no broker of topic {topic} is known", topic=topic))
        body = QueryAssignmentRequest(
            topic, self._group, self._engine.client_id, strategy_name, message_model
        )
        return self._engine.remoting.invoke_async(
            min(addresses, key=lambda address: address in silent),
            RemotingCommand(RequestCode.QUERY_ASSIGNMENT, body=body.encode(standard=True)),
            timeout_ms,
        )

    def ask_pop(self, ask: PopAsk) -> Future[RemotingCommand]:
        """Take messages and hide them (200050); see `read_pop`."""
        queue = ask.queue
        if is_retry_topic(queue.topic):  # the receipts would name a retry topic of that
            refusal = f"topic {queue.topic} is pulled: a pop of the topic itself gets its retries"
            return _failed(MQClientException(refusal, topic=queue.topic))
        header = PopMessageRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            max_msg_nums=ask.messages_max,
            invisible_time=ask.invisible_ms,
            poll_time=ask.poll_ms,
            born_time=_BROKER_FILLS_IN,
            init_mode=_FROM_LAST if ask.from_last else _FROM_FIRST,
            exp_type=ask.subscription.expression_type,
            exp=ask.subscription.sub_string,
            order=ask.order,
            attempt_id=ask.attempt_id,
            broker_name=queue.broker_name,
        )
        command = RemotingCommand(RequestCode.POP_MESSAGE, ext_fields=header.to_ext())
        return self._ask(queue.topic, queue.broker_name, command, ask.poll_ms + POP_GRACE_MS)

    def ask_ack(self, receipt: Receipt) -> Future[RemotingCommand]:
        """Say that a message is done (200051); see `read_ack`."""
        header = AckMessageRequestHeader(
            consumer_group=self._group,
            topic=real_topic(receipt.topic, self._group, receipt.handle.flag),
            queue_id=receipt.queue_id,
            extra_info=receipt.handle.text(),
            offset=receipt.offset,
            broker_name=receipt.handle.broker_name,
        )
        command = RemotingCommand(RequestCode.ACK_MESSAGE, ext_fields=header.to_ext())
        return self._ask(receipt.topic, receipt.handle.broker_name, command)

    def ask_ack_batch(self, receipts: Iterable[Receipt]) -> list[AckBatch]:
        """Say that messages are done, with one request to each broker (200151).

        A receipt that a batch cannot name goes by itself. Brokers before 5.1 answer 3.
        """
        brokers: dict[str, tuple[list[Receipt], dict[object, BatchAck]]] = {}
        batches: list[AckBatch] = []
        for receipt in receipts:
            together, acks = brokers.setdefault(receipt.handle.broker_name, ([], {}))
            pop = receipt.topic, receipt.handle._replace(offset=None)
            ack = acks.get(pop) or self._batch_ack(receipt)
            if ack.add(receipt.offset):
                acks[pop] = ack
                together.append(receipt)
            else:
                batches.append(AckBatch([receipt], self.ask_ack(receipt)))
        for broker_name, (together, acks) in brokers.items():
            if together:
                body = BatchAckRequest(broker_name, [*acks.values()]).encode(standard=True)
                command = RemotingCommand(RequestCode.BATCH_ACK_MESSAGE, body=body)
                answer = self._ask(together[0].topic, broker_name, command)
                batches.append(AckBatch(together, answer))
        return batches

    def _batch_ack(self, receipt: Receipt) -> BatchAck:
        handle = receipt.handle
        return BatchAck(
            self._group,
            receipt.topic,
            handle.flag,
            handle.start_offset,
            receipt.queue_id,
            handle.revive_queue,
            handle.pop_time_ms,
            handle.invisible_ms,
        )

    def ask_invisible_time(self, receipt: Receipt, invisible_ms: int) -> Future[RemotingCommand]:
        """Hide a message for so long from now on (200053); see `read_invisible_time`."""
        header = ChangeInvisibleTimeRequestHeader(
            consumer_group=self._group,
            topic=real_topic(receipt.topic, self._group, receipt.handle.flag),
            queue_id=receipt.queue_id,
            extra_info=receipt.handle.text(),
            offset=receipt.offset,
            invisible_time=invisible_ms,
            broker_name=receipt.handle.broker_name,
        )
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        command = RemotingCommand(code, ext_fields=header.to_ext())
        return self._ask(receipt.topic, receipt.handle.broker_name, command)

    def give_back(self, receipt: Receipt) -> None:
        """Let a message come to others soon; without an answer it does when its time is over.

        Not at once: a pop that this client has waiting at the broker might get it once more, which
        ends with the connection. Waits for nothing: a broker without an address is not asked.
        """
        name = receipt.handle.broker_name
        if self._engine.routes.broker_address(name, only_this=True) is not None:
            self.ask_invisible_time(receipt, GIVEN_BACK_MS)

    def _ask(
        self,
        topic: str,
        broker_name: str,
        command: RemotingCommand,
        timeout_ms: int = CALL_TIMEOUT_MS,
    ) -> Future[RemotingCommand]:
        try:
            address = self._engine.routes.require_address(topic, broker_name, only_this=True)
        except RocketMQError as error:
            return _failed(error)
        return self._engine.remoting.invoke_async(address, command, timeout_ms)


def _failed(error: RocketMQError) -> Future[RemotingCommand]:
    failed: Future[RemotingCommand] = Future()
    failed.set_exception(error)
    return failed


# --- answers -------------------------------------------------------------------------------


def read_assignments(
    answer: RemotingCommand, topic: str, address: str | None = None
) -> list[Assignment] | None:
    """Read the queues that a broker assigns; None: the client keeps those that it has.

    Raises MQBrokerException for a refusal (3: the broker is of 4.x) and `BodyError`.
    """
    if answer.code != ResponseCode.SUCCESS:
        raise broker_error(answer, address, topic=topic)
    assigned = QueryAssignmentResponse.decode(answer.body).message_queue_assignments
    if assigned is None:
        return None
    for one in assigned:
        if one.mode not in {PULL, POP}:
            raise BodyError("QueryAssignmentResponse", f"mode {one.mode!r} is none of PULL, POP")
    return [
        Assignment(MessageQueue(*one.message_queue), one.mode, one.attachments or _NO_ATTACHMENTS)
        for one in assigned
    ]


def read_pop(
    answer: RemotingCommand,
    ask: PopAsk,
    *,
    tags: AbstractSet[str] = frozenset(),
    address: str | None = None,
) -> PopAnswer:
    """Read what a pop got; empty `tags` let every message pass.

    Messages have the topic that was popped, their receipt also as property ``POP_CK``, and in an
    ordered pop the number of former deliveries. Raises MQBrokerException for a refusal and
    `HeaderError`; then what was popped comes again when its time is over.
    """
    status = _STATUSES.get(answer.code)
    if status is None:
        raise broker_error(answer, address, topic=ask.queue.topic)
    header = PopMessageResponseHeader.from_ext(answer.ext_fields)
    if status is not PopStatus.FOUND:
        return PopAnswer(status, left=header.rest_num)
    handles = _Handles(header, ask)
    popped: list[Popped] = []
    unwanted: list[Receipt] = []
    problem: RemotingCommandException | None = None
    try:
        for record in iter_records(answer.body):
            try:
                receipt, former_times = handles.receipt_of(record)
            except HeaderError as error:
                problem = error
                if ask.order:
                    break  # nothing may overtake it
                continue
            message = MessageExt.as_stored(record, ask.queue.broker_name)
            properties = message.properties
            if tags and properties.get(Prop.TAGS) not in tags:
                unwanted.append(receipt)
                continue
            message.topic = ask.queue.topic
            message.reconsume_times = former_times or message.reconsume_times
            properties[Prop.POP_CK] = receipt.handle.text()
            properties.setdefault(Prop.FIRST_POP_TIME, str(header.pop_time))
            if properties.get(Prop.TRAN_MSG, "").lower() == "true":
                message.transaction_id = properties.get(Prop.UNIQ_KEY)
            popped.append(Popped(message, receipt))
    except RemotingCommandException as error:
        problem = error
    return PopAnswer(status, popped, unwanted, header.rest_num, problem)


class _Handles:
    """Makes the receipts of one answer, whose header has offsets for each queue."""

    def __init__(self, header: PopMessageResponseHeader, ask: PopAsk) -> None:
        self._header = header
        self._ask = ask
        self._starts = _read_text("startOffsetInfo", header.start_offset_info, start_offsets)
        self._offsets = _read_text("msgOffsetInfo", header.msg_offset_info, message_offsets) or {}
        counts = header.order_count_info if ask.order else None
        self._counts = _read_text("orderCountInfo", counts, OrderCounts)
        self._seen: dict[QueueOfPop, int] = {}
        self._firsts: dict[QueueOfPop, int] = {}

    def receipt_of(self, record: MessageRecord) -> tuple[Receipt, int]:
        """Give a record's receipt, and how often it was handed out before, if the header says so.

        Records of one queue are asked for in their order. Raises HeaderError when the header does
        not name the record.
        """
        given = self._given(record.properties.get(Prop.POP_CK))
        flag = retry_flag(record.topic) if given is None else given.handle.flag
        queue = flag, record.queue_id
        rank = self._seen.get(queue, 0)
        self._seen[queue] = rank + 1
        if given is not None:
            return given, 0
        start, offset = self._place(queue, record.queue_offset, rank)
        handle = PopHandle(
            start,
            self._header.pop_time,
            self._header.invisible_time,
            self._header.revive_qid,
            flag,
            self._ask.queue.broker_name,
            record.queue_id,
            offset,
        )
        times = 0 if self._counts is None else self._counts.of(queue, record.queue_offset)
        return Receipt(self._ask.queue.topic, handle, record.queue_id, offset), times

    def _given(self, text: str | None) -> Receipt | None:
        """Read the handle that the broker has written itself: the message has come back."""
        if text is None:
            return None
        try:
            return Receipt.of(self._ask.queue.topic, PopHandle.parse(text))
        except ValueError:  # whoever wrote that, it was no broker
            return None

    def _place(self, queue: QueueOfPop, offset: int, rank: int) -> tuple[int, int]:
        """Give the offset where the pop of this queue began, and the message's own."""
        if self._starts is None:
            return self._firsts.setdefault(queue, offset), offset
        start = self._starts.get(queue)
        listed = self._offsets.get(queue, ())
        if start is None or (offset not in listed and rank >= len(listed)):
            raise HeaderError(
                "startOffsetInfo" if start is None else "msgOffsetInfo",
                self._header.start_offset_info if start is None else self._header.msg_offset_info,
                f"it does not name offset {offset} of queue {queue[1]} (retry flag {queue[0]})",
            )
        return start, offset if offset in listed else listed[rank]


def _read_text(field: str, text: str | None, read: Callable[[str], _T]) -> _T | None:
    """Read what a field says about queues; None when there is none. Raises HeaderError."""
    if not text:
        return None
    try:
        return read(text)
    except ValueError as error:
        raise HeaderError(field, text, str(error)) from error


def read_ack(answer: RemotingCommand, topic: str, address: str | None = None) -> bool:
    """Say whether a broker has taken an ack; False: it has that message no longer.

    An ack that comes too late, after the message was given to somebody else, is taken without a
    word and changes nothing. Raises MQBrokerException for any other refusal.
    """
    if answer.code in _GONE:
        return False
    if answer.code != ResponseCode.SUCCESS:
        raise broker_error(answer, address, topic=topic)
    return True


def read_invisible_time(
    answer: RemotingCommand, receipt: Receipt, address: str | None = None
) -> Receipt | None:
    """Read the receipt that counts instead of ``receipt``; None: the message is not hidden by it.

    That is when its queue has it no longer, or when an ordered group has passed it. Raises as
    `read_ack`, and `HeaderError`.
    """
    if not read_ack(answer, receipt.topic, address):
        return None
    header = ChangeInvisibleTimeResponseHeader.from_ext(answer.ext_fields)
    if header.pop_time == 0:
        return None
    handle = receipt.handle._replace(
        start_offset=receipt.offset,
        pop_time_ms=header.pop_time,
        invisible_ms=header.invisible_time,
        revive_queue=header.revive_qid,
    )
    return receipt._replace(handle=handle)
