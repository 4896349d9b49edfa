"""The producer: what an application calls to send messages.

``DefaultMQProducer`` of the original in Python's shape. Only the face is here: the life cycle is
in ``life.py``, one message's way in ``send_kernel.py``, retries are in ``attempts.py`` and
``sending.py``, questions to brokers in ``client/queries.py``. Must not know frames or sockets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, NoReturn, overload

from attrs import define, field, setters

from rocketmq_py.client.hooks import RPCHook, as_hooks
from rocketmq_py.config import as_texts, explained
from rocketmq_py.errors import MQClientException
from rocketmq_py.message import Message, MessageExt
from rocketmq_py.producer.batch import make_batch
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.producer.life import ProducerLife
from rocketmq_py.producer.selection import Choice, MessageQueueSelector, choice_of
from rocketmq_py.producer.sending import SendCallback, check_callback
from rocketmq_py.producer.validation import checked_timeout
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.names import DEFAULT_PRODUCER_GROUP
from rocketmq_py.send_result import MessageQueue, SendResult

if TYPE_CHECKING:
    from rocketmq_py.client.queries import Boundary, Queries, QueryResult


@explained
@define(eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class DefaultMQProducer(ProducerConfig, ProducerLife):
    """Sends messages to topics.

    ``producer_group`` names the kind of sender. Its settings are keyword arguments, and attributes
    of the producer; most count from the next call on, those of the connection from `start`.
    `DefaultMQProducer.of` begins with the settings of a `ClientConfig` or `ProducerConfig`.
    ``topics`` are looked up by `start` already. ``rpc_hooks`` see every remote call. All calls are
    safe from any thread.

    Use it in a ``with`` block, or call `start` and `shutdown`::

        with DefaultMQProducer("shop", namesrv_addr="127.0.0.1:9876") as producer:
            producer.send(Message("orders", b"cancel 42", delay=timedelta(minutes=30)))
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **ProducerConfig.FIXED_BY_START,
        "producer_group": "",
    }

    producer_group: str = DEFAULT_PRODUCER_GROUP
    _topics: tuple[str, ...] = field(default=(), alias="topics", kw_only=True, converter=as_texts)
    _rpc_hooks: tuple[RPCHook, ...] = field(
        default=(), alias="rpc_hooks", kw_only=True, converter=as_hooks
    )

    def __attrs_post_init__(self) -> None:
        self._prepare()

    @property
    def config(self) -> ProducerConfig:
        """The settings, which are the producer itself; `ProducerConfig.of` makes a copy of them."""
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a producer cannot be pickled: pickle ProducerConfig.of(producer) and start one there"
        )

    def __repr__(self) -> str:
        return f"DefaultMQProducer({self.producer_group!r}, {self._life.state})"

    # --- sending ---------------------------------------------------------------------------

    @overload
    def send(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
    ) -> SendResult: ...

    @overload
    def send(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        selector: MessageQueueSelector,
        arg: object = None,
    ) -> SendResult: ...

    def send(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> SendResult:
        """Send and wait until a broker has taken the message.

        ``timeout`` in ms covers all attempts (default ``send_msg_timeout``). With ``queue`` or
        ``selector`` (called with all queues, the message and ``arg``) there is one attempt only.
        Raises `SendFailedError` after the last attempt, `MQBrokerException` for a refusal that no
        other broker would mend, `MQClientException` for what cannot be sent, `DelayValueError` for
        a delay that will not be kept (``delay_policy``), `TypeError` for another argument of a
        wrong type.
        """
        engine = self._running()
        timeout_ms = self.send_msg_timeout if timeout is None else checked_timeout(timeout)
        outgoing = engine.kernel.prepare(message)
        choose = choice_of(queue, selector, message, arg)
        return engine.sender.send(outgoing, timeout_ms, choose)

    @overload
    def send_async(
        self,
        message: Message,
        callback: SendCallback | None = None,
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
    ) -> Future[SendResult]: ...

    @overload
    def send_async(
        self,
        message: Message,
        callback: SendCallback | None = None,
        *,
        timeout: int | timedelta | None = None,
        selector: MessageQueueSelector,
        arg: object = None,
    ) -> Future[SendResult]: ...

    def send_async(
        self,
        message: Message,
        callback: SendCallback | None = None,
        *,
        timeout: int | timedelta | None = None,
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
        timeout_ms = self.send_msg_timeout if timeout is None else checked_timeout(timeout)
        choose = choice_of(queue, selector, message, arg)
        return engine.send_async(message, timeout_ms, callback, choose)

    @overload
    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
    ) -> None: ...

    @overload
    def send_oneway(
        self,
        message: Message,
        *,
        selector: MessageQueueSelector,
        arg: object = None,
    ) -> None: ...

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> None:
        """Write the message to a broker's connection and return: nobody says whether it arrived.

        Raises for state, validation, route and connection, and as `send` for a delay.
        """
        engine = self._running()
        outgoing = engine.kernel.prepare(message)
        engine.sender.send_oneway(outgoing, choice_of(queue, selector, message, arg))

    def send_batch(
        self,
        messages: Iterable[Message],
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
    ) -> SendResult:
        """Send several messages in one request; they are stored together, each with its own id.

        ``messages`` is any iterable of them, or a `MessageBatch`. Same topic, no delay of any
        kind, no retry topic: else `BatchRefusedError` (both a `MQClientException` and an
        `UnsupportedOperationError`) and nothing is sent. See
        `rocketmq_py.split_batch` for more than ``max_message_size``.
        """
        self._running()
        return self.send(make_batch(messages), timeout=timeout, queue=queue)

    @overload
    def request(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
    ) -> MessageExt: ...

    @overload
    def request(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        selector: MessageQueueSelector,
        arg: object = None,
    ) -> MessageExt: ...

    def request(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
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
        return self._request(message, timeout, choice_of(queue, selector, message, arg)).result()

    @overload
    def request_async(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
    ) -> Future[MessageExt]: ...

    @overload
    def request_async(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        selector: MessageQueueSelector,
        arg: object = None,
    ) -> Future[MessageExt]: ...

    def request_async(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> Future[MessageExt]:
        """Send a message without waiting; the future gets the reply, or what `request` raises.

        Raises at once when the producer is not running, and for a message that cannot be sent.
        """
        return self._request(message, timeout, choice_of(queue, selector, message, arg))

    def _request(
        self, message: Message, timeout: int | timedelta | None, choose: Choice | None
    ) -> Future[MessageExt]:
        engine = self._running()
        timeout_ms = self.send_msg_timeout if timeout is None else checked_timeout(timeout)
        return engine.requester.request(message, timeout_ms, choose)

    def send_message_in_transaction(
        self, message: Message, arg: object = None, *, timeout: int | timedelta | None = None
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
        return self._running().recall(topic, recall_handle)

    def recall_message_async(
        self, topic: str, recall_handle: str | RecallHandle | None
    ) -> Future[str]:
        """Take back a message without waiting; the future gets what `recall_message` gives.

        Raises at once when the producer is not running, and for a handle that cannot be one.
        """
        return self._running().recall_async(topic, recall_handle)

    # --- asking ----------------------------------------------------------------------------

    def fetch_publish_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of a topic."""
        return list(self._running().kernel.queues(topic))

    def topic_message_type(self, topic: str) -> Future[str | None]:
        """Ask which messages a topic is for, such as ``"DELAY"``, without waiting (351).

        That is its attribute ``message.type``. None: it does not say, or no broker that could be
        asked has told it. An answer is remembered for 30 seconds, so most futures are done.
        """
        return self._running().topic_types.of(topic)

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
        self.retry_response_codes |= {code}

    def update_name_server_address(self, addresses: str | Sequence[str]) -> None:
        """Use other name servers from now on (``host:port;host:port``, or a list of them)."""
        self._life.check_process()
        self._assign("namesrv_addr", addresses)
        self._use_name_servers(self.namesrv_addr)

    # --- inside ----------------------------------------------------------------------------

    def _queries(self) -> Queries:
        from rocketmq_py.client.queries import Queries  # most producers only send

        return Queries(self._running().instance, self)
