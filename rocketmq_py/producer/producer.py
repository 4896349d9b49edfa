"""The producer: what an application calls to send messages.

``DefaultMQProducer`` of the original in Python's shape. Only the face and the life cycle are here:
one message's way is in ``send_kernel.py``, retries in ``attempts.py`` and ``sending.py``,
questions to brokers in ``client/queries.py``. Must not know frames or sockets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Unpack

from rocketmq_py.client.hooks import CheckForbiddenHook, RPCHook, SendMessageHook
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.life import Client, Life
from rocketmq_py.client.pool import acquire_instance
from rocketmq_py.config import ClientConfig, attributes_of
from rocketmq_py.errors import MQClientException, RocketMQError
from rocketmq_py.message import Message, MessageExt
from rocketmq_py.producer.batch import make_batch
from rocketmq_py.producer.config import ProducerConfig, ProducerSettings
from rocketmq_py.producer.engine import ProducerEngine
from rocketmq_py.producer.selection import Choice, MessageQueueSelector
from rocketmq_py.producer.send_kernel import SendKernel
from rocketmq_py.producer.sending import SendCallback, check_callback
from rocketmq_py.producer.validation import check_group, check_recall_topic, checked_timeout
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.names import DEFAULT_PRODUCER_GROUP
from rocketmq_py.send_result import MessageQueue, SendResult

if TYPE_CHECKING:
    from rocketmq_py.client.queries import Queries, QueryResult
    from rocketmq_py.client.queue_requests import Boundary

    _Settings = ProducerConfig
else:
    _Settings = attributes_of(ProducerConfig)


START_S = 2.0
"""How long a start waits for servers; what does not answer by then is asked when it is needed."""


class DefaultMQProducer(_Settings, Client):
    """Sends messages to topics.

    ``producer_group`` names the kind of sender. Settings are those of `ProducerConfig`, as
    keyword arguments, as one object (``config``), or as attributes of the producer; most count
    from the next call on, those of the connection from `start`. ``topics`` are looked up by
    `start` already. ``rpc_hooks`` see every remote call. All calls are safe from any thread.

    Use it in a ``with`` block, or call `start` and `shutdown`::

        with DefaultMQProducer("shop", namesrv_addr="127.0.0.1:9876") as producer:
            producer.send(Message("orders", b"cancel 42", delay=timedelta(minutes=30)))
    """

    def __init__(
        self,
        producer_group: str = DEFAULT_PRODUCER_GROUP,
        *,
        config: ClientConfig | None = None,
        topics: Iterable[str] = (),
        rpc_hooks: Iterable[RPCHook] = (),
        **settings: Unpack[ProducerSettings],
    ) -> None:
        self.producer_group = producer_group
        self.config = ProducerConfig.build(config, settings)
        self._topics = tuple(topics)
        self._rpc_hooks = tuple(rpc_hooks)
        self._send_hooks: list[SendMessageHook] = []
        self._forbidden_hooks: list[CheckForbiddenHook] = []
        self._life = Life(self.__repr__)
        self._engine: ProducerEngine | None = None

    _attributes = frozenset({"config", "producer_group"})

    # --- life ------------------------------------------------------------------------------

    def start(self, *, check: bool = False) -> None:
        """Get ready to send; no server needs to be reachable unless ``check``.

        ``check=True`` asks a name server and raises `NameServerUnavailableError` when none
        answers. Raises `MQClientException` for a wrong group, a second start, and a group that
        has a producer in this client instance already.
        """
        self._life.check_process()
        check_group(self.producer_group)
        with self._life.starting():
            self._start(check=check)

    def _start(self, *, check: bool) -> None:
        instance = acquire_instance(self.config, self._rpc_hooks)
        try:
            instance.register_producer(self.producer_group, self)
        except BaseException:
            instance.shutdown()
            raise
        self.config.fix()
        life = self._life
        life.at_end(instance.shutdown)
        life.at_end(partial(self._leave, instance, self.producer_group))
        instance.start()
        if check:
            instance.routes.check_name_servers(START_S * 1000)
        kernel = SendKernel(
            self.producer_group, self.config, instance, self._send_hooks, self._forbidden_hooks
        )
        self._engine = engine = ProducerEngine(kernel)
        life.at_end(partial(self._drain, engine))
        engine.warm_up(self._topics)

    @staticmethod
    def _leave(instance: ClientInstance, group: str, _timeout: float) -> None:
        instance.unregister_producer(group)

    def _drain(self, engine: ProducerEngine, timeout: float) -> None:
        self._engine = None
        engine.close(timeout)

    def shutdown(self, timeout: float = 3.0) -> None:
        """Stop sending: sends in flight get up to ``timeout`` seconds, then `ClientClosedError`.

        Returns within little more than ``timeout`` in any case; what is not done by then goes on
        in background. May be called again, by any thread and by a handler of a signal: a second
        call waits for the first one's work. A `start` that is under way raises
        `ClientClosedError`.
        """
        super().shutdown(timeout)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a producer cannot be pickled: pickle its config and start one there")

    def __repr__(self) -> str:
        return f"DefaultMQProducer({self.producer_group!r}, {self._life.state})"

    @property
    def client_id(self) -> str:
        """Name of this client at brokers; `NotStartedError` before the start."""
        return self._running().instance.client_id

    # --- sending ---------------------------------------------------------------------------

    def send(
        self,
        message: Message,
        *,
        timeout: int | None = None,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> SendResult:
        """Send and wait until a broker has taken the message.

        ``timeout`` in ms covers all attempts (default ``send_msg_timeout``). With ``queue`` or
        ``selector`` (called with all queues, the message and ``arg``) there is one attempt only.
        Raises `SendFailedError` after the last attempt, `MQBrokerException` for a refusal that no
        other broker would mend, `MQClientException` for what cannot be sent, `TypeError` for
        another argument of a wrong type.
        """
        engine = self._running()
        timeout_ms = self.config.send_msg_timeout if timeout is None else checked_timeout(timeout)
        outgoing = engine.kernel.prepare(message)
        choose = _choice(queue, selector, message, arg)
        return engine.sender.send(outgoing, timeout_ms, choose)

    def send_async(
        self,
        message: Message,
        callback: SendCallback | None = None,
        *,
        timeout: int | None = None,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> Future[SendResult]:
        """Send without waiting; the future and the callback get the same outcome, once.

        ``callback`` is a `SendCallback`, or any object with ``on_success`` and ``on_exception``.
        The message has its id when this returns. Raises only when the producer is not running
        and, before anything is sent, `TypeError` for an argument of a wrong type: everything
        else, also a message that cannot be sent, is an outcome.
        """
        engine = self._running()
        if callback is not None:
            check_callback(callback)
        timeout_ms = self.config.send_msg_timeout if timeout is None else checked_timeout(timeout)
        choose = _choice(queue, selector, message, arg)
        try:
            outgoing = engine.kernel.prepare(message)
        except RocketMQError as error:
            return engine.sender.refused(error, callback)
        return engine.sender.send_async(outgoing, timeout_ms, callback, choose)

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> None:
        """Write the message to a broker's connection and return: nobody says whether it arrived.

        Raises for state, validation, route and connection.
        """
        engine = self._running()
        outgoing = engine.kernel.prepare(message)
        engine.sender.send_oneway(outgoing, _choice(queue, selector, message, arg))

    def send_batch(
        self,
        messages: Iterable[Message],
        *,
        timeout: int | None = None,
        queue: MessageQueue | None = None,
    ) -> SendResult:
        """Send several messages in one request; they are stored together, each with its own id.

        ``messages`` is any iterable of them, or a `MessageBatch`. Same topic, no delay of any
        kind, no retry topic: else `BatchRefusedError` (both a `MQClientException` and an
        `UnsupportedOperationError`) and nothing is sent. See
        `rocketmq_py.producer.batch.split_batch` for more than ``max_message_size``.
        """
        self._running()
        return self.send(make_batch(messages), timeout=timeout, queue=queue)

    def request(
        self,
        message: Message,
        *,
        timeout: int | None = None,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> MessageExt:
        """Send a message and wait until a consumer has replied to it; return the reply.

        The consumer makes the reply with `create_reply_message`. ``timeout`` in ms (default
        ``send_msg_timeout``) covers send and reply. Raises `RequestTimeoutException` (also a
        `TimeoutError`) when no reply came in time, `MQClientException` when the message could not
        be sent, with the reason as its cause.
        """
        return self.request_async(
            message, timeout=timeout, queue=queue, selector=selector, arg=arg
        ).result()

    def request_async(
        self,
        message: Message,
        *,
        timeout: int | None = None,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> Future[MessageExt]:
        """Send a message without waiting; the future gets the reply, or what `request` raises.

        Raises at once when the producer is not running, and for a message that cannot be sent.
        """
        engine = self._running()
        timeout_ms = self.config.send_msg_timeout if timeout is None else checked_timeout(timeout)
        choose = _choice(queue, selector, message, arg)
        return engine.requester.request(message, timeout_ms, choose)

    def send_message_in_transaction(
        self, message: Message, arg: object = None, *, timeout: int | None = None
    ) -> SendResult:
        """Raise `MQClientException`: only a `TransactionMQProducer` can do this."""
        del arg, timeout
        raise MQClientException(
            "this producer has no transactions: use rocketmq_py.TransactionMQProducer with a "
            "transaction_listener",
            topic=message.topic,
        )

    def recall_message(self, topic: str, recall_handle: str | RecallHandle | None) -> str:
        """Take back a timer message that is not due yet; return its id (370).

        ``recall_handle`` is `SendResult.recall_handle`, which is None for messages that cannot be
        taken back. Raises `RecallNotSupportedError` when the broker does not offer it,
        `MQClientException` for None and for a handle that cannot be one, `MQBrokerException` 604
        when it is too late.
        """
        engine = self._running()
        check_recall_topic(topic)
        return engine.recall(topic, recall_handle)

    # --- asking ----------------------------------------------------------------------------

    def fetch_publish_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of a topic."""
        return list(self._running().kernel.queues(topic))

    def create_topic(
        self,
        key: str,
        topic: str,
        queue_num: int,
        *,
        topic_sys_flag: int = 0,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic on every broker that has the topic ``key``; see `Queries`."""
        self._queries().create_topic(
            key, topic, queue_num, topic_sys_flag=topic_sys_flag, attributes=attributes
        )

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get."""
        return self._queries().max_offset(queue)

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset that can be read."""
        return self._queries().min_offset(queue)

    def search_offset(
        self, queue: MessageQueue, timestamp_ms: int, boundary: Boundary = "LOWER"
    ) -> int:
        """Return the offset of a store time in epoch milliseconds."""
        return self._queries().search_offset(queue, timestamp_ms, boundary)

    def earliest_msg_store_time(self, queue: MessageQueue) -> int:
        """Return the store time of the queue's first message in ms, -1 when it is empty."""
        return self._queries().earliest_msg_store_time(queue)

    def query_message(
        self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Return messages with the key, stored between two times; 208 when there is none."""
        return self._queries().query_message(topic, key, max_num, begin_ms, end_ms)

    def view_message(self, topic: str, msg_id: str) -> MessageExt:
        """Return one message by its offset id or its own id; 208 when there is none."""
        return self._queries().view_message(topic, msg_id)

    # --- hooks and settings ----------------------------------------------------------------

    def add_retry_response_code(self, code: int) -> None:
        """Try another broker after this code too."""
        self.config.retry_response_codes |= {code}

    def register_send_message_hook(self, hook: SendMessageHook) -> None:
        """Show every attempt to ``hook``."""
        self._send_hooks.append(hook)

    def register_check_forbidden_hook(self, hook: CheckForbiddenHook) -> None:
        """Let ``hook`` forbid sends."""
        self._forbidden_hooks.append(hook)

    def update_name_server_address(self, addresses: str) -> None:
        """Use other name servers from now on (``host:port;host:port``)."""
        self._life.check_process()
        self.config.use_name_servers(addresses)
        if self._engine is not None:
            self._engine.instance.routes.set_name_servers(addresses)

    # --- inside ----------------------------------------------------------------------------

    def _queries(self) -> Queries:
        from rocketmq_py.client.queries import Queries  # most producers only send

        return Queries(self._running().instance)

    def _running(self) -> ProducerEngine:
        if self._life.pid != os.getpid():
            self._life.check_process()
        engine = self._engine
        if engine is not None:
            return engine
        raise self._life.refusal()


def _choice(
    queue: MessageQueue | None,
    selector: MessageQueueSelector | None,
    message: Message,
    arg: object,
) -> Choice | None:
    """Give who takes the queue; None: the queues take turns."""
    if queue is None and selector is None:
        return None
    return Choice(queue, selector, message, arg)
