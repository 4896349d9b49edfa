"""The producer of the 5.0 API: sends, recalls, and transactions that the program ends.

A thin translator over `rocketmq_py.DefaultMQProducer` and `TransactionMQProducer`. Must not know
how a message travels.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import Future
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Never, Self

from attrs import frozen

import rocketmq_py
from compat.v5.client import Client, ClientConfiguration, settings_of
from compat.v5.errors import (
    IllegalArgumentException,
    IllegalStateException,
    failed,
    translated,
    translated_call,
)
from compat.v5.fifo import FifoHash, selector
from compat.v5.message import Message, MessageView, TopicMessageType, to_core
from rocketmq_py import (
    DefaultMQProducer,
    LocalTransactionState,
    MessageExt,
    MessageQueue,
    RecallHandle,
    SendResult,
    SendStatus,
    TransactionMQProducer,
    followed_by,
)
from rocketmq_py.errors import (
    PayloadTooLargeError,
    ProxyTimeoutError,
    RequestHeaderFieldsTooLargeError,
)

if TYPE_CHECKING:
    from rocketmq_py.aio import BegunHalf

logger = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 3
PROPERTIES_BYTES_MAX: Final = 32_767
"""What a broker stores of them, with two separators for each."""
GROUP: Final = "rocketmq_v5_producer"
"""The group of producers without transactions, which 5.0 programs do not name."""
_TAKES_ALL: Final = frozenset({None, "MIXED", "UNSPECIFIED"})


@frozen
class SendReceipt:
    """What came back for one send.

    ``message_id`` is the same when it is consumed. ``recall_handle`` is what `recall_message`
    takes; only a delayed message has one. ``message_queue`` and ``offset`` say where this copy
    lies, ``transaction_id`` is of a message of a transaction.
    """

    message_id: str
    transaction_id: str | None
    message_queue: MessageQueue
    offset: int
    recall_handle: str | None = None

    def __str__(self) -> str:
        return f"message_id:{self.message_id}"


class RecallReceipt(str):
    """The id of a recalled message, as the official client gives it; `message_id` is the same."""

    __slots__ = ()

    @property
    def message_id(self) -> str:
        """The id."""
        return str(self)


class TransactionResolution(IntEnum):
    """What becomes of a transaction."""

    TRANSACTION_RESOLUTION_UNSPECIFIED = 0
    COMMIT = 1
    ROLLBACK = 2
    UNKNOWN = TRANSACTION_RESOLUTION_UNSPECIFIED


_STATES: Final = {
    TransactionResolution.COMMIT: LocalTransactionState.COMMIT_MESSAGE,
    TransactionResolution.ROLLBACK: LocalTransactionState.ROLLBACK_MESSAGE,
    TransactionResolution.UNKNOWN: LocalTransactionState.UNKNOW,
}


class TransactionChecker(ABC):
    """Says what became of transactions that nobody has ended, perhaps those of an earlier run."""

    @abstractmethod
    def check(self, message: MessageView) -> TransactionResolution:
        """Decide about a message; called on a thread of the client.

        None, `UNKNOWN` and an exception mean that the server asks again later. So does any other
        value that is no resolution, such as True; the log warns of it.
        """


class _Listener:
    """A checker as the SDK asks it."""

    def __init__(self, checker: TransactionChecker) -> None:
        self._checker = checker

    def execute_local_transaction(self, message: rocketmq_py.Message, arg: object) -> Never:
        """Refuse: here the program works between `send` and `commit`."""
        raise IllegalStateException(f"{message!r} with {arg!r} is ended by its Transaction")

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Ask the checker."""
        said: object = self._checker.check(MessageView(message))
        if said is None:
            return LocalTransactionState.UNKNOW
        if isinstance(said, TransactionResolution):
            return _STATES[said]
        logger.warning(
            "the transaction checker returned %.40r, a %s, for message %s of topic %s, which "
            "counts as UNKNOWN, so the server asks again: return a TransactionResolution",
            said,
            type(said).__name__,
            message.transaction_id,
            message.topic,
        )
        return LocalTransactionState.UNKNOW


