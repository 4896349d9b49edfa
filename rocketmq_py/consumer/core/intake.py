"""When a lane is fetched again, and what follows from each answer.

One fetch per lane is on its way at any time, kept by the broker while there is nothing to get. A
lane whose answers lead nowhere is put off (`standstill`). The I/O thread only completes futures;
answers are worked on by the instance's answer pool, and listeners run elsewhere. It must not know
listeners or assignment: a `Dispatch` takes messages, `rounds` assigns. Facts:
`DefaultMQPushConsumerImpl.pullMessage`.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import Protocol

from attrs import define, field

from rocketmq_py.client.answers import lacks_queue
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.limits import Gate
from rocketmq_py.consumer.core.progress import Progress
from rocketmq_py.consumer.core.sources import Fetched, Source
from rocketmq_py.consumer.core.standstill import PAUSE_MAX_S, Standstill
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
"""A broker that has restarted gets so many chances to learn by a heartbeat who fetches."""
LOG_EVERY = 1000
"""One of so many equal waits of a lane is logged."""
HASTEN_AFTER_S = 0.01
STANDING_MAX = 4_096
NOTHING_TO_GET = ""
"""Why a lane is fetched later whose topic is gone or not wanted any more."""


class IntakeSettings(Protocol):
    """The pauses between fetches, in milliseconds; see `PushConsumerConfig`."""

    pull_interval: int
    pull_time_delay_millis_when_exception: int


@define(eq=False, repr=False, kw_only=True)
class Intake:
    """Fetches of all lanes of one consumer.

    `gates` say whether a lane may be fetched now, `deliver` takes messages that are in the lane
    already, `corrected` a lane that is dropped because the broker corrected its offset.
    """

    _engine: ClientInstance
    _settings: IntakeSettings
    _group: str
    _source: Source
    _progress: Progress
    _gates: Sequence[Gate]
    _deliver: Callable[[Lane, list[MessageExt]], None]
    _corrected: Callable[[Lane], None]
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _parked: list[Lane] = field(factory=list, init=False)
    _waiting: dict[Lane, str] = field(factory=dict, init=False)
    _retries: dict[Lane, object] = field(factory=dict, init=False)
    _standing: dict[MessageQueue, Standstill] = field(factory=dict, init=False)
    suspended: bool = field(default=False, init=False)
    _stopped: bool = field(default=False, init=False)

    def fetch(self, lane: Lane) -> None:
        """Ask for the next messages of a lane, now or as soon as the flow control allows."""
        if self._waiting:
            self._waiting.pop(lane, None)
        if lane.dropped or self._stopped:
            return
        lane.fetched_at = monotonic()
        if self._parks(lane):
            return
        reason = self.closed_gate(lane)
        if reason is not None:
            if lane.flow_controlled % LOG_EVERY == 0:
                logger.warning("group %s: %s waits: %s", self._group, lane.queue, reason)
            lane.flow_controlled += 1
            self._later(lane, CACHE_FULL_WAIT_MS, reason)
            return
        try:
            future = self._source.ask(lane)
        except RocketMQError as error:
            self._failed(lane, error)
            return
        if future is None:  # unsubscribed; the next rebalance drops the lane
            wait_ms = self._settings.pull_time_delay_millis_when_exception
            self._later(lane, wait_ms, NOTHING_TO_GET)
            return
        future.add_done_callback(partial(self._completed, lane))

    def closed_gate(self, lane: Lane) -> str | None:
        """Why the lane cannot be fetched now, None when it can."""
        for gate in self._gates:
            reason = gate(lane)
            if reason is not None:
                return reason
        return None

    @property
    def waiting(self) -> str | None:
        """Which lane is fetched again only later though it may hold something; None: none is."""
        for lane, reason in list(self._waiting.items()):
            if not lane.dropped:
                return f"{lane.queue} is pulled again later: {reason}"
        return None

    def hasten(self) -> None:
        """Repeat the fetches that failed, without the rest of their wait.

        A lane that was fetched a moment ago keeps waiting: a broker that refuses is not flooded.
        """
        now = monotonic()
        for lane in list(self._retries):
            if now - lane.fetched_at >= HASTEN_AFTER_S:
                with self._lock:
                    waits = self._retries.pop(lane, None) is not None
                if waits:
                    self._submit(partial(self.fetch, lane))

    def suspend(self) -> None:
        """Stop fetching; what comes back from fetches on their way is not taken."""
        self.suspended = True

    def resume(self) -> None:
        """Fetch again, from where each lane stood."""
        with self._lock:
            self.suspended = False
        self._unpark()

    def pause(self, lanes: Iterable[Lane]) -> None:
        """Stop fetching these lanes."""
        for lane in lanes:
            lane.paused = True

    def unpause(self, lanes: Iterable[Lane]) -> None:
        """Fetch these lanes again, from where each stood."""
        with self._lock:
            for lane in lanes:
                lane.paused = False
        self._unpark()

    def stop(self) -> None:
        """End all fetching; answers that still come are thrown away."""
        self._stopped = True

    def _parks(self, lane: Lane) -> bool:
        with self._lock:
            if not (self.suspended or lane.paused):
                return False
            self._parked.append(lane)
            return True

    def _unpark(self) -> None:
        with self._lock:
            if self.suspended:
                return
            parked, self._parked = self._parked, []
            self._parked = [lane for lane in parked if lane.paused and not lane.dropped]
        for lane in parked:
            if not lane.paused:
                self._submit(partial(self.fetch, lane))

    def _completed(self, lane: Lane, future: Future[RemotingCommand]) -> None:
        """Leave the I/O thread at once."""
        self._submit(partial(self._answered, lane, future))

    def _answered(self, lane: Lane, future: Future[RemotingCommand]) -> None:
        # A task of the answer pool: whatever goes wrong, the lane must be fetched again.
        if lane.dropped or self._stopped:
            with suppress(RocketMQError, CancelledError):
                self._source.decline(lane, future.result())
            return
        if not lane.is_popped and self._parks(lane):  # popped messages are not there twice
            return
        try:
            answer, broker_id = future.result(), lane.suggested_broker
            fetched = self._source.read(lane, answer)
        except (RocketMQError, CancelledError) as error:
            self._failed(lane, error)
        except Exception as error:
            logger.exception("group %s: answer for %s not understood", self._group, lane.queue)
            self._failed(lane, error)
        else:
            if self._engine.unreachable:
                self._tell_presence(lane, broker_id)
            lane.forgotten = 0
            self._take(lane, fetched)

    def _tell_presence(self, lane: Lane, broker_id: int) -> None:
        find = self._engine.routes.broker_address
        self._engine.unreachable.answered(find(lane.queue.broker_name, broker_id=broker_id))

    def _take(self, lane: Lane, fetched: Fetched) -> None:
        pause_ms = 0.0 if fetched.problem is not None else self._pause_ms(lane, fetched)
        if fetched.moved:
            self._moved(lane, fetched, pause_ms)
            return
        messages = fetched.messages
        lane.next_offset = fetched.next_offset
        if messages:
            lane.put(messages)
            self._deliver(lane, messages)
        elif lane.count == 0 and fetched.code != ResponseCode.SUCCESS:
            # Nothing unfinished below: what did not match need not be looked at again.
            self._progress.passed(lane, fetched.next_offset)
        if fetched.problem is not None:
            self._failed(lane, fetched.problem)
        elif messages and self._settings.pull_interval > pause_ms:
            self._later(lane, self._settings.pull_interval, "pull_interval")
        elif pause_ms:
            self._repeat(lane, pause_ms, "the broker's answers lead nowhere")
        else:
            self.fetch(lane)

    def _pause_ms(self, lane: Lane, fetched: Fetched) -> float:
        """How long the lane is put off because its answers lead nowhere; told once a minute."""
        queue, asked = lane.queue, lane.next_offset
        stand = self._standing.get(queue) or Standstill()
        took_s = monotonic() - lane.fetched_at
        pause_s = stand.pause_s(fetched, asked, took_s)
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
                f"{stand.count} answers in a row lead nowhere for {queue}: code {fetched.code} at "
                f"once for offset {asked}, to go on at {fetched.next_offset}. Such a queue is "
                f"pulled once in {PAUSE_MAX_S:g} s until that changes",
            )
        return pause_s * 1000

    def _tell(self, queue: MessageQueue, what: str, problem: str) -> None:
        """Log a nonsense of a queue's broker, once a minute for each ``what``."""
        what = f"group {self._group}: {what}"
        self._engine.unreachable.failed(queue.broker_name, what, RocketMQError(problem))

    def _moved(self, lane: Lane, fetched: Fetched, pause_ms: float) -> None:
        """Give the lane back whose offset is corrected; it is taken afresh, now or later."""
        offset = fetched.next_offset
        problem = f"offset {lane.next_offset} is illegal, the broker says {offset}"
        self._tell(lane.queue, f"a pull of {lane.queue}", problem)
        lane.next_offset = offset
        lane.dropped = True
        if pause_ms:
            again = partial(self._submit, partial(self._corrected, lane))
            self._engine.schedule_after(pause_ms, again)
        else:
            self._corrected(lane)

    def _failed(self, lane: Lane, error: BaseException | None) -> None:
        if self._stopped or not self._engine.is_running:
            return  # our own client closes: nothing failed, and nobody will fetch again
        code = error.code if isinstance(error, MQBrokerException) else ResponseCode.SUCCESS
        if code == ResponseCode.FLOW_CONTROL:
            self._later(lane, BROKER_BUSY_WAIT_MS, "the broker is busy")
            return
        if code == ResponseCode.SUBSCRIPTION_NOT_EXIST and lane.forgotten < FORGOTTEN_MAX:
            # It has restarted, and the heartbeat of this connection is on its way.
            lane.forgotten += 1
            self._later(lane, FORGOTTEN_WAIT_MS, "the broker does not know the group yet")
            return
        wait_ms = self._settings.pull_time_delay_millis_when_exception
        what = f"group {self._group}: pull of {lane.queue} at offset {lane.next_offset}"
        self._engine.unreachable.failed(lane.queue.broker_name, what, error)
        if lacks_queue(error):
            self._engine.look_again_soon(lane.queue.topic)
        if code == ResponseCode.TOPIC_NOT_EXIST:
            self._later(lane, wait_ms, NOTHING_TO_GET)
            return
        self._repeat(lane, wait_ms, str(error))

    def _repeat(self, lane: Lane, wait_ms: float, reason: str) -> None:
        """Fetch again later, or as soon as somebody waits for it (`hasten`)."""
        turn = object()
        self._waiting[lane], self._retries[lane] = reason, turn
        self._engine.schedule_after(
            wait_ms, partial(self._submit, partial(self._retry, lane, turn))
        )

    def _retry(self, lane: Lane, turn: object) -> None:
        """Fetch again, unless ``hasten`` did so already."""
        with self._lock:
            if self._retries.get(lane) is not turn:
                return
            del self._retries[lane]
        self.fetch(lane)

    def _later(self, lane: Lane, wait_ms: int, reason: str) -> None:
        if reason != NOTHING_TO_GET:
            self._waiting[lane] = reason
        # A fetch may wait for a connection, so the timer thread only passes it on.
        self._engine.schedule_after(wait_ms, partial(self._submit, partial(self.fetch, lane)))

    def _submit(self, task: Callable[[], None]) -> None:
        if not self._engine.submit(task) and not self._stopped:
            # The pool is full: a lost task would end the fetching of its lane for good.
            wait_ms = self._settings.pull_time_delay_millis_when_exception
            self._engine.schedule_after(wait_ms, partial(self._submit, task))
