"""When is a queue pulled again, and what follows from each answer.

One pull per queue is on its way at any time, kept by the broker while there is nothing to get. A
queue whose answers lead nowhere is put off (`standstill`).
The I/O thread only completes futures; answers are worked on by the instance's callback pool, and
listeners run elsewhere. This module must not know listeners or assignment: `concurrent` consumes,
`rebalance` assigns. Facts: `DefaultMQPushConsumerImpl.pullMessage`.
"""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial

from attrs import define, field

from rocketmq_py.client.answers import lacks_queue
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.queue_requests import RawPull, pull_answer
from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.calls import ConsumerCalls, PullAsk
from rocketmq_py.consumer.offsets import OffsetStore
from rocketmq_py.consumer.process_queue import PullState
from rocketmq_py.consumer.receive import Received, receive
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.consumer.standstill import PAUSE_MAX_S, Standstill
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.errors import MQBrokerException, RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

CACHE_FULL_WAIT_MS = 50
BROKER_BUSY_WAIT_MS = 20
FORGOTTEN_WAIT_MS = 20
FORGOTTEN_MAX = 50
"""A broker that has restarted gets so many chances to learn by a heartbeat who pulls."""
LOG_EVERY = 1000
"""One of so many equal waits of a queue is logged."""
HURRY_AFTER_S = 0.01
STANDING_MAX = 4_096
NOTHING_TO_GET = ""
"""Why a queue is pulled later whose topic is gone or not wanted any more."""
MIB = 1024 * 1024