class Transaction:
    """One message that is delivered if the program's own work succeeds; see `begin_transaction`.

    What is neither committed nor rolled back the server asks the checker about.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._half: BegunHalf | None = None

    @property
    def message_id(self) -> str:
        """The id of its message; IllegalStateException before that is sent."""
        return self._sent().message_id

    def commit(self) -> None:
        """Let consumers have the message.

        Raises IllegalStateException before it is sent and when it was rolled back. No server
        answers this; one that did not get it asks the checker.
        """
        self._end(LocalTransactionState.COMMIT_MESSAGE)

    def rollback(self) -> None:
        """Let nobody have the message; raises as `commit`."""
        self._end(LocalTransactionState.ROLLBACK_MESSAGE)

    def _take(self) -> None:
        """Take the one message that it may have."""
        with self._lock:
            if self._is_taken:
                raise IllegalArgumentException(
                    "the transaction has a message already: begin another one"
                )
            self._is_taken = True

    def _give_back(self) -> None:
        with self._lock:
            self._is_taken = False

    def _begun(self, half: BegunHalf) -> None:
        self._half = half

    def _sent(self) -> BegunHalf:
        if self._half is None:
            raise IllegalStateException("the transaction has no message: send it one first")
        return self._half

    def _end(self, state: LocalTransactionState) -> None:
        half = self._sent()
        with translated():
            half.end(state).result()


class Producer(Client):
    """Sends messages.

    ``topics`` are looked up by the start already. ``checker`` answers for transactions, which need
    one. The other arguments are of this class only: ``max_attempts`` of a send, each of which may
    take the configuration's request timeout; ``producer_group``, under which the servers ask about
    transactions, by default named after the first topic (a proxy names it so, too);
    ``validate_message_type``: whether a message is refused that is not of the kind its topic is
    for; ``fifo_hash``: how the queue of a message group is chosen.
    """

    def __init__(
        self,
        client_configuration: ClientConfiguration,
        topics: Iterable[str] | None = None,
        checker: TransactionChecker | None = None,
        tls_enable: bool = False,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        producer_group: str | None = None,
        validate_message_type: bool = True,
        fifo_hash: FifoHash = "proxy",
    ) -> None:
        named = (topics,) if isinstance(topics, str) else tuple(topics or ())
        if not all(isinstance(topic, str) for topic in named):
            raise TypeError(f"topics are texts, not {named!r}")
        if isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or max_attempts < 1:
            raise IllegalArgumentException(f"max_attempts = {max_attempts!r}: an int, at least 1")
        if fifo_hash not in ("proxy", "sip"):
            raise IllegalArgumentException(f"fifo_hash = {fifo_hash!r}: 'proxy' or 'sip'")
        self._validates = validate_message_type
        self._choose = selector(fifo_hash)
        self._transactions: TransactionMQProducer | None = None
        with translated():
            self._producer = self._made(
                client_configuration, named, checker, tls_enable, max_attempts, producer_group
            )
        super().__init__(client_configuration, self._producer)

    def _made(
        self,
        configuration: ClientConfiguration,
        topics: tuple[str, ...],
        checker: TransactionChecker | None,
        tls_enable: bool,
        max_attempts: int,
        group: str | None,
    ) -> DefaultMQProducer:
        """Make the producer of the SDK: the one place where its settings are."""
        known = settings_of(configuration, tls_enable=tls_enable)
        timeout_ms = configuration.request_timeout_ms
        config = rocketmq_py.ProducerConfig(
            **known,
            send_msg_timeout=timeout_ms * max_attempts,
            send_msg_max_timeout_per_request=timeout_ms,
            retry_times_when_send_failed=max_attempts - 1,
            retry_times_when_send_async_failed=max_attempts - 1,
            delay_policy="as_java",
        )
        if checker is None:
            return DefaultMQProducer.of(config, group or GROUP, topics=topics)
        if not isinstance(checker, TransactionChecker):
            raise TypeError(f"checker {checker!r} is no TransactionChecker")
        if group is None and not topics:
            raise IllegalArgumentException(
                "transactions need topics, or a producer_group: servers ask the producers of the "
                "group that they make"
            )
        self._transactions = TransactionMQProducer.of(
            config,
            group or f"v5_{topics[0]}",
            topics=topics,
            transaction_listener=_Listener(checker),
        )
        return self._transactions

    # --- sending ---------------------------------------------------------------------------

    def send(self, message: Message, transaction: Transaction | None = None) -> SendReceipt:
        """Send, and wait until a server has stored the message.

        With a ``transaction`` nobody sees the message before `Transaction.commit`. Messages of a
        group have one attempt, since another queue would break their order. Raises
        IllegalArgumentException for a message that cannot be, or that is not of the kind its topic
        is for, and otherwise what the server's answer says: see `compat.v5`.
        """
        if transaction is not None and not isinstance(transaction, Transaction):
            raise TypeError(f"a transaction comes from begin_transaction, not {transaction!r}")
        core = self._checked(message, transaction)
        if self._validates:
            kind = _kind(message, transaction)
            with translated():
                _check_kind(message.topic, kind, self._topic_type(message.topic).result())
        with translated():
            if transaction is not None:
                return self._begin(message, core, transaction)
            if message.message_group is None:
                result = self._producer.send(core)
            else:
                result = self._producer.send(core, selector=self._choose, arg=message.message_group)
            return _receipt(message, result)

    def send_async(self, message: Message) -> Future[SendReceipt]:
        """Send without waiting; the future gets what `send` returns or raises.

        Raises at once when the producer does not run, and for a message that cannot be.
        """
        core = self._checked(message, None)
        if not self._validates:
            return self._sent(message, core)
        known = self._topic_type(message.topic)

        def go_on(topic_type: Future[str | None]) -> Future[SendReceipt]:
            _check_kind(message.topic, _kind(message, None), topic_type.result())
            return self._sent(message, core)

        return followed_by(known, go_on)

    def recall_message(self, topic: str, recall_handle: str) -> RecallReceipt:
        """Take back a delayed message that is not due yet.

        Raises UnsupportedError when the server does not offer it (it is off by default there),
        BadRequestError for a handle that cannot be one, and when it is too late.
        """
        with translated():
            RecallHandle.decode(recall_handle)  # a broker would say no more than "failed"
            return RecallReceipt(self._producer.recall_message(topic, recall_handle))

    def recall_message_async(self, topic: str, recall_handle: str) -> Future[RecallReceipt]:
        """Take back a message without waiting; the future gets what `recall_message` gives."""
        self._check_running()
        try:
            RecallHandle.decode(recall_handle)
            call = self._producer.recall_message_async(topic, recall_handle)
        except rocketmq_py.RocketMQError as error:
            return failed(error)
        return translated_call(call, RecallReceipt)

    # --- transactions ----------------------------------------------------------------------

    def begin_transaction(self) -> Transaction:
        """Begin a transaction, for one message: ``send(message, transaction)``.

        Raises IllegalArgumentException without a checker.
        """
        self._check_running()
        if self._transactions is None:
            raise IllegalArgumentException("transactions need a producer with a checker")
        return Transaction()

    def _begin(
        self, message: Message, core: rocketmq_py.Message, transaction: Transaction
    ) -> SendReceipt:
        if self._transactions is None:
            raise IllegalArgumentException("transactions need a producer with a checker")
        transaction._take()  # noqa: SLF001 - of this module
        try:
            half = self._transactions.begin(core)
            receipt = _receipt(message, half.result)
        except BaseException:
            transaction._give_back()  # noqa: SLF001 - of this module
            raise
        transaction._begun(half)  # noqa: SLF001 - of this module
        return receipt

    # --- inside ----------------------------------------------------------------------------

    def _checked(self, message: Message, transaction: Transaction | None) -> rocketmq_py.Message:
        self._check_running()
        core = to_core(message)
        if len(core.body) > self._producer.max_message_size:
            raise PayloadTooLargeError(
                f"the body has {len(core.body)} bytes, {self._producer.max_message_size} at most",
                topic=message.topic,
            )
        size = sum(len(f"{name}{value}".encode()) + 2 for name, value in core.properties.items())
        if size > PROPERTIES_BYTES_MAX:
            raise RequestHeaderFieldsTooLargeError(
                f"the properties take {size} bytes, {PROPERTIES_BYTES_MAX} at most: put large "
                "values into the body",
                topic=message.topic,
            )
        if transaction is not None and message.message_type is not TopicMessageType.NORMAL:
            raise IllegalArgumentException(
                "a message of a transaction has no message_group and no delivery_timestamp"
            )
        return core

    def _topic_type(self, topic: str) -> Future[str | None]:
        return self._producer.topic_message_type(topic)

    def _sent(self, message: Message, core: rocketmq_py.Message) -> Future[SendReceipt]:
        if message.message_group is None:
            call = self._producer.send_async(core)
        else:
            call = self._producer.send_async(core, selector=self._choose, arg=message.message_group)
        message.message_id = core.unique_key
        return translated_call(call, lambda result: _receipt(message, result))


class ProducerBuilder:
    """Builds a `Producer` with the setters of the 5.0 documents; `build` starts it."""

    def __init__(self) -> None:
        self._configuration: ClientConfiguration | None = None
        self._topics: tuple[str, ...] = ()
        self._checker: TransactionChecker | None = None
        self._max_attempts = MAX_ATTEMPTS

    def set_client_configuration(self, client_configuration: ClientConfiguration) -> Self:
        """Set where the servers are."""
        self._configuration = client_configuration
        return self

    def set_topics(self, *topics: str) -> Self:
        """Set topics that are looked up by the start already."""
        self._topics = topics
        return self

    def set_max_attempts(self, max_attempts: int) -> Self:
        """Set how often one message is tried."""
        self._max_attempts = max_attempts
        return self

    def set_transaction_checker(self, checker: TransactionChecker) -> Self:
        """Set who answers for transactions."""
        self._checker = checker
        return self

    def build(self) -> Producer:
        """Start the producer."""
        if self._configuration is None:
            raise IllegalArgumentException("set_client_configuration was not called")
        producer = Producer(
            self._configuration, self._topics, self._checker, max_attempts=self._max_attempts
        )
        producer.startup()
        return producer


def _kind(message: Message, transaction: Transaction | None) -> TopicMessageType:
    return TopicMessageType.TRANSACTION if transaction is not None else message.message_type


def _check_kind(topic: str, kind: TopicMessageType, topic_type: str | None) -> None:
    """Refuse a message that is not of the kind its topic is for, as a proxy does."""
    if topic_type not in _TAKES_ALL and topic_type != kind.value:
        raise IllegalArgumentException(
            f"topic {topic} is for messages of type {topic_type} (attribute message.type), this "
            f"one is of type {kind.value}",
            topic=topic,
        )


def _receipt(message: Message, result: SendResult) -> SendReceipt:
    """Read a result; ProxyTimeoutError when the message is stored, but not as safely as wanted."""
    message.message_id = result.msg_id
    if result.send_status is not SendStatus.SEND_OK:
        raise ProxyTimeoutError(
            f"message {result.msg_id} is stored, but not as safely as its server is set to: "
            f"{result.send_status.value}",
            topic=message.topic,
        )
    return SendReceipt(
        result.msg_id,
        result.transaction_id,
        result.message_queue,
        result.queue_offset,
        result.recall_handle,
    )
