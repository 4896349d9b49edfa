"""How a send is driven: by the thread that waits for it, or by the answers that come.

`Sender` makes the attempts that ``attempts.py`` decides on, and keeps the book of the sends that
have not ended. An asynchronous send waits for nothing: the caller leaves it to the connection when
the route is known, else the sender threads get the route first. Its outcome is decided exactly
once, by whoever reads the answer; code of the application learns it on the callback threads. Must
not know how a request is built; that is ``send_kernel.py``.
"""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, ClassVar

from rocketmq_py.client.background import WorkerPool
from rocketmq_py.client.hooks import SendMessageContext
from rocketmq_py.client.last_sends import LastSends
from rocketmq_py.client.outcome import CallbackFuture
from rocketmq_py.errors import (
    ClientClosedError,
    MQBrokerException,
    MQClientException,
    RemotingException,
    RocketMQError,
    SendFailedError,
    TooManySendsError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.message import Message, MessageBatch
from rocketmq_py.producer.attempts import ASYNC, SYNC, Attempts, Choose, Mode, possibly_stored
from rocketmq_py.producer.selection import QueueSelection
from rocketmq_py.producer.send_kernel import Outgoing, SendKernel
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.send_result import MessageQueue, SendResult

_log = get_logger(__name__)

ONEWAY = "ONEWAY"


class SendCallback:
    """Learns the outcome of an asynchronous send, on a callback thread, exactly once.

    Give two callables, or override the methods. Their exceptions are logged. A subclass that has
    Java's names instead raises `TypeError`, since it would never be told anything.
    """

    if TYPE_CHECKING:  # so that checkers refuse methods of these names
        onSuccess: ClassVar[None]  # noqa: N815 - Java's
        onException: ClassVar[None]  # noqa: N815 - Java's

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, ours in (("onSuccess", "on_success"), ("onException", "on_exception")):
            if name in vars(cls) and ours not in vars(cls):
                raise TypeError(f"nobody calls {cls.__name__}.{name}: call it {ours}")

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


class PromptCallback(SendCallback):
    """A callback of the SDK's own that never blocks: any thread that has the outcome may call it.

    So it costs no way through the callback threads, which is most of what a callback costs.
    """

    def told(self, result: SendResult | None, error: Exception | None) -> None:
        """Take the outcome; raises nothing."""
        try:
            _call_back(self, result, error)
        except Exception:  # noqa: BLE001 - whoever has the outcome goes on
            _log.exception("a callback of the SDK failed")


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


class Sender:
    """Drives the sends of one producer, and knows which have not ended yet.

    Every call is safe from any thread.
    """

    def __init__(self, kernel: SendKernel, selection: QueueSelection) -> None:
        self.kernel = kernel
        self._selection = selection
        self._activity = kernel.instance.activity
        self.unfinished = self._activity.open(f"producer {kernel.group}", "sends in flight")
        """The sends, and ends of transactions, that have begun and not been told."""
        self._lost: list[int] = []  # messages, by sends that failed while somebody waited for them
        self._closed = kernel.stop
        self._last_sends = LastSends(self.unfinished.wait_until_empty)
        self.workers = WorkerPool(
            "rocketmq-async-sender",
            kernel.config.async_sender_threads,
            kernel.config.async_sender_queue,
            schedule_after=kernel.instance.schedule_after,
        )

    # --- sending ---------------------------------------------------------------------------

    def send(self, outgoing: Outgoing, timeout_ms: float, choose: Choose | None) -> SendResult:
        """Send and wait; raises what `Attempts.error` says, or what forbids an attempt."""
        attempts = self._attempts(outgoing, timeout_ms, SYNC, choose)
        self.unfinished.enter(outgoing)
        try:
            return self._send(outgoing, attempts, timeout_ms)
        except (MQClientException, RemotingException) as error:
            if self.is_closed:
                raise closed_error(stored=is_stored(error)) from error
            raise
        finally:
            self.unfinished.leave(outgoing)

    def _send(self, outgoing: Outgoing, attempts: Attempts, timeout_ms: float) -> SendResult:
        kernel = self.kernel
        connected = kernel.instance.connections.get
        queues = kernel.queues(outgoing.topic, timeout_ms) if timeout_ms > 0 else ()
        while not self.is_closed and (queue := attempts.next(queues)) is not None:
            try:
                address = kernel.address_of(queue, attempts.left_ms)
            except MQClientException as error:
                attempts.failed(error, asked=False)
                queues = self._between(attempts, queues)
                continue
            if outgoing.timer is not None:
                try:
                    kernel.judge_delay(outgoing, address, attempts.left_ms)
                except (RemotingException, MQBrokerException) as error:  # it told no version
                    attempts.failed(error)
                    queues = self._between(attempts, queues)
                    continue
            # What a hook raises here ends the send: it is no failure of this broker.
            context = kernel.before(outgoing, queue, address, SYNC.name)
            wait = None if connected(address) is not None else attempts.share_of_time()
            try:
                result = kernel.ask(outgoing, queue, address, attempts.left_ms, wait)
            except Exception as error:
                kernel.after(context, None, error)
                if not isinstance(error, RocketMQError):
                    raise
                attempts.failed(error)
                queues = self._between(attempts, queues)
            else:
                if context is not None:
                    kernel.after(context, result, None)
                if attempts.stored(result):
                    return result
        return attempts.outcome()

    def _between(
        self, attempts: Attempts, queues: tuple[MessageQueue, ...]
    ) -> tuple[MessageQueue, ...]:
        """Wait before another attempt, and return its queues; the end of the producer ends it."""
        pause_ms = self.pause_ms(attempts, queues)
        if pause_ms is not None:
            self._closed.wait(pause_ms / 1000)
            queues = self.queues_again(attempts, queues)
        return queues

    def pause_ms(self, attempts: Attempts, queues: tuple[MessageQueue, ...]) -> float | None:
        """How long to wait after a failure; None: it was the last attempt.

        Then the route that it contradicts is asked for in background, for the sends to come.
        """
        if not attempts.is_over:
            doubts = attempts.doubts_route
            return attempts.pause_ms(
                queues, self.kernel.route_turn_ms(*attempts.last) if doubts else 0
            )
        if attempts.doubts_route:
            self.kernel.instance.look_again_soon(attempts.last[0].topic)
        return None

    def queues_again(
        self, attempts: Attempts, queues: tuple[MessageQueue, ...]
    ) -> tuple[MessageQueue, ...]:
        """Return the queues for another attempt, of a newer route where that may help."""
        if not attempts.doubts_route or self.is_closed:
            return queues
        queue, since = attempts.last
        return self.kernel.queues_again(queue.topic, since, attempts.route_ms) or queues

    def send_async(
        self,
        outgoing: Outgoing,
        timeout_ms: float,
        callback: SendCallback | None,
        choose: Choose | None,
    ) -> Future[SendResult]:
        """Begin a send without waiting for anything; future and callback get its outcome."""
        if self.kernel.instance.has_callbacks_waiting:
            # Told on this thread: what waits already must not grow for ever.
            error = self._too_many_callbacks(outgoing.topic)
            if callback is not None:
                self._call_back(callback, None, error)
            return self.refused(error, None)
        attempts = self._attempts(outgoing, timeout_ms, ASYNC, choose)
        send = _AsyncSend(self, outgoing, attempts, callback)
        self.unfinished.enter(send)
        if not self._last_sends.is_watching:
            self._last_sends.watch()
        send.begin()
        return send.future

    def _too_many_callbacks(self, topic: str) -> TooManySendsError:
        return TooManySendsError(
            "too many callbacks wait for their turn: those that run are too slow for so many "
            "sends. Wait for them before sending more",
            topic=topic,
        )

    def send_oneway(self, outgoing: Outgoing, choose: Choose | None) -> None:
        """Write one request, expecting nothing; there is one attempt."""
        try:
            self._send_oneway(outgoing, choose)
        except (MQClientException, RemotingException) as error:
            if self.is_closed:
                raise closed_error(stored=is_stored(error)) from error
            raise

    def _send_oneway(self, outgoing: Outgoing, choose: Choose | None) -> None:
        kernel = self.kernel
        queues = kernel.queues(outgoing.topic)
        if choose is not None:
            queue = choose(queues)
        else:
            queue = self._selection.select(outgoing.topic, queues, None)
        address, timeout_ms = kernel.address_of(queue), kernel.config.send_msg_timeout
        kernel.judge_delay(outgoing, address, timeout_ms)
        context = kernel.before(outgoing, queue, address, ONEWAY)
        command = kernel.request(outgoing, queue)
        try:
            kernel.instance.remoting.invoke_oneway(address, command, timeout_ms, kernel.stop)
        except Exception as error:
            kernel.after(context, None, error)
            raise
        kernel.after(context, None, None)

    def refused(self, error: Exception, callback: SendCallback | None) -> Future[SendResult]:
        """Tell an outcome that was known before anything was sent."""
        future: CallbackFuture[SendResult] = CallbackFuture(self.kernel.instance)
        future.set_exception(error)
        if callback is not None:
            self.tell(callback, None, error)
        return future

    def tell(
        self, callback: SendCallback, result: SendResult | None, error: Exception | None
    ) -> None:
        """Let a callback know the outcome: code of the application on a callback thread."""
        if isinstance(callback, PromptCallback):
            callback.told(result, error)
        else:
            self.kernel.instance.submit_callback(self._call_back, callback, result, error)

    def _call_back(
        self, callback: SendCallback, result: SendResult | None, error: Exception | None
    ) -> None:
        try:
            _call_back(callback, result, error)
        except Exception as trouble:  # noqa: BLE001 - the user's code cannot break sends
            self.kernel.faults.tell("send callback", callback, trouble)

    def _attempts(
        self, outgoing: Outgoing, timeout_ms: float, mode: Mode, choose: Choose | None
    ) -> Attempts:
        config = self.kernel.config
        return Attempts(outgoing.topic, timeout_ms, mode, config, self._selection, choose)

    # --- the end ---------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether sends that have not ended will not."""
        return self._closed.is_set()

    def drain(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for unfinished sends; those that are left fail."""
        self.unfinished.wait_until_empty(timeout)
        self._closed.set()
        for send in self.unfinished:
            if isinstance(send, _AsyncSend):
                send.end_by_close()
        if self._lost:
            _log.warning(
                "producer %s ends with %d messages of send_async that no broker has confirmed, "
                "they may be lost: wait for their futures first, or give shutdown more time",
                self.kernel.group,
                sum(self._lost),
            )

    def failed(self, message: Message) -> None:
        """Take that an asynchronous send has failed: at the end perhaps nobody looks any more."""
        if self.unfinished.is_waited_for or self.is_closed:
            self._lost.append(len(message) if isinstance(message, MessageBatch) else 1)

    def close(self, timeout: float) -> None:
        """End the sender threads within ``timeout`` seconds."""
        self._activity.close(self.unfinished)
        self.workers.close(timeout, drop=True)
        self._last_sends.close()


class _AsyncSend:
    """One asynchronous send."""

    __slots__ = (
        "_address",
        "_attempts",
        "_callback",
        "_context",
        "_outgoing",
        "_queue",
        "_queues",
        "_sender",
        "future",
    )

    def __init__(
        self,
        sender: Sender,
        outgoing: Outgoing,
        attempts: Attempts,
        callback: SendCallback | None,
    ) -> None:
        self.future: CallbackFuture[SendResult] = CallbackFuture(sender.kernel.instance)
        self._sender = sender
        self._outgoing = outgoing
        self._attempts = attempts
        self._callback = callback
        self._queues: tuple[MessageQueue, ...] = ()
        # Of the present attempt; there is never more than one.
        self._queue: MessageQueue | None = None
        self._address = ""
        self._context: SendMessageContext | None = None

    def begin(self) -> None:
        """Make the first attempt, on a sender thread when somebody must be asked for a route."""
        self._queues = self._sender.kernel.instance.routes.known_queues(self._outgoing.topic)
        if self._queues:
            self.attempt(may_block=False)
        else:
            self._on_sender_thread()

    def _on_sender_thread(self, pause_ms: float = 0.0) -> None:
        if not self._sender.workers.submit_after(pause_ms, self.attempt):
            queue_max = self._sender.kernel.config.async_sender_queue
            reason = (
                f"{queue_max} asynchronous sends wait already (async_sender_queue): wait for "
                "their futures before sending more"
            )
            self.end(None, self._attempts.no_room(reason))

    def attempt(self, *, may_block: bool = True) -> None:
        """Make the next attempt; whatever goes wrong becomes its outcome."""
        try:
            self._ask(may_block=may_block)
        except Exception as error:  # noqa: BLE001 - hooks and selectors are the user's code
            self.end(None, error)

    def _ask(self, *, may_block: bool) -> None:
        kernel, outgoing, attempts = self._sender.kernel, self._outgoing, self._attempts
        if not self._queues:  # also when the time is over: the name server may be the reason
            self._queues = kernel.queues(outgoing.topic, max(0.0, attempts.left_ms))
        if self._queue is None:
            self._queues = self._sender.queues_again(attempts, self._queues)
            self._queue = attempts.next(self._queues)
        queue = self._queue
        # In this order: who closes in between finds that there may be an attempt.
        if queue is None or self._sender.is_closed:
            self.end(attempts.result, None)
            return
        address = kernel.known_address(queue)
        if address is None and not may_block:
            self._on_sender_thread()  # the attempt goes on there, with its queue
            return
        if address is None:
            try:
                address = kernel.address_of(queue, attempts.left_ms)
            except MQClientException as error:
                self._queue = None
                attempts.failed(error, asked=False)
                self._go_on()
                return
        if outgoing.timer is not None and not self._is_judged(address, may_block=may_block):
            return
        self._address = address
        self._context = kernel.before(outgoing, queue, address, ASYNC.name)
        command = kernel.request(outgoing, queue)
        try:
            kernel.instance.remoting.begin(
                address, command, attempts.left_ms, self, attempts.share_of_time
            )
        except RocketMQError as error:
            self(None, error)
        except Exception as error:
            self._show(None, error)
            raise

    def _is_judged(self, address: str, *, may_block: bool) -> bool:
        """Judge a timer by the version of its broker; False: the send goes on somewhere else."""
        kernel, outgoing, attempts = self._sender.kernel, self._outgoing, self._attempts
        if not (may_block or kernel.instance.broker_versions.is_known(address)):
            self._on_sender_thread()
            return False
        try:
            kernel.judge_delay(outgoing, address, attempts.left_ms)
        except (RemotingException, MQBrokerException) as error:  # it told no version
            self._queue = None
            attempts.failed(error)
            self._go_on()
            return False
        return True

    def __call__(self, answer: RemotingCommand | None, error: RocketMQError | None) -> None:
        """Take the outcome of the present attempt."""
        try:
            self._answered(answer, error)
        except Exception as trouble:  # noqa: BLE001 - somebody waits for an outcome
            self.end(None, trouble)

    def _answered(self, answer: RemotingCommand | None, error: RocketMQError | None) -> None:
        """Take an answer on the thread that has read it, so nothing of the user's runs here."""
        kernel, result, queue = self._sender.kernel, None, self._queue
        if answer is not None and queue is not None:
            try:
                result = kernel.result(self._outgoing, queue, self._address, answer)
            except RocketMQError as refusal:
                error = refusal
        self._show(result, error)
        self._queue = None
        if result is not None:
            self._attempts.stored(result)
        elif error is not None:
            self._attempts.failed(error)
        self._go_on()

    def _show(self, result: SendResult | None, error: Exception | None) -> None:
        if self._context is not None:
            self._sender.kernel.after_async(self._context, result, error)

    def _go_on(self) -> None:
        """End, or let the sender threads make another attempt: hooks are the user's code."""
        attempts, sender = self._attempts, self._sender
        pause_ms = sender.pause_ms(attempts, self._queues)
        if pause_ms is None or sender.is_closed or not sender.kernel.instance.is_running:
            self.end(attempts.result, None)
            return
        _log.debug("asynchronous send repeats topic=%s", self._outgoing.topic)
        self._on_sender_thread(pause_ms)

    def end_by_close(self) -> None:
        """End now because the producer does; `_ask` begins no attempt after that."""
        self.end(None, closed_error(stored=self._attempts.possibly_stored))

    def end(self, result: SendResult | None, error: Exception | None) -> None:
        """Decide the outcome, unless it is decided already; None twice: as the attempts say."""
        try:
            if result is not None:
                self.future.set_result(result)
            else:
                error = self._told(error or self._attempts.error())
                self.future.set_exception(error)
        except InvalidStateError:
            return
        if error is not None:
            self._sender.failed(self._outgoing.message)
        if self._callback is not None:
            self._sender.tell(self._callback, result, error)
        self._sender.unfinished.leave(self)

    def _told(self, error: Exception) -> Exception:
        """Say that the producer was ended when that is why a send fails."""
        if not (
            self._sender.is_closed and isinstance(error, (MQClientException, RemotingException))
        ):
            return error
        closed = closed_error(stored=is_stored(error))
        closed.__cause__ = error
        return closed


def closed_error(*, stored: bool) -> ClientClosedError:
    """Build the error of a send that the end of the producer has ended."""
    told = "a broker may have stored the message" if stored else "no broker has the message"
    return ClientClosedError(f"the producer was shut down before an answer came: {told}")


def is_stored(error: Exception) -> bool:
    """Whether a broker may have a message although its send ended so."""
    if isinstance(error, SendFailedError):
        return error.possibly_stored
    return possibly_stored(error)


def _call_back(callback: SendCallback, result: SendResult | None, error: Exception | None) -> None:
    if result is not None:
        callback.on_success(result)
    elif error is not None:
        callback.on_exception(error)
