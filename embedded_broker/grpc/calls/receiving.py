"""ReceiveMessage, AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue.

After the proxy's ReceiveMessageActivity, AckMessageActivity, ChangeInvisibleDurationActivity and
ForwardMessageToDLQActivity. A receive is a pop that waits, and moves what was tried too often to
the dead letters; what is done with a message afterwards names it by its handle. Must not know: how
messages are hidden and come back.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from attrs import define, frozen

from embedded_broker.core.guards import Action, group_resource, topic_resource
from embedded_broker.core.pop.acks import Hidden
from embedded_broker.core.pop.pop_values import Pop, Popped
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.retries import SentBack
from embedded_broker.grpc.broker_services import BrokerServices
from embedded_broker.grpc.call import Asked, Call
from embedded_broker.grpc.checks import check_invisible
from embedded_broker.grpc.endpoint import GrpcEndpoint
from embedded_broker.grpc.incoming import Names, expression_of, milliseconds
from embedded_broker.grpc.status import BAD_HANDLE, BAD_VALUE, Rejected
from embedded_broker.tables.topics.attributes import takes_batches
from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.heartbeat import TAG, SubscriptionData
from rocketmq_py.protocol.codes import PERM_READ
from rocketmq_py.protocol.message_codec import MessageRecord, decode_records
from rocketmq_py.protocol.pop_handles import PopHandle, Receipt, real_topic, retry_flag
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.rpc import Rpc, RpcStatus

logger = get_logger(__name__)

POLL_MIN_MS: Final = 5_000
"""A receive waits so long at least, unless the endpoint lets none wait longer than less."""
BEFORE_DEADLINE_MS: Final = 100
"""So long before its deadline a call is answered."""
BATCH_MAX: Final = 32
RENEWED_MS: Final = 60_000
"""For so long what is renewed is hidden at first."""
ENTRIES_MAX: Final = 1024
"""Most messages that one call acknowledges."""
_KNOWS_POLLING_TIME: Final = (5, 0, 3)


class _Found(NamedTuple):
    """A popped message, and what names it from now on."""

    record: MessageRecord
    hidden: Hidden


@frozen(kw_only=True)
class _Wanted:
    """What a receive asks for."""

    group: str
    topic: str
    broker_name: str
    batch: int
    invisible_ms: int
    wait_ms: int
    kind: str
    expression: str
    renews: bool
    attempt_id: str | None
    tags: frozenset[str]


@define(eq=False, kw_only=True)
class ReceiveCalls:
    """Hands out messages, and takes what consumers say of them."""

    _endpoint: GrpcEndpoint
    _names: Names
    _long_polling_ms: int

    def register(self) -> None:
        """Take over the calls of this module."""
        readers = self._endpoint.readers
        readers[Rpc.RECEIVE_MESSAGE] = self.receive
        readers[Rpc.ACK_MESSAGE] = self.ack
        readers[Rpc.CHANGE_INVISIBLE_DURATION] = self.change
        readers[Rpc.FORWARD_TO_DEAD_LETTER_QUEUE] = self.forward

    # -- receive ------------------------------------------------------------------------------

    def receive(self, call: Call) -> Asked:
        """Give messages that are hidden from now on, now or when there are some."""
        request, is_strict = call.request, self._endpoint.codes.is_strict
        group = self._names.group(request.group)
        topic = self._names.topic(request.message_queue.topic)
        if is_strict and (call.client.settings is None or call.remaining_ms is None):
            told = "a receive needs a deadline, and settings that were sent before"
            raise Rejected(RpcStatus.INTERNAL_SERVER_ERROR, told)
        invisible_ms = RENEWED_MS
        if not request.auto_renew:
            invisible_ms = _invisible_ms(request, is_strict=is_strict)
            check_invisible(invisible_ms)
        kind, expression = expression_of(request.filter_expression)
        wanted = _Wanted(
            group=group,
            topic=topic,
            broker_name=request.message_queue.broker.name,
            batch=min(request.batch_size if is_strict else max(request.batch_size, 1), BATCH_MAX),
            invisible_ms=invisible_ms,
            wait_ms=_wait_ms(call, self._long_polling_ms),
            kind=kind,
            expression=expression,
            renews=request.auto_renew,
            attempt_id=request.attempt_id or None,
            tags=_tags(topic, kind, expression),
        )
        resources = (topic_resource(topic), group_resource(group))
        return Asked(partial(self._receive, call, wanted), Action.SUB, resources)

    def _receive(self, call: Call, wanted: _Wanted) -> Any:
        services = self._broker_of(wanted)
        settings = services.tables.groups.find(wanted.group)
        if settings is None:
            told = f"subscription group [{wanted.group}] does not exist"
            raise Rejected(RpcStatus.CONSUMER_GROUP_NOT_FOUND, told)
        if takes_batches(services.tables.topics.get(wanted.topic)):
            told = (
                f"topic[{wanted.topic}] has queues of type BatchCQ, which gRPC clients cannot read"
            )
            raise Rejected(RpcStatus.NOT_IMPLEMENTED, told)
        others = services.retry_owners.beside(wanted.group, wanted.topic)
        self._endpoint.caller(call).demand_all(Action.SUB, others)
        pop = Pop(
            call.client,
            wanted.group,
            wanted.topic,
            -1,
            wanted.batch,
            wanted.invisible_ms,
            wanted.wait_ms,
            from_last=True,
            expression=wanted.expression,
            expression_type=wanted.kind,
            is_ordered=bool(settings.consume_message_orderly),
            attempt_id=wanted.attempt_id,
        )

        def reply(outcome: Popped | Refused) -> None:
            try:
                answer = self._popped(call, wanted, pop, services.env.broker_name, outcome)
            except Exception as error:  # noqa: BLE001 - whoever woke the pop must not suffer
                self._endpoint.refuse(call, error)
            else:
                self._endpoint.answer(call, answer)

        call.undo = partial(services.pop.service.cancel, pop)
        popped = services.pop.service.pop(pop, reply)
        if popped is None:
            return None
        return self._popped(call, wanted, pop, services.env.broker_name, popped)

    def _broker_of(self, wanted: _Wanted) -> BrokerServices:
        """Give the broker that is asked for, or any that has the topic."""
        brokers = self._endpoint.brokers
        services = brokers.get(wanted.broker_name)
        if services is None or wanted.topic not in services.tables.topics:
            services = next(brokers.with_topic(wanted.topic), None)
        topic = None if services is None else services.tables.topics.get(wanted.topic)
        if services is None or topic is None:
            raise Rejected(RpcStatus.TOPIC_NOT_FOUND, f"topic[{wanted.topic}] does not exist")
        if not topic.perm & PERM_READ:
            raise Rejected(RpcStatus.FORBIDDEN, f"no queue of topic[{wanted.topic}] may be read")
        return services

    def _popped(
        self, call: Call, wanted: _Wanted, pop: Pop, broker: str, popped: Popped | Refused
    ) -> Any:
        """Tell a client what its pop got. After a reset it is another state that gave it."""
        call.undo = None
        if isinstance(popped, Refused):
            raise popped
        services = self._endpoint.brokers[broker]
        settings = services.tables.groups.find(wanted.group) or SubscriptionGroupConfig(
            wanted.group
        )
        kept: list[_Found] = []
        for one in _found(popped, pop, broker):
            if wanted.tags and one.record.properties.get(Prop.TAGS) not in wanted.tags:
                services.pop.acks.ack(one.hidden)  # of another tag that has the same hash
            elif one.record.reconsume_times > settings.retry_max_times:
                self._give_up(call, services, one)
            else:
                kept.append(one)
        if not kept:
            full = popped.is_full
            code = RpcStatus.TOO_MANY_REQUESTS if full else RpcStatus.MESSAGE_NOT_FOUND
            told = "too many receives wait" if full else "no new message"
            return self._endpoint.answer_of(Rpc.RECEIVE_MESSAGE, code, told)
        if wanted.renews:
            for one in kept:
                services.pop.renewals.hold(one.hidden, one.record.reconsume_times)
        call.undo = partial(self._give_back, broker, [one.hidden for one in kept])
        return self._told(call, kept)

    def _give_up(self, call: Call, services: BrokerServices, one: _Found) -> None:
        """Move a message to the dead letters that was tried often enough, now or the next time."""
        try:
            self._bury(call, services, one.hidden, one.record.commit_log_offset)
        except Refused as refused:
            told = "message %s of group %s is no dead letter yet, it comes again later: %s"
            logger.warning(told, one.record.msg_id, one.hidden.group, refused.remark)

    def _told(self, call: Call, kept: Sequence[_Found]) -> list[Any]:
        v2, out = self._endpoint.v2, self._endpoint.out
        answers = [v2.ReceiveMessageResponse(status=out.ok())]
        said = call.request.message_queue.topic
        for record, hidden in kept:
            receipt = Receipt(
                hidden.handle, hidden.queue_id, hidden.offset, record.commit_log_offset
            )
            message = out.message(record, said.name, said.resource_namespace, receipt)
            answers.append(v2.ReceiveMessageResponse(message=message))
        return [*answers, self._endpoint.delivery_time()]

    def _give_back(self, broker: str, given: Sequence[Hidden]) -> None:
        """Let messages come back soon that did not reach their client."""
        services = self._endpoint.brokers.get(broker)
        if services is not None:
            for one in given:
                services.pop.renewals.end(one)
                services.pop.renewals.give_back(one)

    # -- what consumers say of messages -------------------------------------------------------

    def ack(self, call: Call) -> Asked:
        """Note that messages are done."""
        request = call.request
        group, topic = self._names.group(request.group), self._names.topic(request.topic)
        if not 0 < len(request.entries) <= ENTRIES_MAX:
            told = f"a call acknowledges 1 to {ENTRIES_MAX} messages, not {len(request.entries)}"
            raise Rejected(BAD_VALUE, told)
        resources = (topic_resource(topic), group_resource(group))
        return Asked(partial(self._ack, call, group, topic), Action.SUB, resources)

    def _ack(self, call: Call, group: str, topic: str) -> Any:
        v2, out = self._endpoint.v2, self._endpoint.out
        answer = v2.AckMessageResponse()
        for entry in call.request.entries:
            told = answer.entries.add(
                message_id=entry.message_id, receipt_handle=entry.receipt_handle
            )
            try:
                services, first, _ = self._hidden(call, group, topic, entry.receipt_handle)
                services.pop.acks.ack(services.pop.renewals.current(first))
                services.pop.renewals.end(first)
            except (Rejected, Refused, RocketMQError) as error:
                told.status.CopyFrom(out.status(*self._endpoint.codes.told(error)))
            else:
                told.status.CopyFrom(out.ok())
        codes = {one.status.code for one in answer.entries}
        code = RpcStatus.MULTIPLE_RESULTS if len(codes) > 1 else RpcStatus(codes.pop())
        text = answer.entries[0].status.message if code >= RpcStatus.BAD_REQUEST else None
        answer.status.CopyFrom(out.status(code, text))
        return answer

    def change(self, call: Call) -> Asked:
        """Let a message come back at another time; a new handle names it from now on."""
        request = call.request
        group, topic = self._names.group(request.group), self._names.topic(request.topic)
        resources = (topic_resource(topic), group_resource(group))
        return Asked(partial(self._change, call, group, topic), Action.SUB, resources)

    def _change(self, call: Call, group: str, topic: str) -> Any:
        """Change it; who is refused keeps the handle, which some clients take from the answer."""
        v2, out, request = self._endpoint.v2, self._endpoint.out, call.request
        try:
            text = self._changed(call, group, topic)
        except (Rejected, Refused, RocketMQError) as error:
            status = out.status(*self._endpoint.codes.told(error))
            text = request.receipt_handle
        else:
            status = out.ok()
        return v2.ChangeInvisibleDurationResponse(status=status, receipt_handle=text)

    def _changed(self, call: Call, group: str, topic: str) -> str:
        request = call.request
        invisible_ms = _invisible_ms(request, is_strict=self._endpoint.codes.is_strict)
        check_invisible(invisible_ms, least_ms=0)
        services, first, place = self._hidden(call, group, topic, request.receipt_handle)
        one = services.pop.renewals.current(first)
        until = services.pop.acks.hide_longer(one, invisible_ms)
        services.pop.renewals.end(first)
        if until is None:
            raise Rejected(RpcStatus.INVALID_RECEIPT_HANDLE, "the group is past this message")
        start = one.handle.start_offset if one.handle.is_ordered else one.offset
        handle = one.handle._replace(
            start_offset=start,
            pop_time_ms=until.pop_time_ms,
            invisible_ms=until.invisible_ms,
            revive_queue=until.revive_queue,
        )
        return Receipt(handle, one.queue_id, one.offset, place).text()

    def forward(self, call: Call) -> Asked:
        """Move a message to the dead letters of its group."""
        request = call.request
        group, topic = self._names.group(request.group), self._names.topic(request.topic)
        resources = (topic_resource(topic), group_resource(group))
        return Asked(partial(self._forward, call, group, topic), Action.SUB, resources)

    def _forward(self, call: Call, group: str, topic: str) -> Any:
        services, first, place = self._hidden(call, group, topic, call.request.receipt_handle)
        if place < 0:
            raise Rejected(RpcStatus.INVALID_RECEIPT_HANDLE, "the handle names no stored message")
        self._bury(call, services, services.pop.renewals.current(first), place)
        services.pop.renewals.end(first)
        v2 = self._endpoint.v2
        return v2.ForwardMessageToDeadLetterQueueResponse(status=self._endpoint.out.ok())

    def _bury(self, call: Call, services: BrokerServices, one: Hidden, place: int) -> None:
        """Copy a message to the dead letters, then be done with it."""
        back = SentBack(place, one.group, -1, 0, names_origin=True)
        copy = services.send.retries.copy(back, self._endpoint.caller(call))
        if copy is not None:
            outcome = services.send.produce.copy(copy)
            if not outcome.is_stored:
                raise Refused(outcome.reason or Reason.FAILED, outcome.remark or "it is not stored")
        services.pop.acks.ack(one)

    def _hidden(
        self, call: Call, group: str, topic: str, text: str
    ) -> tuple[BrokerServices, Hidden, int]:
        """Give what a handle names: its broker, its message by its first handle, and its place.

        Refuses a handle that is none, is of another group or topic, or is in force no more.
        """
        try:
            receipt = Receipt.parse(text)
            handle = receipt.handle
            name = real_topic(topic, group, handle.flag)
        except ValueError as error:
            told = f"receipt handle {text[:200]!r} is wrong: {error}"
            raise Rejected(BAD_HANDLE, told) from error
        services = self._endpoint.brokers.get(handle.broker_name)
        if services is not None:
            first = Hidden(call.client, group, name, receipt.queue_id, receipt.offset, handle)
            if self._is_good(call, services, services.pop.renewals.current(first)):
                return services, first, receipt.commit_log_offset
        told = f"receipt handle {text[:200]!r} has run out, or is of another group or topic"
        raise Rejected(RpcStatus.INVALID_RECEIPT_HANDLE, told)

    def _is_good(self, call: Call, services: BrokerServices, one: Hidden) -> bool:
        """Say whether a handle may be used; RocketMQ's proxy 5.3.3 looks at its time only."""
        if not self._endpoint.codes.is_strict:
            return services.pop.acks.is_open(one)
        ends_ms = one.handle.pop_time_ms + one.handle.invisible_ms
        return call.rpc is Rpc.FORWARD_TO_DEAD_LETTER_QUEUE or ends_ms > services.env.clock.now_ms


