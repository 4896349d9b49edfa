"""What every consumer that is asked for messages can do, whatever asks: threads or tasks.

`PollingConsumer` shares queues with the other members of its group, or reads those that the program
assigns; it seeks, commits, and opens what its `Inbox` has. This module must not know how messages
are fetched; ``assembly.py`` has the table of what does. Names and rules as in
`org.apache.rocketmq.client.impl.consumer.DefaultLitePullConsumerImpl`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from rocketmq_py.clock import monotonic
from rocketmq_py.config import in_milliseconds
from rocketmq_py.consumer.core.shares import Assigned
from rocketmq_py.consumer.face import SUBSCRIBE_ALL, GroupConsumer
from rocketmq_py.consumer.listener import MessageSelector
from rocketmq_py.errors import IllegalStateError, MQClientException, RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.consumer.calls import ConsumerCalls
    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.consumer.core.polled import PolledProgress
    from rocketmq_py.consumer.dispatch.bodies import Bodies, Unpacked
    from rocketmq_py.consumer.dispatch.inbox import Batch, Inbox
    from rocketmq_py.consumer.settings import LitePullConsumerConfig

    _Consumer = GroupConsumer[Inbox]
else:
    _Consumer = GroupConsumer

logger = get_logger(__name__)

QueueListener: TypeAlias = Callable[[str, frozenset[MessageQueue]], object]
"""Called with a topic and its queues when these have changed."""

CHANGES_FIRST_MS = 10_000


@frozen
class Poll:
    """One poll: who is asked, and until when."""

    inbox: Inbox
    deadline: float

    @property
    def left_s(self) -> float:
        """How long it may still wait."""
        return max(0.0, self.deadline - monotonic())


class PollingConsumer(_Consumer):
    """A member of a group that hands messages over when it is asked. Safe from any thread."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._assigned: Assigned | None = None
        self._expressions: dict[str, str | MessageSelector | None] = {}
        self._changes: dict[str, tuple[QueueListener, frozenset[MessageQueue]]] = {}
        self._room = 0  # bytes of decompressed bodies that the last poll returned

    @property
    @abstractmethod
    def config(self) -> LitePullConsumerConfig:
        """The settings."""

    # --- which queues -------------------------------------------------------------------------

    def subscribe(
        self, topic: str, expression: str | MessageSelector | None = SUBSCRIBE_ALL
    ) -> None:
        """Subscribe to a topic, whose queues the members of the group share.

        Before the start, or after it. Raises `IllegalStateError` after `assign`, and otherwise as
        `DefaultMQPushConsumer.subscribe`.
        """
        if self._assigned is not None:
            raise IllegalStateError(
                f"{self._who()} has assigned queues: subscribe and assign exclude each other"
            )
        super().subscribe(topic, expression)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues, and no others, whatever the other members of the group read.

        A further call replaces them. Raises `IllegalStateError` after `subscribe`.
        """
        wanted = tuple(queues)
        if self._assigned is None:
            if self._subscriptions.topics():
                raise IllegalStateError(
                    f"{self._who()} has subscribed: subscribe and assign exclude each other"
                )
            if self._life.state != "new":
                raise IllegalStateError(f"{self._who()} is started: assign before, and again after")
            self._assigned = Assigned()
        self._assigned.assign(wanted)
        topics = {queue.topic for queue in wanted}
        for topic in set(self._subscriptions.topics()) - topics:
            super().unsubscribe(topic)
        for topic in topics - set(self._subscriptions.topics()):
            super().subscribe(topic, self._expressions.get(topic, SUBSCRIBE_ALL))
        if self.is_running:
            member = self._running()
            member.engine.rebalance_soon(member.group)

    def set_sub_expression_for_assign(
        self, topic: str, expression: str | MessageSelector | None
    ) -> None:
        """Select messages of a topic whose queues are assigned after this call."""
        if self._subscriptions.topics() and self._assigned is None:
            raise IllegalStateError(f"{self._who()} has subscribed, with an expression there")
        self._expressions[topic] = expression

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this consumer reads now, sorted."""
        return sorted(self._running().rebalancer.queues())

    def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic; NoRouteError when nobody knows it."""
        return self.fetch_subscribe_message_queues(topic)

    def register_topic_message_queue_change_listener(
        self, topic: str, listener: QueueListener
    ) -> None:
        """Call ``listener(topic, queues)``, on a thread of the client, when they have changed.

        They are looked at every `topic_metadata_check_interval`.
        """
        if not callable(listener):
            raise TypeError(f"a listener is called with (topic, queues): {listener!r} cannot be")
        self._changes[topic] = listener, frozenset()
        if self.is_running:
            self._running().engine.submit_background(self._look_at_queues)

    # --- life ---------------------------------------------------------------------------------

    def _start(self) -> None:
        """Join the group, take queues and begin to fetch."""
        from rocketmq_py.consumer.assembly import Basis, lite_pull_member
        from rocketmq_py.consumer.calls import ConsumerCalls
        from rocketmq_py.consumer.dispatch.bodies import Bodies

        config = self.config
        with self._life.starting():
            self._check_group()
            group, subscriptions = self.consumer_group, self._subscriptions
            self._bodies: Bodies = Bodies(config)
            self._join(
                config,
                lambda engine: lite_pull_member(
                    Basis(group, engine, config, subscriptions, self._clock, self._hooks),
                    self._assigned,
                ),
                stream=True,
            )
            engine = self._joined().engine
            self._calls: ConsumerCalls = ConsumerCalls(engine, group, config)
            self._watch(engine)

    def _watch(self, engine: ClientInstance) -> None:
        """Begin to look again and again whether queues have changed; a part of the start."""
        interval = self.config.topic_metadata_check_interval
        look = engine.schedule_every(
            min(CHANGES_FIRST_MS, interval),
            interval,
            lambda: engine.submit_background(self._look_at_queues),
        )
        self._life.at_end(lambda _: look.cancel())

    # --- messages -----------------------------------------------------------------------------

    def _begin_poll(self, timeout: int | timedelta | None) -> Poll:
        """Commit what earlier polls returned, if it is so set; return what is to be asked.

        It is asked until `_handed_over` has something, or there is nothing: see `_came_to_nothing`.
        """
        wait_ms = self.config.poll_timeout_millis if timeout is None else checked_wait(timeout)
        member = self._running()
        member.tell_if_unsubscribed()
        self._give_room_back()
        if self.config.auto_commit:
            self._progress.commit()
        return Poll(member.dispatch, monotonic() + wait_ms / 1000)

    def _handed_over(self, batch: Batch, unpacked: Unpacked) -> list[MessageExt]:
        """Return the messages that were asked for; [] when it must be asked again.

        Those for whose bodies there is no room go back. What cannot be decompressed is passed over,
        and the log says so.
        """
        for message, error in unpacked.refused:
            self._tell_refused(message, error)
        if unpacked.waiting:
            self._running().dispatch.put_back(batch._replace(messages=unpacked.waiting))
        self._room = unpacked.size
        handled = [*unpacked.messages, *(message for message, _ in unpacked.refused)]
        if handled and not batch.lane.dropped:
            self._progress.handed_over(batch.lane, handled)
            if unpacked.shown:
                self._hooks.show_polled(self.consumer_group, batch.lane.queue, unpacked.shown)
                return list(unpacked.shown)
        self._give_room_back()
        return []

    def _came_to_nothing(self) -> list[MessageExt]:
        """Return [] when nothing came in time; raise when the end let a poll go."""
        self._running()
        return []

    # --- offsets ------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit what polls have returned, or these offsets: the next messages to consume.

        The brokers are told within a moment, and at the shutdown. Raises MQClientException for a
        queue that is not assigned, ValueError for a negative offset.
        """
        member = self._running()
        if offsets is None:
            self._progress.commit()
            return
        for queue, offset in offsets.items():
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise ValueError(f"offset {offset!r} of {queue} is not possible: at least 0")
            self._lane(queue)
        for queue, offset in offsets.items():
            member.offsets.update(queue, offset, increase_only=False)
            member.offsets.persist_soon(queue)

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset of a queue; None: there is none. Raises RocketMQError."""
        member = self._running()
        known = member.offsets.in_memory(queue)
        return known if known >= 0 else self._calls.stored_offset(queue)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at an offset; what is cached of the queue is thrown away.

        The committed offset moves when something behind it is committed. Raises
        MQClientException for a queue that is not assigned, and for an offset that is not between
        the first one and the one after the last.
        """
        lane = self._lane(queue)
        first, end = self._calls.min_offset(queue), self._calls.max_offset(queue)
        if isinstance(offset, bool) or not isinstance(offset, int) or not first <= offset <= end:
            raise MQClientException(
                f"seek to offset {offset!r} of {queue}: it must be from {first} to {end}",
                topic=queue.topic,
            )
        self._progress.commit([queue])
        self._running().rebalancer.restart(lane, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first offset that can be read."""
        self.seek(queue, self._calls_now.min_offset(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on behind the last message."""
        self.seek(queue, self._calls_now.max_offset(queue))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp: int | datetime) -> int:
        """Return the offset of a store time: epoch ms, or an aware datetime."""
        if isinstance(timestamp, datetime):
            if timestamp.tzinfo is None:
                raise ValueError(f"datetime {timestamp} must be aware: give it a tzinfo")
            timestamp = int(timestamp.timestamp() * 1000)
        return self._calls_now.search_offset(queue, timestamp)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return nothing of these queues until `resume`; MQClientException for one not assigned."""
        self._running().intake.pause([self._lane(queue) for queue in queues])

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Return messages of these queues again; MQClientException for one not assigned."""
        member = self._running()
        member.intake.unpause([self._lane(queue) for queue in queues])
        member.dispatch.look_again()

    # --- inside -------------------------------------------------------------------------------

    @property
    def _progress(self) -> PolledProgress:
        progress: PolledProgress = self._running().parts.progress  # type: ignore[assignment]
        return progress

    @property
    def _calls_now(self) -> ConsumerCalls:
        self._running()
        return self._calls

    def _lane(self, queue: MessageQueue) -> Lane:
        lane = self._running().rebalancer.lane(queue)
        if lane is None:
            raise MQClientException(
                f"{queue} is not assigned to {self._who()}: its queues are "
                f"{[str(one) for one in self.assignment()]}",
                topic=queue.topic,
            )
        return lane

    def _give_room_back(self) -> None:
        if self._room:
            self._bodies.release(self._room)
            self._room = 0

    def _tell_refused(self, message: MessageExt, error: RocketMQError) -> None:
        logger.warning(
            "group %s: message %s of topic %s, queue %d, offset %d cannot be decompressed, so no "
            "poll returns it: %s",
            self.consumer_group,
            message.msg_id,
            message.topic,
            message.queue_id,
            message.queue_offset,
            error,
        )

    def _look_at_queues(self) -> None:
        """Tell the listeners of changes; on a thread that may wait for a name server."""
        for topic, (listener, known) in list(self._changes.items()):
            try:
                queues = frozenset(self.fetch_message_queues(topic))
            except RocketMQError as error:
                logger.debug("queues of %s cannot be looked at: %s", topic, error)
                continue
            if queues == known:
                continue
            self._changes[topic] = listener, queues
            try:
                listener(topic, queues)
            except Exception:
                logger.exception("a listener of changed queues failed topic=%s", topic)


def checked_wait(timeout: int | timedelta) -> int:
    """Return a time-out in ms; TypeError for what is none, ValueError for a negative one."""
    wait_ms: object = in_milliseconds(timeout)
    if isinstance(wait_ms, bool) or not isinstance(wait_ms, int):
        kind = type(timeout).__name__
        raise TypeError(f"a time-out is milliseconds or a timedelta, not {kind} {timeout!r}")
    if wait_ms < 0:
        raise ValueError(f"a time-out of {timeout} is not possible: it must not be negative")
    return wait_ms
