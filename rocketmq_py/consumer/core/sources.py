"""What a fetch asks a broker for, and what its answer says: the sources of a consumer's messages.

A `Source` makes the request of one fetch of a lane and reads the answer. It must not know when a
lane is fetched; that is `intake`. Facts: ``PullAPIWrapper.pullKernelImpl``, ``processPullResult``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from attrs import define, field

from rocketmq_py.client.answers import broker_error
from rocketmq_py.client.queue_requests import pull_answer
from rocketmq_py.consumer.calls import LONG_POLL_MS, ConsumerCalls, PullAsk
from rocketmq_py.consumer.core.pop_calls import PopAsk, PopCalls, PopStatus, Receipt, read_pop
from rocketmq_py.consumer.core.receive import receive
from rocketmq_py.consumer.hooks import Hooks
from rocketmq_py.consumer.listener import ConsumeFromWhere
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.properties import Prop

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.consumer.core.offset_table import OffsetTable
    from rocketmq_py.consumer.core.pop_lane import PopLane
    from rocketmq_py.consumer.subscriptions import SubscriptionTable
    from rocketmq_py.errors import RocketMQError
    from rocketmq_py.message import MessageExt
    from rocketmq_py.protocol.command import RemotingCommand


class Fetched(NamedTuple):
    """What one fetch brought.

    `next_offset` is where to go on; in a popped lane, how many messages it has got so far.
    `moved`: the offset that was asked for cannot be read, and the broker corrects it. `problem`:
    the record at `next_offset` cannot be read.
    """

    code: int
    messages: list[MessageExt]
    next_offset: int
    moved: bool = False
    problem: RocketMQError | None = None


class Source(Protocol):
    """Where a consumer's messages come from; for one lane it is called by one thread at a time."""

    def ask(self, lane: Lane) -> Future[RemotingCommand] | None:
        """Send the request of a fetch; None: nothing of the lane's topic is wanted any more.

        Raises RocketMQError when it cannot be sent.
        """

    def read(self, lane: Lane, answer: RemotingCommand) -> Fetched:
        """Read the answer. Raises RocketMQError for a refusal and for what cannot be read."""

    def decline(self, lane: Lane, answer: RemotingCommand) -> None:
        """Let others have what an answer brings to a lane that has ended. Raises as `read`."""


@define(eq=False, repr=False)
class Pulls:
    """Messages of a queue from an offset on, kept by the broker while there are none (11)."""

    _calls: ConsumerCalls
    _subscriptions: SubscriptionTable
    _offsets: OffsetTable
    _group: str
    _hooks: Hooks = field(factory=Hooks)

    def ask(self, lane: Lane) -> Future[RemotingCommand] | None:
        """Ask for what is at `Lane.next_offset`; the group's offset rides along."""
        subscription = self._subscriptions.get(lane.queue.topic)
        if subscription is None:
            return None
        with self._offsets.riding(lane.queue) as offset:
            return self._calls.pull(
                PullAsk(lane.queue, lane.next_offset, offset, subscription, lane.suggested_broker)
            )

    def read(self, lane: Lane, answer: RemotingCommand) -> Fetched:
        """Read messages, and note the broker that wants to be asked next time."""
        pulled = pull_answer(answer)
        lane.suggested_broker = pulled.suggested_broker_id
        if pulled.code != ResponseCode.SUCCESS:
            return Fetched(pulled.code, [], pulled.next_offset, pulled.moved)
        subscription = self._subscriptions.get(lane.queue.topic)
        received = receive(
            pulled,
            lane.queue,
            asked_offset=lane.next_offset,
            tags=frozenset() if subscription is None else subscription.tags_set,
            group=self._group,
        )
        messages = received.messages
        if messages and self._hooks.filter:
            messages = self._hooks.filtered(self._group, messages, lane.queue)
        next_offset = pulled.next_offset
        if received.stopped_at is not None:  # nothing behind it is taken, nothing is skipped
            next_offset = received.stopped_at
        return Fetched(pulled.code, messages, next_offset, problem=received.problem)

    def decline(self, lane: Lane, answer: RemotingCommand) -> None:
        """Nothing: what was pulled is there for others anyway."""


class PopSettings(Protocol):
    """What a pop asks for; see `PushConsumerConfig`."""

    pop_invisible_time: int
    pop_batch_nums: int
    consume_from_where: ConsumeFromWhere


@define(eq=False, repr=False)
class Pops:
    """Messages that their broker hides from the group meanwhile; it keeps the pop without (200050).

    ``unwanted`` acks messages whose tags are not wanted, and what hooks leave out. ``poll_ms``: so
    long the broker keeps it.
    """

    _calls: PopCalls
    _subscriptions: SubscriptionTable
    _settings: PopSettings
    _unwanted: Callable[[Iterable[Receipt]], object]
    _group: str
    _hooks: Hooks = field(factory=Hooks)
    _poll_ms: int = LONG_POLL_MS

    def ask(self, lane: PopLane) -> Future[RemotingCommand] | None:
        """Pop what the broker gives."""
        ask = self._ask_of(lane)
        return None if ask is None else self._calls.ask_pop(ask)

    def read(self, lane: PopLane, answer: RemotingCommand) -> Fetched:
        """Read messages, and let go of those with other tags.

        A broker at which too many pops wait counts as one that refuses.
        """
        ask = self._ask_of(lane)
        if ask is None:  # unsubscribed meanwhile: what was popped comes again
            return Fetched(answer.code, [], lane.next_offset)
        got = read_pop(answer, ask, tags=frozenset(ask.subscription.tags_set))
        if got.status is PopStatus.FULL:
            raise broker_error(answer, None, topic=ask.queue.topic)
        if got.status is PopStatus.FOUND:
            lane.end_attempt()
        self._unwanted(got.unwanted)
        so_far = lane.next_offset + len(got.popped) + len(got.unwanted)
        messages = [one.message for one in got.popped]
        if messages and self._hooks.filter:
            messages = self._hooks.filtered(self._group, messages, lane.queue)
            kept = {one.properties[Prop.POP_CK] for one in messages}
            self._unwanted(
                one.receipt for one in got.popped if one.message.properties[Prop.POP_CK] not in kept
            )
        return Fetched(answer.code, messages, so_far, problem=got.problem)

    def decline(self, lane: PopLane, answer: RemotingCommand) -> None:
        """Hide what came in order no longer: all of the queue would wait for it."""
        ask = self._ask_of(lane)
        if ask is not None and lane.in_order:
            for one in read_pop(answer, ask).popped:
                self._calls.give_back(one.receipt)

    def _ask_of(self, lane: PopLane) -> PopAsk | None:
        subscription = self._subscriptions.get(lane.queue.topic)
        if subscription is None:
            return None
        settings = self._settings
        return PopAsk(
            lane.queue,
            settings.pop_batch_nums,
            settings.pop_invisible_time,
            self._poll_ms,
            subscription,
            from_last=settings.consume_from_where is not ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            order=lane.in_order,
            attempt_id=lane.attempt_id,
        )
