"""How a send goes on after each attempt: elsewhere, with a result, or with an error.

The one policy of all sends, after ``DefaultMQProducerImpl.sendDefaultImpl``: the budget of time and
of attempts, how long each may wait for its connection and how long it is put off, its queue, when
the route is asked for again, the fault record that it leaves behind, and the error of a send that
has failed for good. It is a state machine: `Attempts.next` gives a queue, `stored` or `failed`
takes how that attempt ended, and when `next` gives None the outcome stands. Must not know requests,
hooks or threads; ``sending.py`` drives it.
"""

import random
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from rocketmq_py.client.answers import lacks_queue
from rocketmq_py.client.connections import Wait
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    MQBrokerException,
    MQClientException,
    PermissionDeniedError,
    RemotingCommandException,
    RemotingConnectException,
    RemotingException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
    RocketMQError,
    SendAttempt,
    SendFailedError,
    SendTimeoutError,
    TooManySendsError,
)
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.producer.selection import QueueSelection
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.send_result import MessageQueue, SendResult, SendStatus

_Failure = TypeVar("_Failure", bound=SendFailedError)
Choose = Callable[[tuple[MessageQueue, ...]], MessageQueue]
"""Takes the queue that the caller wants out of all."""


class Mode(NamedTuple):
    """In what blocking and asynchronous sends differ: in who waits, not in what is tried again."""

    name: str
    """What hooks are told."""
    waits_for_room: bool
    """Try again after a connection had too many calls in flight: each such send has a thread."""

    def retries(self, config: ProducerConfig) -> int:
        """Return how many further attempts there may be."""
        if self is SYNC:
            return config.retry_times_when_send_failed
        return config.retry_times_when_send_async_failed


SYNC = Mode("SYNC", waits_for_room=True)
ASYNC = Mode("ASYNC", waits_for_room=False)

PAUSE_FIRST_MS = 20
PAUSE_MAX_MS = 1_000
"""Pauses before another attempt at a broker that answered; each is twice the last one."""