def _found(popped: Popped, pop: Pop, broker: str) -> Iterator[_Found]:
    """Give what was popped, each with the handle that names it."""
    records = decode_records(b"".join(popped.buffers), check_crc=False)
    times = {(one.topic, one.queue_id, one.offset): one.times for one in popped.order_counts}
    places = ((one, offset) for one in popped.portions for offset in one.offsets)
    for record, (portion, offset) in zip(records, places, strict=True):
        handle = PopHandle(
            portion.start_offset,
            popped.pop_time_ms,
            popped.invisible_ms,
            popped.revive_queue,
            retry_flag(portion.topic),
            broker,
            portion.queue_id,
            offset,
        )
        if pop.is_ordered:
            queue = (portion.topic, portion.queue_id)
            record.reconsume_times = times.get((*queue, offset), times.get((*queue, None), 0))
        yield _Found(
            record, Hidden(pop.peer, pop.group, portion.topic, portion.queue_id, offset, handle)
        )


def _tags(topic: str, kind: str, expression: str) -> frozenset[str]:
    """Give the tags that are wanted; none where every message is, and for expressions of SQL."""
    if kind != TAG:
        return frozenset()
    try:
        return SubscriptionData.parse(topic, expression, 0).tags_set
    except RocketMQError as error:
        raise Rejected(RpcStatus.ILLEGAL_FILTER_EXPRESSION, str(error)) from error


