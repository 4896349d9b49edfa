"""One running consumer: how the parts of the core work together for it.

A `GroupMember` is made at start and thrown away at shutdown: it wires share, source, progress and
dispatch, and is what the client instance talks to (`ConsumerFace`). It must not know the public
face, nor the shape of a listener; ``../assembly.py`` chooses the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from attrs import field, frozen

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.intake import Intake
from rocketmq_py.consumer.core.rebalance import Rebalancer, Unguarded
from rocketmq_py.consumer.subscription_check import check_subscriptions
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import ResetOffsetBody
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.names import retry_topic
from rocketmq_py.protocol.properties import Prop

if TYPE_CHECKING:
    from rocketmq_py.client.background import TimerHandle
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.consumer.core.limits import Gate
    from rocketmq_py.consumer.core.offset_table import OffsetTable
    from rocketmq_py.consumer.core.progress import Progress
    from rocketmq_py.consumer.core.rebalance import Ownership
    from rocketmq_py.consumer.core.shares import Share
    from rocketmq_py.consumer.core.sources import Source
    from rocketmq_py.consumer.listener import ConsumeFromWhere, MessageModel
    from rocketmq_py.consumer.subscriptions import SubscriptionTable
    from rocketmq_py.message import MessageExt
    from rocketmq_py.protocol.command import RemotingCommand

logger = get_logger(__name__)

UNSUBSCRIBED_MS = 3_000
"""So long after its start a consumer may be without a topic; then the log says so."""
START_S = 2.0
"""How long a start waits for servers; what does not answer by then is asked in background."""


class Dispatch(Protocol):
    """Hands messages to the program, and settles them by what it says. Safe from any thread."""

    def deliver(self, lane: Lane, messages: Sequence[MessageExt]) -> None:
        """Take messages that are in their lane already. Must not block."""

    @property
    def unfinished(self) -> int:
        """Calls of the program that wait or run."""

    @property
    def calls_program(self) -> bool:
        """Whether messages reach the program by themselves; else it must ask for them."""

    def close(self, timeout: float) -> bool:
        """Drop what waits, and wait for running calls; False when one still runs."""


class MemberSettings(Protocol):
    """What the member itself reads; the parts say what they read."""

    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    pull_interval: int
    pull_time_delay_millis_when_exception: int


Task: TypeAlias = "Callable[[list[Lane]], object]"
"""Background work of a consumer with the lanes that it has; may block."""

_Dispatch_co = TypeVar("_Dispatch_co", bound=Dispatch, covariant=True)


def nothing(_timeout: float) -> None:
    """End nothing."""


@frozen(kw_only=True)
class Parts(Generic[_Dispatch_co]):
    """What one kind of consumer is made of.

    ``periodic`` are tasks of the instance's background pool, each with first and further waits in
    ms. ``answer`` serves the requests of brokers that look into the consumer. ``last`` ends, within
    so many seconds, what is told by listeners: when no listener has messages any more.
    """

    consume_type: str
    share: Share
    source: Source
    offsets: OffsetTable
    progress: Progress
    dispatch: _Dispatch_co
    gates: Callable[[Callable[[], int]], Sequence[Gate]]
    answer: Callable[[RemotingCommand, GroupMember[Dispatch]], RemotingCommand | None]
    ownership: Ownership = field(factory=Unguarded)
    periodic: Sequence[tuple[float, float, Task]] = ()
    last: Callable[[float], object] = nothing


class GroupMember(Generic[_Dispatch_co]):
    """One running member of a consumer group."""

    def __init__(
        self,
        *,
        group: str,
        engine: ClientInstance,
        settings: MemberSettings,
        subscriptions: SubscriptionTable,
        parts: Parts[_Dispatch_co],
    ) -> None:
        self.group = group
        self.engine = engine
        self.parts = parts
        self.offsets = parts.offsets
        self.dispatch = parts.dispatch
        self._settings = settings
        self._subscriptions = subscriptions
        self.intake = Intake(
            engine=engine,
            settings=settings,
            group=group,
            source=parts.source,
            progress=parts.progress,
            gates=parts.gates(lambda: len(self.rebalancer.queues())),
            deliver=parts.dispatch.deliver,
            corrected=self._corrected,
        )
        self.rebalancer = Rebalancer(
            group=group,
            engine=engine,
            share=parts.share,
            progress=parts.progress,
            offsets=parts.offsets,
            subscriptions=subscriptions,
            fetch=self.intake.fetch,
            ownership=parts.ownership,
        )
        self._tasks: list[TimerHandle] = []
        self._may_take_queues = False
        self._has_told = False  # that no topic is subscribed

    def start(self) -> None:
        """Begin: routes, heartbeat, first assignment and first fetches, in the caller's thread.

        What cannot be done yet (no route, no broker) is tried again in background. Raises
        MQClientException when a broker does not take a subscription.
        """
        check_subscriptions(self.engine, self.group, self.subscriptions(), START_S)
        self._may_take_queues = True
        for first_ms, period_ms, task in self.parts.periodic:
            run = partial(self.engine.submit_background, self._run, task)
            self._tasks.append(self.engine.schedule_every(first_ms, period_ms, run))
        late = self.engine.schedule_after(UNSUBSCRIBED_MS, self.tell_if_unsubscribed)
        self._tasks.append(late)
        self.rebalancer.run(START_S)

    def tell_if_unsubscribed(self) -> None:
        """Warn, once, when no topic is subscribed while somebody waits for messages."""
        own = retry_topic(self.group)
        if self._has_told or any(topic != own for topic in self._subscriptions.topics()):
            return
        self._has_told = True
        logger.warning(
            "group %s: no topic is subscribed, so nothing arrives until subscribe() is called",
            self.group,
        )

    def check(self, topic: str, expression: str | None, expression_type: str) -> None:
        """Ask a broker whether it takes a subscription; raises MQClientException when not.

        Raises BodyError for one that nobody takes.
        """
        asked = SubscriptionData.parse(topic, expression, 0, expression_type)
        check_subscriptions(self.engine, self.group, [asked], START_S)

    def end(self, timeout: float) -> None:
        """Leave the group: no new messages, up to ``timeout`` seconds for those with a listener.

        Then the last offsets are written and every queue is dropped: later results are thrown
        away. A step that fails does not keep the next ones from their turn.
        """
        deadline = monotonic() + timeout
        with ExitStack() as steps:  # called from the last to the first
            steps.callback(self.engine.unregister_consumer, self.group)
            steps.callback(lambda: self.parts.last(deadline - monotonic()))
            steps.callback(lambda: self.parts.ownership.leave(deadline - monotonic()))
            steps.callback(self.rebalancer.drop_all)
            steps.callback(self.persist_offsets)
            steps.callback(self.parts.progress.end)
            steps.callback(self._end_listeners, timeout)
            steps.callback(self._close_intake)

    @property
    def lanes(self) -> list[Lane]:
        """The queues that this member has now."""
        return self.rebalancer.lanes

    def _run(self, task: Task) -> None:
        task(self.rebalancer.lanes)

    def _close_intake(self) -> None:
        self.intake.stop()
        self.rebalancer.stop()
        for task in self._tasks:
            task.cancel()

    def _end_listeners(self, timeout: float) -> None:
        if not self.dispatch.close(timeout):
            logger.warning(
                "group %s: a listener still runs after %.1f s, its messages come again",
                self.group,
                timeout,
            )

    # --- what the client instance asks --------------------------------------------------------

    @property
    def consume_type(self) -> str:
        """CONSUME_PASSIVELY or CONSUME_ACTIVELY, as a heartbeat carries it."""
        return self.parts.consume_type

    @property
    def message_model(self) -> str:
        """Name of the model, as a heartbeat carries it."""
        return self._settings.message_model.value

    @property
    def consume_from_where(self) -> str:
        """Name of the start rule, as a heartbeat carries it."""
        return self._settings.consume_from_where.value

    def subscriptions(self) -> list[SubscriptionData]:
        """Return what the group subscribes, the retry topic included."""
        return self._subscriptions.all()

    def subscribes(self, topic: str) -> bool:
        """Say whether the group subscribes a topic."""
        return self._subscriptions.get(topic) is not None

    def rebalance(self) -> None:
        """Work out the own queues again, but not before ``start`` does so for the first time."""
        if self._may_take_queues:  # the routes that the check asks for change something, too
            self.rebalancer.run()

    def connection_lost(self, address: str) -> None:
        """Let the ownership of queues know: the broker may have started anew."""
        self.parts.ownership.connection_lost(address)

    def persist_offsets(self) -> None:
        """Write the offsets of the own queues."""
        self.offsets.persist_all(self.rebalancer.queues())

    def handle_broker_request(self, command: RemotingCommand) -> RemotingCommand | None:
        """Serve a broker's request: 220 moves offsets, others look into the consumer."""
        if command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            self._reset_offsets(ResetOffsetBody.decode(command.body))
            return command.answer(ResponseCode.SUCCESS)
        return self.parts.answer(command, self)

    def told(self) -> str | None:
        """Say what is still being worked on, None when it is idle."""
        lanes = self.rebalancer.lanes
        for lane in lanes if self.dispatch.calls_program else ():
            head = lane.head()
            if head is None:
                continue
            begun = Prop.CONSUME_START_TIME in head.properties
            cached = sum(one.count for one in lanes)
            return (
                f"message {head.msg_id} of {head.topic} queue {head.queue_id} "
                f"{'is in its listener' if begun else 'waits for its listener'}; "
                f"{cached} messages cached, {self.dispatch.unfinished} listener calls"
            )
        if self.dispatch.unfinished:
            return f"{self.dispatch.unfinished} listener calls"
        settled = sum(lane.count for lane in lanes)
        if settled:
            return f"{settled} messages are settled, and no broker has confirmed that yet"
        unwritten = self.offsets.unwritten
        if unwritten:
            return f"{unwritten} offsets not written"
        return self.rebalancer.joining or self.intake.waiting

    def hasten(self) -> None:
        """Write offsets that wait, and repeat fetches that failed: both in background.

        While there are messages their offsets change, so those are left to their time.
        """
        if not self.dispatch.unfinished and not any(lane.count for lane in self.lanes):
            self.offsets.hasten()
            self.intake.hasten()

    def begin_at(self, lane: Lane, offset: int) -> None:
        """Take a queue afresh at an offset: late results of what was cached do not move it."""
        self.offsets.freeze(lane.queue, offset)
        self.rebalancer.drop(lane)

    def _reset_offsets(self, wanted: ResetOffsetBody) -> None:
        """Begin again elsewhere, as an administrator asked (`MQClientInstance.resetOffset`).

        What listeners have already is still handled, but no longer moves the offset.
        """
        for lane in self.rebalancer.lanes:
            queue = lane.queue
            key = MessageQueueKey(queue.topic, queue.broker_name, queue.queue_id)
            offset = wanted.offset_table.get(key)
            if offset is not None and not lane.is_popped:  # then the broker has it alone
                self.begin_at(lane, offset)
        self.engine.rebalance_soon(self.group)

    def _corrected(self, lane: Lane) -> None:
        """Begin again at the offset that the broker says; the rebalance takes the queue afresh."""
        if self.rebalancer.lane(lane.queue) is lane:  # else it was given away, or taken afresh
            self.begin_at(lane, lane.next_offset)
        self.engine.rebalance_soon(self.group)