class Attempts:
    """The attempts of one send; with ``choose`` only one, which leaves no fault record."""

    __slots__ = (
        "_began",
        "_choose",
        "_config",
        "_deadline",
        "_end",
        "_error",
        "_failed",
        "_faults",
        "_is_final",
        "_most",
        "_only_elsewhere",
        "_queues",
        "_selection",
        "_started",
        "_timeout_ms",
        "_topic",
        "_waited",
        "doubts_route",
        "mode",
        "result",
    )

    def __init__(
        self,
        topic: str,
        timeout_ms: float,
        mode: Mode,
        config: ProducerConfig,
        selection: QueueSelection,
        choose: Choose | None,
    ) -> None:
        self.mode = mode
        self.result: SendResult | None = None
        self._topic = topic
        self._timeout_ms = timeout_ms
        self._config = config
        self._selection = selection
        self._faults = selection.faults
        self._choose = choose
        self._most = 1 if choose is not None else 1 + mode.retries(config)
        self._queues: tuple[MessageQueue, ...] = ()
        self._failed: tuple[SendAttempt, ...] = ()
        self._error: RocketMQError | None = None
        self._is_final = False
        self.doubts_route = False
        """Whether a newer route may explain the last failure: it is asked for before `next`."""
        self._only_elsewhere = False
        self._waited = False
        self._began = self._started = monotonic()
        self._deadline = self._end = self._began + timeout_ms / 1000

    # --- before an attempt -----------------------------------------------------------------

    @property
    def left_ms(self) -> float:
        """What is left of the whole budget, or of the present attempt when that is less."""
        return (self._deadline - monotonic()) * 1000

    @property
    def is_over(self) -> bool:
        """Whether there will be no further attempt."""
        return self._is_final or len(self._queues) >= self._most or self._end <= monotonic()

    def share_of_time(self) -> Wait:
        """Say how long the present attempt may wait for a connection.

        The attempts that remain share what is left. One that returns to a broker waits for it to
        come back: the others have been tried, or there are none.
        """
        count = len(self._queues)
        remaining, returns = self._most - count + 1, self._returns()
        share_ms = max(0.0, self.left_ms) / remaining
        return Wait(share_ms, patient=returns, can_turn=remaining > 1 and not returns)

    @property
    def last(self) -> tuple[MessageQueue, float]:
        """The queue of the last attempt, and when that began."""
        return self._queues[-1], self._started

    @property
    def route_ms(self) -> float:
        """How long it may take to ask for the route: as long as an attempt."""
        left_ms = (self._end - monotonic()) * 1000
        return max(0.0, left_ms) / (self._most - len(self._queues) + 1)

    def pause_ms(self, queues: tuple[MessageQueue, ...], turn_ms: float = 0.0) -> float:
        """How long to wait before the next attempt: not at all while there is another broker.

        Nor when the last one could not connect: the next one waits for the connection itself. A
        queue that the broker does not have waits once for a newer route, which may be asked for in
        ``turn_ms``.
        """
        left_ms = (self._end - monotonic()) * 1000
        if 0 < turn_ms < left_ms and not self._waited and lacks_queue(self._error):
            self._waited = True
            return turn_ms + 1
        if not self._failed or isinstance(self._error, RemotingConnectException):
            return 0.0
        tried = {queue.broker_name for queue in self._queues}
        if any(queue.broker_name not in tried for queue in queues):
            return 0.0
        most_ms = min(PAUSE_MAX_MS, PAUSE_FIRST_MS * 2 ** len(self._failed))
        share_ms = (self._end - monotonic()) * 1000 / (self._most - len(self._queues) + 1)
        return max(0.0, min(random.uniform(most_ms / 2, most_ms), share_ms))

    def next(self, queues: tuple[MessageQueue, ...]) -> MessageQueue | None:
        """Choose the queue of the next attempt; None: the send has ended.

        Raises what ``choose`` raises.
        """
        tried = self._queues
        if self._only_elsewhere and tried[-1] in queues:
            self._is_final = True  # the newest route names the queue, so the refusal stands
        self.doubts_route = self._only_elsewhere = False
        if self._is_final or len(tried) >= self._most:
            return None
        self._started = now = monotonic()
        if self._end <= now:
            return None
        self._deadline = self._end
        longest_ms = self._config.send_msg_max_timeout_per_request
        if longest_ms > 0 and len(tried) + 1 < self._most:
            self._deadline = min(self._end, now + longest_ms / 1000)
        if self._choose is not None:
            queue = self._choose(queues)
        else:
            last = tried[-1].broker_name if tried else None
            queue = self._selection.select(self._topic, queues, last)
        self._queues = (*tried, queue)
        return queue

    def _returns(self) -> bool:
        """Whether the present attempt goes to a broker that was tried before."""
        queues = self._queues
        return any(queue.broker_name == queues[-1].broker_name for queue in queues[:-1])

    @property
    def possibly_stored(self) -> bool:
        """Whether a broker may have the message by now; one that has not answered may."""
        is_asking = len(self._queues) > len(self._failed)
        return is_asking or any(attempt.possibly_stored for attempt in self._failed)

    # --- after an attempt ------------------------------------------------------------------

    def stored(self, result: SendResult) -> bool:
        """Take the answer of a broker that has the message; True when that ends the send."""
        self.result = result
        self._is_final = (
            result.send_status is SendStatus.SEND_OK
            or not self._config.retry_another_broker_when_not_store_ok
        )
        if self._faults.enabled:
            self._record(isolated=False)
        return self._is_final

    def failed(self, error: RocketMQError, *, asked: bool = True) -> None:
        """Take the failure of an attempt; ``asked``: the broker, which is avoided after it."""
        self._error = error
        queue = self._queues[-1]
        attempt = SendAttempt(
            queue.broker_name,
            queue.queue_id,
            f"{type(error).__name__}: {error}",
            round(monotonic() - self._started, 3),
            possibly_stored(error),
        )
        self._failed = (*self._failed, attempt)
        may_repeat = self._may_repeat(error)
        self.doubts_route = _doubts_route(error)
        self._only_elsewhere = (
            self.doubts_route and not may_repeat and self._choose is None  # by the caller
        )
        self._is_final = not may_repeat and not self._only_elsewhere
        if asked and self._faults.enabled:
            self._record(isolated=isinstance(error, (RemotingException, MQBrokerException)))

    def _may_repeat(self, error: RocketMQError) -> bool:
        if self._choose is not None:
            return False
        if isinstance(error, PermissionDeniedError) and error.code != ResponseCode.NO_PERMISSION:
            return False  # it is about the account; 16 may be about one broker
        if isinstance(error, MQBrokerException):
            return error.code in self._config.retry_response_codes
        if isinstance(error, RemotingTooMuchRequestException):
            return self.mode.waits_for_room  # whoever sends without waiting must hear of it
        return isinstance(error, (RemotingException, MQClientException))

    def _record(self, *, isolated: bool) -> None:
        if self._choose is None:
            latency_ms = (monotonic() - self._started) * 1000
            broker_name = self._queues[-1].broker_name
            self._faults.record(broker_name, latency_ms, isolated=isolated, reachable=not isolated)

    # --- the end ---------------------------------------------------------------------------

    def outcome(self) -> SendResult:
        """Return the result, the best there was; raise the error of a send that has none."""
        if self.result is not None:
            return self.result
        raise self.error()

    def _advice(self, count: int) -> str:
        """Say how a first attempt without an answer leaves time for another."""
        if count != 1 or self._most == 1 or self._config.send_msg_max_timeout_per_request > 0:
            return ""
        return (
            ". To leave time for another attempt, limit each one: set "
            "send_msg_max_timeout_per_request (milliseconds) below send_msg_timeout"
        )

    def error(self) -> Exception:
        """Build the error of a send without result.

        What the broker, or this client, refuses whoever is asked stays as it is; everything else
        is a `SendFailedError`, and a `SendTimeoutError` when the time is used up.
        """
        last = self._error
        if last is not None and not self._is_of_the_family(last):
            return last
        count, elapsed_ms = len(self._queues), round((monotonic() - self._began) * 1000)
        brokers = ", ".join(queue.broker_name for queue in self._queues)
        stored = any(attempt.possibly_stored for attempt in self._failed)
        may = (
            "An attempt without an answer may have stored the message. It keeps its id when it "
            "is sent again"
            if stored
            else "No broker has stored the message"
        )
        kind: type[SendFailedError]
        if self._end <= monotonic() or isinstance(last, RemotingTimeoutException):
            kind = SendTimeoutError
            text = (
                f"sending to topic {self._topic} used up its {self._timeout_ms:.0f} ms "
                f"(send_msg_timeout) after {count} attempts at {brokers or 'no broker'}; "
                f"last failure: {last or 'none, it came too late'}{self._advice(count)}. {may}"
            )
        else:
            kind = SendFailedError
            if isinstance(last, RemotingTooMuchRequestException):
                kind = TooManySendsError
            text = (
                f"Send [{count}] times, still failed, cost [{elapsed_ms}]ms, Topic: "
                f"{self._topic}, BrokersSent: [{brokers}]. Last failure: {last}. {may}"
            )
        spent = kind is SendTimeoutError
        error = kind(
            text,
            response_code=ResponseCode.ACCESS_BROKER_TIMEOUT if spent else failed_code(last),
            address=None if last is None else last.address,
            topic=self._topic,
            attempt=count,
            elapsed_ms=elapsed_ms,
        )
        return self._with_story(error)

    def no_room(self, reason: str) -> TooManySendsError:
        """Build the error of a send that ends because its next attempt has no place to wait."""
        return self._with_story(TooManySendsError(reason, topic=self._topic))

    def _with_story(self, error: _Failure) -> _Failure:
        error.attempts = self._failed
        error.possibly_stored = any(attempt.possibly_stored for attempt in self._failed)
        error.__cause__ = self._error
        return error

    def _is_of_the_family(self, error: RocketMQError) -> bool:
        """Whether a failure is one of the way, or a refusal that another broker might not make.

        What is forbidden is told as such, unless a broker may have taken the message before.
        """
        if isinstance(error, PermissionDeniedError):
            return any(attempt.possibly_stored for attempt in self._failed)
        if isinstance(error, MQBrokerException):
            return self._choose is None and error.code in self._config.retry_response_codes
        return isinstance(error, RemotingException) or self._may_repeat(error)


def _doubts_route(error: RocketMQError) -> bool:
    """Whether a newer route may explain a failure: the queue is elsewhere, or its broker is."""
    if isinstance(error, MQBrokerException):  # 16 may be about the account, but also the broker
        return error.code == ResponseCode.NO_PERMISSION or lacks_queue(error)
    if isinstance(error, MQClientException):
        return error.response_code == ResponseCode.BROKER_NOT_EXIST_EXCEPTION
    return isinstance(error, RemotingConnectException)


def possibly_stored(error: Exception) -> bool:
    """Whether a broker may have a message although this is what came of it."""
    if isinstance(error, RemotingException):
        return error.request_left
    return isinstance(error.__cause__, RemotingCommandException)  # stored, but who knows where


def failed_code(error: RocketMQError | None) -> int:
    """Return the code of a send that failed for good: the broker's, or a client-local one."""
    if isinstance(error, MQBrokerException):
        return error.code
    if isinstance(error, RemotingConnectException):
        return ResponseCode.CONNECT_BROKER_EXCEPTION
    if isinstance(error, RemotingTimeoutException):
        return ResponseCode.ACCESS_BROKER_TIMEOUT
    return ResponseCode.BROKER_NOT_EXIST_EXCEPTION
