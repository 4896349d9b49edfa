"""How a blocking send goes on after a failed attempt.

The loop of ``DefaultMQProducerImpl.sendDefaultImpl``: every attempt has an outcome, the outcome
leaves a fault record and says whether another broker is tried. Must not know how a request is
built; that is ``send_kernel.py``.
"""

from __future__ import annotations

from typing import NoReturn

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
from rocketmq_py.message import MessageQueue, SendResult, SendStatus
from rocketmq_py.producer.fault import BrokerFaults
from rocketmq_py.producer.selection import QueueSelection
from rocketmq_py.producer.send_kernel import Outgoing, SendKernel

__all__ = ["SyncSend", "attempt_once", "failed_code"]

CONNECT_BROKER = 10001
ACCESS_BROKER_TIMEOUT = 10002
CLIENT_ERROR = 10003
SYNC = "SYNC"


class SyncSend:
    """One blocking send with retries."""

    def __init__(
        self,
        kernel: SendKernel,
        selection: QueueSelection,
        faults: BrokerFaults,
        outgoing: Outgoing,
        timeout_ms: float,
    ) -> None:
        self._kernel = kernel
        self._selection = selection
        self._faults = faults
        self._outgoing = outgoing
        self._timeout_ms = timeout_ms
        self._began = monotonic()
        self._brokers: list[str] = []
        self._error: RocketMQError | None = None
        self._result: SendResult | None = None

    def run(self) -> SendResult:
        """Send; raises `SendFailedError` after the last attempt, or what forbids a retry."""
        kernel, outgoing, config = self._kernel, self._outgoing, self._kernel.config
        info = kernel.instance.publish_info(
            outgoing.topic,
            create_topic_key=config.create_topic_key,
            default_topic_queue_nums=config.default_topic_queue_nums,
            timeout_ms=int(self._timeout_ms),
        )
        attempts = 1 + config.retry_times_when_send_failed
        longest = config.send_msg_max_timeout_per_request
        last_broker: str | None = None
        for attempt in range(1, attempts + 1):
            left_ms = self._timeout_ms - (monotonic() - self._began) * 1000
            if left_ms <= 0 and self._result is None:
                self._out_of_time()
            if left_ms <= 0:
                break
            if 0 < longest < left_ms and attempt < attempts:
                left_ms = longest
            queue = self._selection.select(outgoing.topic, info.queues, last_broker)
            last_broker = queue.broker_name
            self._brokers.append(last_broker)
            if self._attempt(queue, left_ms) and self._result is not None:
                return self._result
        if self._result is None:
            self._give_up()
        return self._result

    def _attempt(self, queue: MessageQueue, left_ms: float) -> bool:
        """Try one queue; True when the result is final. Raises what no retry can mend."""
        kernel = self._kernel
        began = monotonic()
        try:
            address = kernel.address_of(queue)
        except MQClientException as error:
            self._error = error
            return False
        # What a hook raises here ends the send: it is no failure of this broker.
        kernel.check_forbidden(self._outgoing, queue, address, SYNC)
        isolated = False
        try:
            self._result = attempt_once(
                kernel, self._outgoing, queue, address, left_ms - (monotonic() - began) * 1000
            )
            stored_well = self._result.send_status is SendStatus.SEND_OK
            return stored_well or not kernel.config.retry_another_broker_when_not_store_ok
        except MQBrokerException as error:
            isolated = True
            self._error = error
            if error.code not in kernel.config.retry_response_codes:
                if self._result is not None:
                    return True
                raise
        except RemotingException as error:
            isolated = True
            self._error = error
        except MQClientException as error:
            self._error = error
        finally:
            if self._faults.enabled:
                self._faults.record(
                    queue.broker_name,
                    (monotonic() - began) * 1000,
                    isolated=isolated,
                    reachable=not isolated,
                )
        return False

    def _elapsed_ms(self) -> int:
        return round((monotonic() - self._began) * 1000)

    def _out_of_time(self) -> NoReturn:
        raise RemotingTooMuchRequestException(
            f"sending to topic {self._outgoing.topic} used up its {self._timeout_ms:.0f} ms "
            f"(send_msg_timeout) after {len(self._brokers)} attempts at "
            f"{', '.join(self._brokers) or 'no broker'}; last failure: {self._error}",
            response_code=ACCESS_BROKER_TIMEOUT,
            topic=self._outgoing.topic,
            attempt=len(self._brokers),
            elapsed_ms=self._elapsed_ms(),
        ) from self._error

    def _give_up(self) -> NoReturn:
        error, count = self._error, len(self._brokers)
        elapsed_ms = self._elapsed_ms()
        raise SendFailedError(
            f"Send [{count}] times, still failed, cost [{elapsed_ms}]ms, Topic: "
            f"{self._outgoing.topic}, BrokersSent: [{', '.join(self._brokers)}]. Last failure: "
            f"{error}. The message may have been stored by an attempt without answer; sending "
            "it again keeps its id",
            response_code=failed_code(error),
            topic=self._outgoing.topic,
            attempt=count,
            elapsed_ms=elapsed_ms,
        ) from error


def attempt_once(
    kernel: SendKernel, outgoing: Outgoing, queue: MessageQueue, address: str, left_ms: float
) -> SendResult:
    """Make one attempt at one queue; raises what `Remoting.invoke` and `SendKernel.result` do."""
    if not kernel.send_hooks:
        answer = kernel.instance.remoting.invoke(address, kernel.request(outgoing, queue), left_ms)
        return kernel.result(outgoing, queue, address, answer)
    context = kernel.before(outgoing, queue, address, SYNC)
    result: SendResult | None = None
    failure: Exception | None = None
    try:
        answer = kernel.instance.remoting.invoke(address, kernel.request(outgoing, queue), left_ms)
        result = kernel.result(outgoing, queue, address, answer)
        return result
    except Exception as error:
        failure = error
        raise
    finally:
        kernel.after(context, result, failure)


def failed_code(error: RocketMQError | None) -> int | None:
    """Return the code of a send that failed for good: the broker's, or a client-local one."""
    if isinstance(error, MQBrokerException):
        return error.code
    if isinstance(error, RemotingConnectException):
        return CONNECT_BROKER
    if isinstance(error, RemotingTimeoutException):
        return ACCESS_BROKER_TIMEOUT
    return CLIENT_ERROR
