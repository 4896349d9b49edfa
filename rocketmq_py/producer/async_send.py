"""How a send goes on that nobody waits for.

Route and connection known: the caller writes the request itself. Else the sender threads do. The
outcome is decided exactly once and told on a callback thread, to the future and to the callback
alike. After a transport failure the queue is chosen again and the header built anew (the original
keeps the first queue's id in a request to another broker: ``MQClientAPIImpl.onExceptionImpl``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future

from rocketmq_py.client.background import WorkerPool
from rocketmq_py.client.hooks import SendMessageContext
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    ClientClosedError,
    MQClientException,
    RemotingException,
    RemotingTooMuchRequestException,
    RocketMQError,
)
from rocketmq_py.message import MessageQueue, SendResult
from rocketmq_py.producer.fault import BrokerFaults
from rocketmq_py.producer.in_flight import InFlight
from rocketmq_py.producer.selection import QueueSelection
from rocketmq_py.producer.send_kernel import Outgoing, SendKernel
from rocketmq_py.producer.sync_send import failed_code
from rocketmq_py.protocol.command import RemotingCommand

__all__ = ["AsyncSend", "AsyncSender", "SendCallback", "check_callback"]

_log = logging.getLogger(__name__)

ASYNC = "ASYNC"

Choose = Callable[[tuple[MessageQueue, ...]], MessageQueue]


class SendCallback:
    """Learns the outcome of an asynchronous send, on a callback thread, exactly once.

    Give two callables, or override the methods. Their exceptions are logged.
    """

    def __init__(
        self,
        on_success: Callable[[SendResult], object] | None = None,
        on_exception: Callable[[Exception], object] | None = None,
    ) -> None:
        self._success = on_success
        self._exception = on_exception

    def on_success(self, result: SendResult) -> None:
        """Take the result of a message that is stored."""
        if self._success is not None:
            self._success(result)

    def on_exception(self, error: Exception) -> None:
        """Take the reason why the send failed."""
        if self._exception is not None:
            self._exception(error)


def check_callback(callback: object) -> None:
    """Raise TypeError for what cannot be told an outcome: found before anything is sent."""
    if isinstance(callback, SendCallback):
        return
    for name in ("on_success", "on_exception"):
        if not callable(getattr(callback, name, None)) or isinstance(callback, type):
            kind = "a plain callable" if callable(callback) else f"a {type(callback).__name__}"
            raise TypeError(
                f"send_async takes a SendCallback, not {kind}: pass SendCallback(on_success, "
                "on_exception), or use the future that send_async returns"
            )


class AsyncSender:
    """What all asynchronous sends of a producer share."""

    def __init__(
        self,
        kernel: SendKernel,
        selection: QueueSelection,
        faults: BrokerFaults,
        in_flight: InFlight[AsyncSend | Outgoing],
    ) -> None:
        self.kernel = kernel
        self.selection = selection
        self.faults = faults
        self.in_flight = in_flight
        self.workers = WorkerPool(
            "rocketmq-async-sender",
            kernel.config.async_sender_threads,
            kernel.config.async_sender_queue,
        )

    def send(
        self,
        outgoing: Outgoing,
        timeout_ms: float,
        callback: SendCallback | None,
        choose: Choose | None,
    ) -> Future[SendResult]:
        """Begin a send; the future and the callback get its outcome."""
        send = AsyncSend(self, outgoing, timeout_ms, callback, choose)
        self.in_flight.enter(send)
        if self._is_ready(outgoing.topic):
            send.attempt()
        elif not self.workers.submit(send.attempt):
            send.end(
                None,
                MQClientException(
                    f"{self.kernel.config.async_sender_queue} asynchronous sends wait already "
                    "(async_sender_queue): wait for their futures before sending more",
                    topic=outgoing.topic,
                ),
            )
        return send.future

    def _is_ready(self, topic: str) -> bool:
        """Whether an attempt can be made without waiting for a route or a connection."""
        routes = self.kernel.instance.routes
        connected = self.kernel.instance.remoting.is_connected
        masters = routes.publish_masters(topic)
        return bool(masters) and all(map(connected, masters))

    def close(self, timeout: float) -> None:
        """End the sender threads; every send must have ended before."""
        self.workers.close(timeout)


class AsyncSend:
    """One asynchronous send with retries."""

    __slots__ = (
        "_attempts",
        "_began",
        "_brokers",
        "_callback",
        "_choose",
        "_context",
        "_outgoing",
        "_sender",
        "_timeout_ms",
        "future",
    )

    def __init__(
        self,
        sender: AsyncSender,
        outgoing: Outgoing,
        timeout_ms: float,
        callback: SendCallback | None,
        choose: Choose | None,
    ) -> None:
        self.future: Future[SendResult] = Future()
        self.future.set_running_or_notify_cancel()  # what is sent cannot be taken back
        self._sender = sender
        self._outgoing = outgoing
        self._timeout_ms = timeout_ms
        self._callback = callback
        self._choose = choose
        self._began = monotonic()
        self._attempts = 0
        self._brokers: list[str] = []
        self._context: SendMessageContext | None = None

    def attempt(self) -> None:
        """Make the next attempt; whatever goes wrong becomes its outcome."""
        try:
            self._try_queue()
        except Exception as error:  # noqa: BLE001 - hooks and selectors are the user's code
            self._told(None, error)

    def _left_ms(self) -> float:
        return self._timeout_ms - (monotonic() - self._began) * 1000

    def _try_queue(self) -> None:
        kernel, outgoing, config = self._sender.kernel, self._outgoing, self._sender.kernel.config
        left_ms = self._left_ms()
        if left_ms <= 0:
            raise RemotingTooMuchRequestException(
                f"asynchronous sending to topic {outgoing.topic} used up its "
                f"{self._timeout_ms:.0f} ms before an attempt",
                topic=outgoing.topic,
            )
        info = kernel.instance.publish_info(
            outgoing.topic,
            create_topic_key=config.create_topic_key,
            default_topic_queue_nums=config.default_topic_queue_nums,
            timeout_ms=int(left_ms),
        )
        if self._choose is not None:
            queue = self._choose(info.queues)
        else:
            last_broker = self._brokers[-1] if self._brokers else None
            queue = self._sender.selection.select(outgoing.topic, info.queues, last_broker)
        self._attempts += 1
        self._brokers.append(queue.broker_name)
        address = kernel.address_of(queue)
        kernel.check_forbidden(outgoing, queue, address, ASYNC)
        if self._context is None:
            self._context = kernel.before(outgoing, queue, address, ASYNC)
        began = monotonic()

        def done(answer: RemotingCommand | None, error: RocketMQError | None) -> None:
            # On the reading thread: hand over, or run here rather than lose the outcome.
            if not kernel.instance.submit(self._answered, queue, address, began, answer, error):
                self._answered(queue, address, began, answer, error)

        try:
            kernel.instance.remoting.begin(
                address, kernel.request(outgoing, queue), self._left_ms(), done
            )
        except RocketMQError as error:
            self._answered(queue, address, began, None, error)

    def _answered(
        self,
        queue: MessageQueue,
        address: str,
        began: float,
        answer: RemotingCommand | None,
        error: Exception | None,
    ) -> None:
        result: SendResult | None = None
        if answer is not None:
            try:
                result = self._sender.kernel.result(self._outgoing, queue, address, answer)
            except RocketMQError as refusal:
                error = refusal
        failed = error is not None
        self._sender.faults.record(
            queue.broker_name,
            (monotonic() - began) * 1000,
            isolated=failed,
            reachable=not failed,
        )
        self._told(result, error)

    def _told(self, result: SendResult | None, error: Exception | None) -> None:
        """Take the outcome of an attempt: repeat it elsewhere, or end."""
        if error is not None and self._may_repeat(error):
            _log.debug("asynchronous send repeats topic=%s: %s", self._outgoing.topic, error)
            if self._sender.workers.submit(self.attempt):
                return
        self.end(result, error)

    def _may_repeat(self, error: Exception) -> bool:
        return (
            isinstance(error, RemotingException)
            and not isinstance(error, RemotingTooMuchRequestException)
            and self._choose is None
            and self._attempts <= self._sender.kernel.config.retry_times_when_send_async_failed
            and self._left_ms() > 0
            and self._sender.kernel.instance.is_running
        )

    def end(self, result: SendResult | None, error: Exception | None) -> None:
        """Decide the outcome, unless it is decided already."""
        if not self._sender.in_flight.leave(self):
            return
        if result is None:
            error = self._explained(error)
        self._sender.kernel.after(self._context, result, error)
        if result is not None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)
        self._call_back(result, error)

    def _explained(self, error: Exception | None) -> Exception:
        """Add how often and where it was tried to a transport failure."""
        if error is None:
            return ClientClosedError("the producer is shut down")
        if not isinstance(error, RemotingException) or isinstance(
            error, RemotingTooMuchRequestException
        ):
            return error
        elapsed_ms = round((monotonic() - self._began) * 1000)
        # The same class, so that a time-out stays one; the first cause stays reachable.
        told = type(error)(
            f"{error}. Topic: {self._outgoing.topic}, attempts: {self._attempts} in "
            f"{elapsed_ms} ms, BrokersSent: [{', '.join(self._brokers)}]",
            response_code=failed_code(error),
            address=error.address,
            topic=self._outgoing.topic,
            attempt=self._attempts,
            elapsed_ms=elapsed_ms,
        )
        told.__cause__ = error
        return told

    def _call_back(self, result: SendResult | None, error: Exception | None) -> None:
        callback = self._callback
        if callback is None:
            return
        try:
            if result is not None:
                callback.on_success(result)
            elif error is not None:
                callback.on_exception(error)
        except Exception:  # noqa: BLE001 - the user's code cannot break sends
            _log.exception("send callback failed topic=%s", self._outgoing.topic)
