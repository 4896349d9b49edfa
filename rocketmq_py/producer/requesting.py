"""How a request is sent and waits for its reply.

``DefaultMQProducerImpl.request`` and ``RequestFutureHolder`` of the original: the message says who
asks (REPLY_TO_CLIENT), which request it is (CORRELATION_ID) and how long anybody waits (TTL); the
reply is pushed to this client. Each request ends once: by its reply, because it was not sent, or
when its time is over. Must not know frames. Read on: ``client/replies.py`` for what comes back,
``reply.py`` for who answers.
"""

from collections.abc import Callable
from concurrent.futures import InvalidStateError
from copy import copy
from uuid import uuid4

from rocketmq_py.client.outcome import CallbackFuture
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    BodyError,
    ClientClosedError,
    DelayValueError,
    MQClientException,
    RequestTimeoutException,
    TooManySendsError,
)
from rocketmq_py.message import Message, MessageBatch, MessageExt
from rocketmq_py.producer.attempts import Choose
from rocketmq_py.producer.send_kernel import Outgoing
from rocketmq_py.producer.sending import Sender
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.properties import Prop


class Requester:
    """The requests of one producer that have not ended. Safe from any thread."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._instance = sender.kernel.instance
        self._waiting: dict[str, _Request] = {}
        self._greeted: set[str] = set()
        """Brokers that were told who asks: they can push a reply."""

    def request(
        self, message: Message, timeout_ms: int, choose: Choose | None
    ) -> CallbackFuture[MessageExt]:
        """Begin a request; raises what is wrong with the message, all else is its outcome."""
        correlation_id = str(uuid4())
        outgoing = self._prepared(message, correlation_id, timeout_ms)
        future: CallbackFuture[MessageExt] = CallbackFuture(self._instance)
        request = _Request(
            message.topic,
            timeout_ms,
            future,
            lambda: self._forget(correlation_id),
            self._sender.kernel.config.decompressed_body_max_bytes,
        )
        self._waiting[correlation_id] = request
        self._instance.replies.expect(correlation_id, request.replied)
        request.cancel_timer = self._instance.schedule_after(timeout_ms, request.expire).cancel
        send = self._send if self._is_known(message.topic) else self._greet_and_send
        if send == self._send:
            send(request, outgoing, choose)
        elif not self._instance.submit_background(send, request, outgoing, choose):
            request.sent(self._not_begun(message.topic))
        return future

    def _not_begun(self, topic: str) -> Exception:
        if self._instance.is_running:
            told = "too many tasks wait in background: wait for replies before asking for more"
            return TooManySendsError(told, topic=topic)
        return ClientClosedError("the producer was shut down before the request was sent")

    def _prepared(self, message: Message, correlation_id: str, timeout_ms: int) -> Outgoing:
        """Make a message ready that says who asks; the caller's own gets its id only."""
        if isinstance(message, MessageBatch):
            raise MQClientException("a request is one message, not a batch", topic=message.topic)
        asking = copy(message)
        if isinstance(message, Message):
            asking.properties |= {
                Prop.CORRELATION_ID: correlation_id,
                Prop.REPLY_TO_CLIENT: self._instance.client_id,
                Prop.TTL: str(timeout_ms),
            }
        outgoing = self._sender.kernel.prepare(asking)
        message.properties[Prop.UNIQ_KEY] = outgoing.msg_id
        return outgoing

    def _greet_and_send(
        self, request: "_Request", outgoing: Outgoing, choose: Choose | None
    ) -> None:
        """Tell brokers who is here before one of them has to push a reply. May block."""
        try:
            self._sender.kernel.queues(outgoing.topic, max(0.0, request.left_ms))
            strangers = self._strangers(outgoing.topic)
            if strangers:
                self._instance.send_heartbeats(group=self._sender.kernel.group)
                self._greeted |= strangers
        except Exception as error:  # noqa: BLE001 - somebody waits for an outcome
            request.sent(error)
        else:
            self._send(request, outgoing, choose)

    def _send(self, request: "_Request", outgoing: Outgoing, choose: Choose | None) -> None:
        left_ms = max(1.0, request.left_ms)
        sending = self._sender.send_async(outgoing, left_ms, None, choose)
        sending.add_done_callback(lambda done: request.sent(done.exception()))

    def _is_known(self, topic: str) -> bool:
        """Whether a request can be sent at once: route and brokers are known, they know us."""
        return bool(self._instance.routes.known_queues(topic)) and not self._strangers(topic)

    def _strangers(self, topic: str) -> set[str]:
        """Give the brokers of a topic that may not know this producer."""
        kernel = self._sender.kernel
        addresses = {kernel.known_address(queue) for queue in kernel.queues(topic)}
        known = self._greeted & self._instance.connections.addresses()
        return {address for address in addresses if address is not None} - known

    def _forget(self, correlation_id: str) -> None:
        self._waiting.pop(correlation_id, None)
        self._instance.replies.forget(correlation_id)

    def close(self) -> None:
        """End the requests that still wait, because the producer does."""
        for request in list(self._waiting.values()):
            request.end(None, ClientClosedError("the producer was shut down before a reply came"))


class _Request:
    """One request: what it waits for, and how it ends."""

    def __init__(
        self,
        topic: str,
        timeout_ms: int,
        future: CallbackFuture[MessageExt],
        forget: Callable[[], None],
        body_size_max: int,
    ) -> None:
        self._topic = topic
        self._timeout_ms = timeout_ms
        self._future = future
        self._forget = forget
        self._body_size_max = body_size_max
        self._deadline = monotonic() + timeout_ms / 1000
        self._is_sent = False
        self.cancel_timer: Callable[[], None] = _nothing

    @property
    def left_ms(self) -> float:
        return (self._deadline - monotonic()) * 1000

    def sent(self, error: BaseException | None) -> None:
        """Take what became of the send."""
        if error is None:
            self._is_sent = True
        elif isinstance(error, (ClientClosedError, DelayValueError)):
            self.end(None, error)
        else:
            failed = MQClientException(
                f"the request to topic {self._topic} was not sent: {error}", topic=self._topic
            )
            failed.__cause__ = error
            self.end(None, failed)

    def replied(self, reply: MessageExt) -> None:
        """Take the reply; one that cannot be decompressed ends the request, too."""
        try:
            plain = reply.unpacked(self._body_size_max)
        except BodyError as error:
            failed = MQClientException(
                f"the reply to the request to topic {self._topic} cannot be read: {error}",
                topic=self._topic,
            )
            failed.__cause__ = error
            self.end(None, failed)
        else:
            self.end(plain, None)

    def expire(self) -> None:
        """Take that the time is over."""
        what = "was sent, but nobody replied" if self._is_sent else "was not taken by a broker"
        error = RequestTimeoutException(
            f"the request to topic {self._topic} {what} within {self._timeout_ms} ms (timeout)",
            response_code=ResponseCode.REQUEST_TIMEOUT_EXCEPTION,
            topic=self._topic,
            elapsed_ms=self._timeout_ms,
        )
        self.end(None, error)

    def end(self, reply: MessageExt | None, error: Exception | None) -> None:
        """Decide the outcome, unless it is decided already."""
        try:
            if reply is not None:
                self._future.set_result(reply)
            else:
                self._future.set_exception(error)
        except InvalidStateError:
            return
        self._forget()
        self.cancel_timer()


def _nothing() -> None:
    """Cancel nothing: the timer is not there yet."""
