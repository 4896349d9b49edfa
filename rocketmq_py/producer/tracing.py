"""What a producer notes for the trace: its sends, ends of transactions and recalls.

Called by the hooks of a producer with ``enable_trace``. Facts: ``SendMessageTraceHookImpl`` and
``EndTransactionTraceHookImpl``. An attempt that failed, and a one-way send, leave no record, as in
the original: nobody knows what became of them. Must not know how records are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from rocketmq_py.client.hooks import EndTransactionContext, SendMessageContext
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.recalling import parse_handle
from rocketmq_py.clock import wall_ms
from rocketmq_py.errors import MQBrokerException
from rocketmq_py.message import Message, MessageBatch
from rocketmq_py.protocol.delay import has_delay
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.names import DEFAULT_REGION
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.send_result import SendResult, SendStatus
from rocketmq_py.trace.records import EndTransaction, MessageKind, Pub, Recall
from rocketmq_py.trace.topics import TraceSettings
from rocketmq_py.trace.tracing import Tracing

BEGAN: Final = "rocketmq_py.trace.began"
"""The property of a send's context that carries when the attempt began."""


class ProducerTracing:
    """The trace of one producer: a hook of sends and of ends of transactions that never blocks."""

    def __init__(self, settings: TraceSettings, instance: ClientInstance, group: str) -> None:
        self._group = group
        self._tracing = Tracing(settings, instance, group, "PRODUCE")
        self.close = self._tracing.close

    def before(self, context: SendMessageContext) -> None:
        """Note when an attempt begins."""
        if context.properties is not None:
            context.properties[BEGAN] = str(wall_ms())

    def after(self, context: SendMessageContext) -> None:
        """Note what a broker has stored, unless its answer wants no trace (``TRACE_ON``)."""
        result, message = context.result, context.message
        if result is None or not result.trace_on or self._tracing.places.holds(message.topic):
            return
        now = wall_ms()
        began = int((context.properties or {}).get(BEGAN, now))
        self._tracing.put(
            result.region_id,
            [
                Pub(
                    timestamp=began,
                    region=result.region_id,
                    group=self._group,
                    topic=one.topic,
                    msg_id=msg_id,
                    tags=one.tags,
                    keys=tuple(one.keys),
                    store_host=context.broker_address,
                    body_length=len(one.body),
                    cost_ms=max(0, now - began),
                    kind=kind_of(one),
                    offset_msg_id=place or None,
                    success=result.send_status is SendStatus.SEND_OK,
                )
                for one, msg_id, place in _parts(message, result)
            ],
        )

    def end(self, context: EndTransactionContext) -> None:
        """Note the end of a transaction."""
        message = context.message
        if self._tracing.places.holds(message.topic):
            return
        region = message.properties.get(Prop.MSG_REGION) or DEFAULT_REGION
        record = EndTransaction(
            timestamp=wall_ms(),
            region=region,
            group=self._group,
            topic=message.topic,
            msg_id=context.message_id,
            tags=message.tags,
            keys=tuple(message.keys),
            store_host=context.broker_address,
            kind=MessageKind.COMMIT,
            transaction_id=context.transaction_id,
            state=context.state,
            from_check=context.from_check,
        )
        self._tracing.put(region, [record])

    @contextmanager
    def recall(self, topic: str, handle: str | RecallHandle | None) -> Iterator[None]:
        """Note what a broker answers to the recall in this block."""
        msg_id = parse_handle(topic, handle).uniq_key
        try:
            yield
        except MQBrokerException:
            self._recalled(topic, msg_id, success=False)
            raise
        self._recalled(topic, msg_id, success=True)

    def _recalled(self, topic: str, msg_id: str, *, success: bool) -> None:
        record = Recall(
            timestamp=wall_ms(),
            region=DEFAULT_REGION,
            group=self._group,
            topic=topic,
            msg_id=msg_id,
            success=success,
        )
        self._tracing.put(DEFAULT_REGION, [record])


def _parts(message: Message, result: SendResult) -> Iterable[tuple[Message, str, str]]:
    """Give each message that was sent with its id and its offset id, of which a batch has many."""
    if not isinstance(message, MessageBatch):
        return ((message, result.msg_id, result.offset_msg_id),)
    messages, ids = list(message), result.msg_id.split(",")
    places = result.offset_msg_id.split(",")
    if len(places) != len(messages):  # a broker that tells one for all
        places = [""] * len(messages)
    return zip(messages, ids, places, strict=True)


def kind_of(message: Message) -> MessageKind:
    """Tell the kind of a message: half, delayed by any kind of delay, or normal."""
    properties = message.properties
    if properties.get(Prop.TRAN_MSG, "").lower() == "true":
        return MessageKind.HALF
    return MessageKind.DELAY if has_delay(properties) else MessageKind.NORMAL
