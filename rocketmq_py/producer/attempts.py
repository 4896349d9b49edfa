"""How a send goes on after each attempt: elsewhere, with a result, or with an error.

The one policy of all sends, after ``DefaultMQProducerImpl.sendDefaultImpl``: the budget of time and
of attempts, the queue of each attempt, the fault record that it leaves behind, and the error of a
send that has failed for good. It is a state machine: `Attempts.next` gives a queue, `stored` or
`failed` takes how that attempt ended, and when `next` gives None the outcome stands. Must not know
requests, hooks or threads; ``sending.py`` drives it.
"""

from collections.abc import Callable
from typing import NamedTuple

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    MQBrokerException,
    MQClientException,
    RemotingConnectException,
    RemotingException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
    RocketMQError,
    SendFailedError,
)
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.producer.selection import QueueSelection
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.send_result import MessageQueue, SendResult, SendStatus

Choose = Callable[[tuple[MessageQueue, ...]], MessageQueue]
"""Takes the queue that the caller wants out of all."""


class Mode(NamedTuple):
    """In what blocking and asynchronous sends differ, because those of the classic client do."""

    name: str
    """What hooks are told."""
    repeats_refusals: bool
    """Try again after a refusal: the broker's, or that of a connection with too many calls."""
    wraps_failures: bool
    """End by `SendFailedError`; else by the class of the last transport failure."""

    def retries(self, config: ProducerConfig) -> int:
        """Return how many further attempts there may be."""
        if self is SYNC:
            return config.retry_times_when_send_failed
        return config.retry_times_when_send_async_failed


SYNC = Mode("SYNC", repeats_refusals=True, wraps_failures=True)
ASYNC = Mode("ASYNC", repeats_refusals=False, wraps_failures=False)


class Attempts:
    """The attempts of one send; with ``choose`` only one, which leaves no fault record."""

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
        self._brokers: list[str] = []
        self._error: RocketMQError | None = None
        self._is_final = False
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
        return self._is_final or len(self._brokers) >= self._most or self._end <= monotonic()

    def next(self, queues: tuple[MessageQueue, ...]) -> MessageQueue | None:
        """Choose the queue of the next attempt; None: the send has ended.

        Raises what ``choose`` raises.
        """
        brokers = self._brokers
        if self._is_final or len(brokers) >= self._most:
            return None
        self._started = now = monotonic()
        if self._end <= now:
            return None
        self._deadline = self._end
        longest_ms = self._config.send_msg_max_timeout_per_request
        if longest_ms > 0 and len(brokers) + 1 < self._most:
            self._deadline = min(self._end, now + longest_ms / 1000)
        if self._choose is not None:
            queue = self._choose(queues)
        else:
            queue = self._selection.select(self._topic, queues, brokers[-1] if brokers else None)
        brokers.append(queue.broker_name)
        return queue

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
        self._is_final = not self._may_repeat(error)
        if asked and self._faults.enabled:
            self._record(isolated=isinstance(error, (RemotingException, MQBrokerException)))

    def _may_repeat(self, error: RocketMQError) -> bool:
        if self._choose is not None:
            return False
        if isinstance(error, MQBrokerException):
            return self.mode.repeats_refusals and error.code in self._config.retry_response_codes
        if isinstance(error, RemotingTooMuchRequestException):
            return self.mode.repeats_refusals
        return isinstance(error, (RemotingException, MQClientException))

    def _record(self, *, isolated: bool) -> None:
        if self._choose is None:
            latency_ms = (monotonic() - self._started) * 1000
            broker_name = self._brokers[-1]
            self._faults.record(broker_name, latency_ms, isolated=isolated, reachable=not isolated)

    # --- the end ---------------------------------------------------------------------------

    def outcome(self) -> SendResult:
        """Return the result, the best there was; raise the error of a send that has none."""
        if self.result is not None:
            return self.result
        raise self.error()

    def _advice(self, count: int) -> str:
        """Say how a first attempt without an answer leaves time for another."""
        if count != 1 or self._config.send_msg_max_timeout_per_request > 0:
            return ""
        return (
            ". To leave time for another attempt, limit each one: set "
            "send_msg_max_timeout_per_request (milliseconds) below send_msg_timeout"
        )

    def error(self) -> Exception:
        """Build the error of a send without result."""
        last, brokers = self._error, ", ".join(self._brokers)
        if last is not None and not self._may_repeat(last):
            return last
        count, elapsed_ms = len(self._brokers), round((monotonic() - self._began) * 1000)
        kind: type[RocketMQError]
        if isinstance(last, RemotingException) and not self.mode.wraps_failures:
            kind = type(last)  # so that a time-out stays one
            text = (
                f"{last}. Topic: {self._topic}, attempts: {count} in {elapsed_ms} ms, "
                f"BrokersSent: [{brokers}]"
            )
        elif count < self._most and self._end <= monotonic():
            kind = RemotingTooMuchRequestException
            text = (
                f"sending to topic {self._topic} used up its {self._timeout_ms:.0f} ms "
                f"(send_msg_timeout) after {count} attempts at {brokers or 'no broker'}; "
                f"last failure: {last}{self._advice(count)}"
            )
        else:
            kind = SendFailedError
            text = (
                f"Send [{count}] times, still failed, cost [{elapsed_ms}]ms, Topic: "
                f"{self._topic}, BrokersSent: [{brokers}]. Last failure: {last}. An attempt "
                "without an answer may have stored the message. It keeps its id when it is sent "
                "again"
            )
        spent = kind is RemotingTooMuchRequestException
        error = kind(
            text,
            response_code=ResponseCode.ACCESS_BROKER_TIMEOUT if spent else failed_code(last),
            address=last.address if last is not None and kind is type(last) else None,
            topic=self._topic,
            attempt=count,
            elapsed_ms=elapsed_ms,
        )
        error.__cause__ = last
        return error


def failed_code(error: RocketMQError | None) -> int:
    """Return the code of a send that failed for good: the broker's, or a client-local one."""
    if isinstance(error, MQBrokerException):
        return error.code
    if isinstance(error, RemotingConnectException):
        return ResponseCode.CONNECT_BROKER_EXCEPTION
    if isinstance(error, RemotingTimeoutException):
        return ResponseCode.ACCESS_BROKER_TIMEOUT
    return ResponseCode.BROKER_NOT_EXIST_EXCEPTION