def _invisible_ms(request: Any, *, is_strict: bool) -> int:
    return milliseconds(request.invisible_duration, "invisible_duration", is_strict=is_strict)


def _wait_ms(call: Call, max_ms: int) -> int:
    """Give for how long a receive waits; refuses one whose client waits too short."""
    min_ms = min(POLL_MIN_MS, max_ms)
    request, remaining_ms = call.request, call.remaining_ms
    if request.HasField("long_polling_timeout"):
        poll_ms = milliseconds(request.long_polling_timeout, "long_polling_timeout")
    elif remaining_ms is not None:
        poll_ms = remaining_ms - call.client.request_timeout_ms // 2
    else:
        poll_ms = 0
    poll_ms = min(max(poll_ms, min_ms), max_ms)
    if remaining_ms is None:
        return poll_ms
    if poll_ms > remaining_ms:
        if remaining_ms < min_ms:
            is_known = _version(call.metadata.version) >= _KNOWS_POLLING_TIME
            code = RpcStatus.ILLEGAL_POLLING_TIME if is_known else RpcStatus.BAD_REQUEST
            told = f"the deadline is in {remaining_ms} ms: at least {min_ms} are needed"
            raise Rejected(code, told)
        poll_ms = remaining_ms
    return min(poll_ms, remaining_ms - BEFORE_DEADLINE_MS)


def _version(text: str) -> tuple[int, ...]:
    words = text.split(".")[:3]
    return tuple(int(word) for word in words if word.isascii() and word.isdecimal())
