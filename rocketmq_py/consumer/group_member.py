"""How do the organs of a running push consumer work together.

A `GroupMember` is made at start and thrown away at shutdown: it wires calls, offsets, pulls,
listener calls and rebalance, and is what the client instance talks to (`ConsumerFace`). This
module must not know the public face; that is `push`.
"""

from contextlib import ExitStack
from functools import partial

from rocketmq_py.client.background import TimerHandle
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import Clock, wall_ms
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.concurrent import MINUTE_MS, ConcurrentConsumer
from rocketmq_py.consumer.inspection import Inspection
from rocketmq_py.consumer.listener import ConsumeFunction
from rocketmq_py.consumer.offsets import OffsetStore, first_offset
from rocketmq_py.consumer.process_queue import PullState
from rocketmq_py.consumer.pull_loop import PullLoop
from rocketmq_py.consumer.rebalance import Rebalancer
from rocketmq_py.consumer.send_back import SendBack
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.consumer.subscription_check import check_subscriptions
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey
from rocketmq_py.protocol.bodies.groups import ResetOffsetBody
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.groups import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from rocketmq_py.protocol.properties import Prop

logger = get_logger(__name__)

START_S = 2.0
"""How long a start waits for servers; what does not answer by then is asked in background."""


class GroupMember:
    """One running member of a consumer group."""

    consume_type = "CONSUME_PASSIVELY"

    def __init__(
        self,
        *,
        group: str,
        engine: ClientInstance,
        config: PushConsumerConfig,
        subscriptions: SubscriptionTable,
        consume: ConsumeFunction,
        clock: Clock,
    ) -> None:
        self.group = group
        self.engine = engine
        self._config = config
        self._subscriptions = subscriptions
        calls = ConsumerCalls(engine, group, config)
        self.offsets = OffsetStore(engine, calls)
        self.send_back = SendBack(group, calls)
        self.consumer = ConcurrentConsumer(
            group=group,
            engine=engine,
            config=config,
            offsets=self.offsets,
            send_back=self.send_back,
            consume=consume,
            clock=clock,
        )
        self.pulls = PullLoop(
            engine=engine,
            calls=calls,
            config=config,
            offsets=self.offsets,
            subscriptions=subscriptions,
            group=group,
            limits=lambda: self.rebalancer.queue_limits,
            deliver=self.consumer.deliver,
            offset_illegal=self._offset_illegal,
        )
        self.rebalancer = Rebalancer(
            group=group,
            engine=engine,
            calls=calls,
            config=config,
            offsets=self.offsets,
            subscriptions=subscriptions,
            first_offset=partial(
                first_offset, offsets=self.offsets, calls=calls, config=config, clock=clock
            ),
            pull=self.pulls.pull,
        )
        self._inspection = Inspection(
            group=group,
            config=config,
            offsets=self.offsets,
            consume=consume,
            clock=clock,
            started_ms=wall_ms(),
        )
        self._sweeps: TimerHandle | None = None
        self._may_take_queues = False

    def start(self) -> None:
        """Begin: routes, heartbeat, first assignment and first pulls, in the caller's thread.

        What cannot be done yet (no route, no broker) is tried again in background. Raises
        MQClientException when a broker does not take a subscription.
        """
        check_subscriptions(self.engine, self.group, self.subscriptions(), START_S)
        self._may_take_queues = True
        period_ms = self._config.consume_timeout * MINUTE_MS
        self._sweeps = self.engine.schedule_every(
            period_ms, period_ms, partial(self.engine.submit, self.sweep)
        )
        self.rebalancer.run(START_S)

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
        with ExitStack() as steps:  # called from the last to the first
            steps.callback(self.engine.unregister_consumer, self.group)
            steps.callback(self.rebalancer.drop_all)
            steps.callback(self.persist_offsets)
            steps.callback(self._end_listeners, timeout)
            steps.callback(self._close_intake)

    def _close_intake(self) -> None:
        self.pulls.stop()
        self.rebalancer.stop()
        if self._sweeps is not None:
            self._sweeps.cancel()

    def _end_listeners(self, timeout: float) -> None:
        if not self.consumer.close(timeout):
            logger.warning(
                "group %s: a listener still runs after %.1f s, its messages come again",
                self.group,
                timeout,
            )

    def sweep(self) -> int:
        """Send back what its listener call has held for too long; returns how many."""
        return self.consumer.sweep(self.rebalancer.states)

    # --- what the client instance asks --------------------------------------------------------

    @property
    def message_model(self) -> str:
        """Name of the model, as a heartbeat carries it."""
        return self._config.message_model.value

    @property
    def consume_from_where(self) -> str:
        """Name of the start rule, as a heartbeat carries it."""
        return self._config.consume_from_where.value

    def subscriptions(self) -> list[SubscriptionData]:
        """Return what the group subscribes, the retry topic included."""
        return self._subscriptions.all()

    def rebalance(self) -> None:
        """Work out the own queues again, but not before ``start`` does so for the first time."""
        if self._may_take_queues:  # the routes that the check asks for change something, too
            self.rebalancer.run()

    def persist_offsets(self) -> None:
        """Write the offsets of the own queues to the broker."""
        self.offsets.persist_all(self.rebalancer.queues())

    def handle_broker_request(self, command: RemotingCommand) -> RemotingCommand | None:
        """Serve a broker's request: 220 moves offsets, 221 and 307 look, 309 consumes a message."""
        fields, states = command.ext_fields, self.rebalancer.states
        told: Document
        match command.code:
            case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                self._reset_offsets(ResetOffsetBody.decode(command.body))
                return command.answer(ResponseCode.SUCCESS)
            case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                header = GetConsumerStatusRequestHeader.from_ext(fields)
                told = self._inspection.status(states, header.topic)
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                told = self._inspection.running_info(
                    states,
                    self.subscriptions(),
                    self._config.namesrv_addr or "",
                    with_stacks=GetConsumerRunningInfoRequestHeader.from_ext(fields).jstack_enable,
                )
            case RequestCode.CONSUME_MESSAGE_DIRECTLY:
                direct = ConsumeMessageDirectlyResultRequestHeader.from_ext(fields)
                told = self._inspection.consume(command.body, direct.broker_name or "")
            case code:
                logger.warning("group %s: broker request %d is not served", self.group, code)
                return None
        return command.answer(ResponseCode.SUCCESS, body=told.encode())

    def is_busy(self) -> str | None:
        """Say what is still being worked on, or None when idle.

        Offsets that wait to be written are written at once, and pulls that failed are repeated:
        only who waits for idleness asks.
        """
        states = self.rebalancer.states
        for state in states:
            head = state.process_queue.head()
            if head is None:
                continue
            begun = Prop.CONSUME_START_TIME in head.properties
            cached = sum(one.process_queue.count for one in states)
            return (
                f"message {head.msg_id} of {head.topic} queue {head.queue_id} "
                f"{'is in its listener' if begun else 'waits for its listener'}; "
                f"{cached} messages cached, {self.consumer.pool.unfinished} listener calls"
            )
        if self.consumer.pool.unfinished:
            return f"{self.consumer.pool.unfinished} listener calls"
        unwritten = self.offsets.unwritten
        if unwritten:
            self.offsets.hurry()
            return f"{unwritten} offsets not written"
        waiting = self.rebalancer.joining or self.pulls.waiting
        if waiting is not None:
            self.pulls.hurry()
        return waiting

    def unrouted(self) -> list[str]:
        """Return the subscribed topics of which no route is known; the retry topic is none."""
        return self.rebalancer.unrouted()

    def look_for_routes(self) -> None:
        """Ask for the routes of these at once, in background."""
        self.rebalancer.look_for_routes()

    def _reset_offsets(self, wanted: ResetOffsetBody) -> None:
        """Begin again elsewhere, as an administrator asked (`MQClientInstance.resetOffset`).

        What listeners have already is still handled, but no longer moves the offset.
        """
        for state in self.rebalancer.states:
            queue = state.queue
            key = MessageQueueKey(queue.topic, queue.broker_name, queue.queue_id)
            offset = wanted.offset_table.get(key)
            if offset is not None:
                self.offsets.freeze(queue, offset)
                self.rebalancer.drop(state)
        self.engine.rebalance_soon()

    def _offset_illegal(self, state: PullState) -> None:
        """Begin again at the offset that the broker says; the rebalance takes the queue afresh."""
        if state in self.rebalancer.states:  # else it was given away, or taken afresh meanwhile
            self.offsets.freeze(state.queue, state.next_offset)
            self.rebalancer.drop(state)
        self.engine.rebalance_soon()
