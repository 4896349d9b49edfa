"""Which steps of a consumer an application can hook into, and what it is shown.

A `ConsumeMessageHook` sees every call of a listener, a `FilterMessageHook` everything that a fetch
has brought. What a hook raises is logged and changes nothing. Must not know listeners or brokers.
Facts: ``org.apache.rocketmq.client.hook``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from attrs import define, field

from rocketmq_py.client.application_faults import ApplicationFaults
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.properties import Prop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketmq_py.message import MessageExt
    from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

CONTEXT_TYPE: Final = "ConsumeContextType"
"""The key of `ConsumeMessageContext.props` under which the end of a listener call stands."""

HANDLED: Final = "HANDLED"
AGAIN: Final = "AGAIN"
DEAD: Final = "DEAD"
DROPPED: Final = "DROPPED"


@define(kw_only=True, eq=False)
class ConsumeMessageContext:
    """One call of a listener, as a `ConsumeMessageHook` sees it.

    ``success``, ``status`` and ``props["ConsumeContextType"]`` are set for ``after``: the status is
    the name of what the listener returned (of a delivery: CONSUME_SUCCESS or RECONSUME_LATER), the
    type one of SUCCESS, FAILED, EXCEPTION, RETURNNULL, and TIME_OUT when the call took longer than
    `consume_timeout`. ``props`` travels from ``before`` to ``after``. ``outcomes``, set for
    ``after``, says of each message what becomes of it: `HANDLED`, `AGAIN` when it comes again,
    `DEAD` when it goes to the dead letters (also because it had `max_reconsume_times`; the group
    of a broker may allow less), `DROPPED` where messages cannot come again (broadcasting).
    """

    consumer_group: str
    messages: Sequence[MessageExt]
    queue: MessageQueue
    success: bool = False
    status: str | None = None
    props: dict[str, str] = field(factory=dict)
    outcomes: tuple[str, ...] = ()


class ConsumeMessageHook(Protocol):
    """Called around each call of the listener, on its thread.

    Each call has a copy of the context variables to itself: what ``before`` sets, the listener sees
    and the tasks that it starts. Of a delivery, which the program settles, ``after`` is called when
    it is settled.
    """

    def before(self, context: ConsumeMessageContext) -> None:
        """Look at messages before the listener has them."""

    def after(self, context: ConsumeMessageContext) -> None:
        """Look at what came of them."""


@define(kw_only=True, eq=False)
class FilterMessageContext:
    """What one fetch has brought, as a `FilterMessageHook` sees it.

    A hook may assign another list to ``messages``: what is missing there is not handed to the
    listener and does not come again. It may hold copies of messages, but none that were not there.
    """

    consumer_group: str
    messages: list[MessageExt]
    queue: MessageQueue


class FilterMessageHook(Protocol):
    """Called with the messages of each fetch, still compressed, before any listener has them."""

    def filter_message(self, context: FilterMessageContext) -> None:
        """Look at ``context.messages``, or replace them."""


@define(eq=False, repr=False)
class Hooks:
    """The hooks of one consumer, in the order in which they were registered; ``own`` are first."""

    consume: list[ConsumeMessageHook] = field(factory=list)
    filter: list[FilterMessageHook] = field(factory=list)
    own: tuple[ConsumeMessageHook, ...] = ()
    """The SDK's, such as that of the trace."""
    _faults: ApplicationFaults = field(factory=partial(ApplicationFaults, logger), init=False)

    @property
    def see_calls(self) -> bool:
        """Whether any hook sees calls of the listener."""
        return bool(self.consume or self.own)

    def before(self, context: ConsumeMessageContext) -> None:
        """Show messages to the hooks before the listener has them."""
        for hook in (*self.own, *self.consume):
            try:
                hook.before(context)
            except Exception as error:  # noqa: BLE001 - a hook cannot break a consumer
                self._tell("consume", hook, context.consumer_group, error)

    def after(self, context: ConsumeMessageContext) -> None:
        """Show the hooks what came of them."""
        for hook in (*self.own, *self.consume):
            try:
                hook.after(context)
            except Exception as error:  # noqa: BLE001 - a hook cannot break a consumer
                self._tell("consume", hook, context.consumer_group, error)

    def show_polled(self, group: str, queue: MessageQueue, messages: Sequence[MessageExt]) -> None:
        """Show messages that a program has asked for: they count as handled, as in Java."""
        if not self.see_calls:
            return
        context = ConsumeMessageContext(consumer_group=group, messages=tuple(messages), queue=queue)
        self.before(context)
        context.success, context.status = True, "CONSUME_SUCCESS"
        context.props[CONTEXT_TYPE] = "SUCCESS"
        context.outcomes = (HANDLED,) * len(messages)
        self.after(context)

    def filtered(
        self, group: str, messages: list[MessageExt], queue: MessageQueue
    ) -> list[MessageExt]:
        """Return what the hooks leave of the messages of a fetch."""
        context = FilterMessageContext(consumer_group=group, messages=messages, queue=queue)
        for hook in self.filter:
            before = context.messages
            context.messages = list(before)
            try:
                hook.filter_message(context)
                context.messages = _checked(before, context.messages)
            except Exception as error:  # noqa: BLE001 - a hook cannot break a consumer
                self._tell("filter", hook, group, error)
                context.messages = before
        return context.messages

    def _tell(self, kind: str, hook: object, group: str, error: Exception) -> None:
        self._faults.tell(f"group {group}: {kind} hook", hook, error)


def _checked(before: list[MessageExt], after: list[MessageExt]) -> list[MessageExt]:
    known = [_place(one) for one in before]
    foreign = [one for one in after if _place(one) not in known]
    if foreign:
        raise ValueError(
            f"it put {len(foreign)} messages into the list that were not there, such as one of "
            f"offset {foreign[0].queue_offset}: its list is not used"
        )
    by_place = {_place(one): one for one in after}
    return [by_place[place] for place in known if place in by_place]


def _place(message: MessageExt) -> tuple[str | None, int]:
    """Tell messages of a fetch apart: popped ones may be of several queues."""
    return message.properties.get(Prop.POP_CK), message.queue_offset