@define(eq=False, repr=False, kw_only=True)
class PullLoop:
    """Pulls of all queues of one consumer.

    `limits` gives cached messages and MiB that a queue may hold, `deliver` takes messages that
    are in the process queue already, `offset_illegal` a queue whose offset the broker corrected.
    """

    _engine: ClientInstance
    _calls: ConsumerCalls
    _config: PushConsumerConfig
    _offsets: OffsetStore
    _subscriptions: SubscriptionTable
    _group: str
    _limits: Callable[[], tuple[int, int]]
    _deliver: Callable[[PullState, list[MessageExt]], None]
    _offset_illegal: Callable[[PullState], None]
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _parked: list[PullState] = field(factory=list, init=False)
    _waiting: dict[PullState, str] = field(factory=dict, init=False)
    _retries: dict[PullState, object] = field(factory=dict, init=False)
    _standing: dict[MessageQueue, Standstill] = field(factory=dict, init=False)
    paused: bool = field(default=False, init=False)
    _stopped: bool = field(default=False, init=False)

    def pull(self, state: PullState) -> None:
        """Ask for the next messages of a queue, now or as soon as the flow control allows."""
        process_queue = state.process_queue
        if self._waiting:
            self._waiting.pop(state, None)
        if process_queue.dropped or self._stopped:
            return
        process_queue.last_pull = monotonic()
        if self._parks(state):
            return
        reason = self.closed_gate(state)
        if reason is not None:
            if state.flow_controlled % LOG_EVERY == 0:
                logger.warning("group %s: %s waits: %s", self._group, state.queue, reason)
            state.flow_controlled += 1
            self._later(state, CACHE_FULL_WAIT_MS, reason)
            return
        subscription = self._subscriptions.get(state.queue.topic)
        if subscription is None:  # unsubscribed; the next rebalance drops the queue
            wait_ms = self._config.pull_time_delay_millis_when_exception
            self._later(state, wait_ms, NOTHING_TO_GET)
            return
        try:
            with self._offsets.riding(state.queue) as offset:
                future = self._calls.pull(
                    PullAsk(
                        state.queue,
                        state.next_offset,
                        offset,
                        subscription,
                        state.suggested_broker,
                    )
                )
        except RocketMQError as error:
            self._failed(state, error)
            return
        future.add_done_callback(partial(self._completed, state))

    def closed_gate(self, state: PullState) -> str | None:
        """Which limit keeps the queue from being pulled, None when it may be."""
        process_queue = state.process_queue
        count_max, mib_max = self._limits()
        if process_queue.count > count_max:
            return f"{process_queue.count} messages cached, pull_threshold_for_queue {count_max}"
        if process_queue.size // MIB > mib_max:
            return f"{process_queue.size} bytes cached, pull_threshold_size_for_queue {mib_max} MiB"
        span_max = self._config.consume_concurrently_max_span
        # The span costs a lock; it cannot exceed its limit with fewer messages in between.
        if process_queue.count > 1 and process_queue.max_span > span_max:
            return (
                f"unfinished offsets are {process_queue.max_span} apart, "
                f"consume_concurrently_max_span {span_max}"
            )
        return None

    @property
    def waiting(self) -> str | None:
        """Which queue is pulled again only later though it may hold something; None: none is."""
        for state, reason in list(self._waiting.items()):
            if not state.dropped:
                return f"{state.queue} is pulled again later: {reason}"
        return None

    def hurry(self) -> None:
        """Repeat the pulls that failed, without the rest of their wait.

        A queue that was pulled a moment ago keeps waiting: a broker that refuses is not flooded.
        """
        now = monotonic()
        for state in list(self._retries):
            if now - state.process_queue.last_pull >= HURRY_AFTER_S:
                with self._lock:
                    waits = self._retries.pop(state, None) is not None
                if waits:
                    self._submit(partial(self.pull, state))

    def suspend(self) -> None:
        """Stop pulling; what comes back from pulls on their way is not taken."""
        self.paused = True

    def resume(self) -> None:
        """Pull again, from where each queue stood."""
        with self._lock:
            self.paused = False
            parked, self._parked = self._parked, []
        for state in parked:
            self._submit(partial(self.pull, state))

    def stop(self) -> None:
        """End all pulling; answers that still come are thrown away."""
        self._stopped = True

    def _parks(self, state: PullState) -> bool:
        with self._lock:
            if not self.paused:
                return False
            self._parked.append(state)
            return True

    def _completed(self, state: PullState, future: Future[RemotingCommand]) -> None:
        """Leave the I/O thread at once."""
        self._submit(partial(self._answered, state, future))

    def _answered(self, state: PullState, future: Future[RemotingCommand]) -> None:
        # A task of the callback pool: whatever goes wrong, the queue must be pulled again.
        if state.process_queue.dropped or self._stopped:
            return
        if self._parks(state):
            return
        try:
            answer = pull_answer(future.result())
            if self._engine.absences:
                self._tell_presence(state)
            state.suggested_broker = answer.suggested_broker_id
            received = self._received(state, answer)
        except (RocketMQError, CancelledError) as error:
            self._failed(state, error)
        except Exception as error:
            logger.exception("group %s: answer for %s not understood", self._group, state.queue)
            self._failed(state, error)
        else:
            state.forgotten = 0
            self._take(state, answer, received)

    def _tell_presence(self, state: PullState) -> None:
        broker, name = state.suggested_broker, state.queue.broker_name
        address = self._engine.routes.broker_address(name, broker_id=broker)
        self._engine.absences.answered(address)

    def _received(self, state: PullState, answer: RawPull) -> Received:
        if answer.code != ResponseCode.SUCCESS:
            return Received([])
        subscription = self._subscriptions.get(state.queue.topic)
        return receive(
            answer,
            state.queue,
            asked_offset=state.next_offset,
            tags=frozenset() if subscription is None else subscription.tags_set,
            group=self._group,
        )

    def _take(self, state: PullState, answer: RawPull, received: Received) -> None:
        pause_ms = self._pause_ms(state, answer, brings=bool(received.messages))
        match answer.code:
            case ResponseCode.SUCCESS:
                self._found(state, answer, received, pause_ms)
            case ResponseCode.PULL_OFFSET_MOVED:
                self._moved(state, answer, pause_ms)
            case _:
                state.next_offset = answer.next_offset
                if state.process_queue.count == 0:
                    # Nothing unfinished below: what did not match need not be looked at again.
                    self._offsets.update(state.queue, answer.next_offset)
                self._go_on(state, pause_ms)

    def _pause_ms(self, state: PullState, answer: RawPull, *, brings: bool) -> float:
        """How long the queue is put off because its answers lead nowhere; told once a minute."""
        queue, asked = state.queue, state.next_offset
        stand = self._standing.get(queue) or Standstill()
        took_s = monotonic() - state.process_queue.last_pull
        pause_s = stand.pause_s(answer, asked, took_s, brings=brings)
        if stand.is_over:
            self._standing.pop(queue, None)
        else:
            if len(self._standing) >= STANDING_MAX:  # of queues that others have now
                self._standing.clear()
            self._standing[queue] = stand
        if pause_s and stand.is_worth_telling:
            self._tell(
                queue,
                f"pulls from {queue.broker_name}",
                f"{stand.count} answers in a row lead nowhere for {queue}: code {answer.code} at "
                f"once for offset {asked}, to go on at {answer.next_offset}. Such a queue is "
                f"pulled once in {PAUSE_MAX_S:g} s until that changes",
            )
        return pause_s * 1000

    def _tell(self, queue: MessageQueue, what: str, problem: str) -> None:
        """Log a nonsense of a queue's broker, once a minute for each ``what``."""
        what = f"group {self._group}: {what}"
        self._engine.absences.failed(queue.broker_name, what, RocketMQError(problem))

    def _moved(self, state: PullState, answer: RawPull, pause_ms: float) -> None:
        """Give the queue back whose offset is corrected; it is taken afresh, now or later."""
        offset = answer.next_offset
        problem = f"offset {state.next_offset} is illegal, the broker says {offset}"
        self._tell(state.queue, f"a pull of {state.queue}", problem)
        state.next_offset = offset
        state.process_queue.dropped = True
        if pause_ms:
            again = partial(self._submit, partial(self._offset_illegal, state))
            self._engine.schedule_after(pause_ms, again)
        else:
            self._offset_illegal(state)

    def _go_on(self, state: PullState, pause_ms: float) -> None:
        if pause_ms:
            self._repeat(state, pause_ms, "the broker's answers lead nowhere")
        else:
            self.pull(state)

    def _found(
        self, state: PullState, answer: RawPull, received: Received, pause_ms: float
    ) -> None:
        messages = received.messages
        if messages:
            state.process_queue.put(messages)
            self._deliver(state, messages)
        if received.stopped_at is not None:
            # Nothing behind an unreadable record is taken, and nothing is skipped in silence.
            state.next_offset = received.stopped_at
            if received.problem is not None:
                self._failed(state, received.problem)
                return
        else:
            state.next_offset = answer.next_offset
        if messages and self._config.pull_interval > pause_ms:
            self._later(state, self._config.pull_interval, "pull_interval")
        else:
            self._go_on(state, pause_ms)

    def _failed(self, state: PullState, error: BaseException | None) -> None:
        if self._stopped or not self._engine.is_running:
            return  # our own client closes: nothing failed, and nobody will pull again
        code = error.code if isinstance(error, MQBrokerException) else ResponseCode.SUCCESS
        if code == ResponseCode.FLOW_CONTROL:
            self._later(state, BROKER_BUSY_WAIT_MS, "the broker is busy")
            return
        if code == ResponseCode.SUBSCRIPTION_NOT_EXIST and state.forgotten < FORGOTTEN_MAX:
            # It has restarted, and the heartbeat of this connection is on its way.
            state.forgotten += 1
            self._later(state, FORGOTTEN_WAIT_MS, "the broker does not know the group yet")
            return
        wait_ms = self._config.pull_time_delay_millis_when_exception
        what = f"group {self._group}: pull of {state.queue} at offset {state.next_offset}"
        self._engine.absences.failed(state.queue.broker_name, what, error)
        if lacks_queue(error):
            self._engine.look_again_soon(state.queue.topic)
        if code == ResponseCode.TOPIC_NOT_EXIST:
            self._later(state, wait_ms, NOTHING_TO_GET)
            return
        self._repeat(state, wait_ms, str(error))

    def _repeat(self, state: PullState, wait_ms: float, reason: str) -> None:
        """Pull again later, or as soon as somebody waits for it (`hurry`)."""
        turn = object()
        self._waiting[state], self._retries[state] = reason, turn
        self._engine.schedule_after(
            wait_ms, partial(self._submit, partial(self._retry, state, turn))
        )

    def _retry(self, state: PullState, turn: object) -> None:
        """Pull again, unless ``hurry`` did so already."""
        with self._lock:
            if self._retries.get(state) is not turn:
                return
            del self._retries[state]
        self.pull(state)

    def _later(self, state: PullState, wait_ms: int, reason: str) -> None:
        if reason != NOTHING_TO_GET:
            self._waiting[state] = reason
        # A pull may wait for a connection, so the timer thread only passes it on.
        self._engine.schedule_after(wait_ms, partial(self._submit, partial(self.pull, state)))

    def _submit(self, task: Callable[[], None]) -> None:
        if not self._engine.submit(task) and not self._stopped:
            # The pool is full: a lost task would end the pulling of its queue for good.
            wait_ms = self._config.pull_time_delay_millis_when_exception
            self._engine.schedule_after(wait_ms, partial(self._submit, task))
