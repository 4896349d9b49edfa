"""What a consumer notes for the trace: both ends of each call of its listener, and polls.

Called by the hooks of a consumer with ``enable_trace``. Facts: ``ConsumeMessageTraceHookImpl``.
Must not know how records are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketmq_py.consumer.hooks import CONTEXT_TYPE, ConsumeMessageContext
from rocketmq_py.protocol.names import DEFAULT_REGION
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.trace.records import ConsumeEnd, SubAfter, SubBefore
from rocketmq_py.trace.tracing import Tracing

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.clock import Clock
    from rocketmq_py.message import MessageExt
    from rocketmq_py.trace.topics import TraceSettings

BEGAN: Final = "rocketmq_py.trace.began"
CALL: Final = "rocketmq_py.trace.call"
"""What the context of a call carries from its begin to its end: when, and its id in the trace."""


class ConsumerTracing:
    """The trace of one consumer: a `ConsumeMessageHook` that never blocks."""

    def __init__(
        self, settings: TraceSettings, instance: ClientInstance, group: str, clock: Clock
    ) -> None:
        self._group = group
        self._clock = clock
        self._tracing = Tracing(settings, instance, group, "CONSUME")
        self.close = self._tracing.close

    def before(self, context: ConsumeMessageContext) -> None:
        """Note that a listener gets messages."""
        traced = self._traced(context)
        if not traced:
            return
        now, call = self._clock.now_ms, self._tracing.new_id()
        context.props[BEGAN], context.props[CALL] = str(now), call
        region = region_of(traced[0])
        self._tracing.put(
            region,
            [
                SubBefore(
                    timestamp=now,
                    region=region,
                    group=self._group,
                    request_id=call,
                    msg_id=one.msg_id,
                    retry_times=one.reconsume_times,
                    keys=tuple(one.keys),
                )
                for one in traced
            ],
        )

    def after(self, context: ConsumeMessageContext) -> None:
        """Note what came of them."""
        call, traced, now = context.props.get(CALL), self._traced(context), self._clock.now_ms
        if call is None or not traced:
            return
        in_cloud = self._tracing.places.in_cloud
        cost_ms = max(0, now - int(context.props[BEGAN])) // len(context.messages)
        self._tracing.put(
            region_of(traced[0]),
            [
                SubAfter(
                    request_id=call,
                    msg_id=one.msg_id,
                    cost_ms=cost_ms,
                    success=context.success,
                    keys=tuple(one.keys),
                    end=ConsumeEnd[context.props[CONTEXT_TYPE]],
                    timestamp=None if in_cloud else now,
                    group=None if in_cloud else self._group,
                )
                for one in traced
            ],
        )

    def _traced(self, context: ConsumeMessageContext) -> list[MessageExt]:
        """Leave out what wants no trace (``TRACE_ON``), and what is trace itself."""
        return [
            one
            for one in context.messages
            if one.properties.get(Prop.TRACE_ON) != "false"
            and not self._tracing.places.holds(one.topic)
        ]


def region_of(message: MessageExt) -> str:
    """Give the region that a broker has written into a message."""
    return message.properties.get(Prop.MSG_REGION) or DEFAULT_REGION
