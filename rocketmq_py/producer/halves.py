"""Half messages: stored where no consumer sees them, and committed or rolled back later.

The part of a transaction that every API shape shares: `Halves.begin` stores a half message,
`Half.end` tells the broker that has it what to do (request 37), and a broker that hears nothing
asks (39), which gives a `Half` again. Who decides, a listener, a block of code or a coroutine, is
not known here: ``transaction.py`` is one such face. Must not know threads: those that answer
questions are in ``checking.py``.
"""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, ClassVar, Literal

from rocketmq_py.client.hooks import EndTransactionContext, EndTransactionHook
from rocketmq_py.client.outcome import CallbackFuture
from rocketmq_py.errors import (
    ClientClosedError,
    DelayConflictError,
    DelayValueError,
    IllegalStateError,
    MQClientException,
    NotStartedError,
    RocketMQError,
    UnsupportedOperationError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.message import Message, MessageBatch, MessageExt
from rocketmq_py.producer.send_kernel import give_id
from rocketmq_py.producer.validation import check_message
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.delay import DELAY_PROPERTIES, has_delay
from rocketmq_py.protocol.handles import decode_offset_id
from rocketmq_py.protocol.headers.send import EndTransactionRequestHeader
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from rocketmq_py.send_result import LocalTransactionState, SendResult, SendStatus

if TYPE_CHECKING:
    from rocketmq_py.client.life import Life
    from rocketmq_py.client.transaction_checks import TransactionCheck
    from rocketmq_py.producer.engine import ProducerEngine

_log = get_logger(__name__)

TransactionDelay = Literal["error", "drop", "at_commit"]

CHECK_ANSWER_TIMEOUT_MS = 3_000

_NUMBER_OF = {
    LocalTransactionState.COMMIT_MESSAGE: TRANSACTION_COMMIT,
    LocalTransactionState.ROLLBACK_MESSAGE: TRANSACTION_ROLLBACK,
    LocalTransactionState.UNKNOW: TRANSACTION_NONE,
}


class Half(ABC):
    """One half message, to be ended once. Every call is safe from any thread.

    The SDK keeps no list of open halves, so one that is never ended costs no memory here. The
    broker bounds its life: after ``transactionTimeOut`` it asks, at most ``transactionCheckMax``
    times, and then sets it aside in ``TRANS_CHECK_MAX_TIME_TOPIC``.
    """

    failure: ClassVar[str]
    """What the log says about an end that was not handed over: state, id, reason."""

    def __init__(self, halves: Halves, message: Message, message_id: str) -> None:
        self._halves = halves
        self.message = message
        self.message_id = message_id
        self._state: LocalTransactionState | None = None
        self._telling: Future[None] | None = None

    @property
    def state(self) -> LocalTransactionState | None:
        """How it was ended; None while it is open."""
        return self._state

    def end(self, state: LocalTransactionState, *, remark: str | None = None) -> Future[None]:
        """Tell the broker to deliver the message, to forget it, or (UNKNOW) to ask later.

        Waits for nothing. No broker answers this request, so the future says whether it was
        handed over to the connection, or why not; then the log says so too, and the broker will
        ask. An end that was not handed over may be repeated with the same state. ``remark`` is for
        the broker's log.

        Raises `IllegalStateError` when it was ended already, `TypeError` for what is no state,
        `ForkedClientError` in a forked child.
        """
        if not isinstance(state, LocalTransactionState):
            raise TypeError(f"a half message ends with a LocalTransactionState, not {state!r}")
        return self._halves.end(self, state, remark)

    def take_end(self, state: LocalTransactionState, telling: Future[None]) -> None:
        """Note how it ends, under the lock of `Halves`; raises when it may not end so."""
        before = self._telling
        if before is not None and self._state is not None:
            told = f"transaction {self.message_id} was ended with {self._state.value}"
            if not before.done() or before.exception() is None:
                raise IllegalStateError(f"{told} already{self._why()}: end it once")
            if state is not self._state:
                raise IllegalStateError(
                    f"{told}, which may have reached the broker although that failed: only the "
                    f"same may be repeated, not {state.value}"
                )
        self._state, self._telling = state, telling

    def _why(self) -> str:
        return ""

    @abstractmethod
    def known_address(self) -> str | None:
        """Return the broker to tell, None when a name server must be asked for it."""

    @abstractmethod
    def address(self) -> str:
        """Return the broker to tell; may block. Raises `MQClientException` when it is gone."""

    @abstractmethod
    def header(self, state: LocalTransactionState) -> EndTransactionRequestHeader:
        """Build the header of request 37; ValueError when the broker's id of it is malformed."""

    @property
    @abstractmethod
    def timeout_ms(self) -> int:
        """How long an end may wait for its connection."""


class BegunHalf(Half):
    """A half message of this producer; ``result`` says where it is stored.

    It begins as rolled back when the broker has not stored it safely (``result.send_status``).
    """

    failure = "the broker was not told about a transaction, it will ask state=%s id=%s: %s"

    def __init__(self, halves: Halves, message: Message, result: SendResult) -> None:
        super().__init__(halves, message, result.msg_id)
        self.result = result

    def _why(self) -> str:
        status = self.result.send_status
        unsafe = status is not SendStatus.SEND_OK
        return f", since it is not stored safely ({status.value})" if unsafe else ""

    def known_address(self) -> str | None:
        """As of every half."""
        return self._halves.kernel.known_address(self.result.message_queue)

    def address(self) -> str:
        """As of every half."""
        return self._halves.kernel.address_of(self.result.message_queue)

    def header(self, state: LocalTransactionState) -> EndTransactionRequestHeader:
        """As of every half."""
        result = self.result
        return EndTransactionRequestHeader(
            producer_group=self._halves.kernel.group,
            commit_or_rollback=_NUMBER_OF[state],
            tran_state_table_offset=result.queue_offset,
            commit_log_offset=decode_offset_id(result.offset_msg_id)[2],
            msg_id=result.msg_id,
            transaction_id=result.transaction_id,
            topic=self.message.topic,
            broker_name=result.message_queue.broker_name,
        )

    @property
    def timeout_ms(self) -> int:
        """As of every half."""
        return self._halves.kernel.config.send_msg_timeout


class AskedHalf(Half):
    """A half message that a broker asks about, of this or of another producer of the group.

    ``message`` is stored as it was sent, perhaps compressed: see `MessageExt.unpacked`.
    """

    failure = "answer to a transaction check failed state=%s id=%s: %s; the broker asks again"
    timeout_ms = CHECK_ANSWER_TIMEOUT_MS
    message: MessageExt

    def __init__(self, halves: Halves, check: TransactionCheck) -> None:
        super().__init__(halves, check.message, check.message.msg_id)
        self._check = check

    def known_address(self) -> str | None:
        """As of every half: the broker that asks."""
        return self._check.address

    def address(self) -> str:
        """As of every half."""
        return self._check.address

    def header(self, state: LocalTransactionState) -> EndTransactionRequestHeader:
        """As of every half."""
        asked = self._check.header
        return EndTransactionRequestHeader(
            producer_group=self._halves.kernel.group,
            commit_or_rollback=_NUMBER_OF[state],
            tran_state_table_offset=asked.tran_state_table_offset,
            commit_log_offset=asked.commit_log_offset,
            from_transaction_check=True,
            msg_id=self.message_id,
            transaction_id=asked.transaction_id,
            topic=asked.topic,
            broker_name=asked.broker_name,
        )


class Halves:
    """The half messages of one started producer. Every call is safe from any thread.

    What is held here has an end: a begin as every send (its time-out, ``client_async_permits``), an
    end until it is handed over (``send_msg_timeout``), a question as long as whoever takes it says.
    """

    def __init__(self, engine: ProducerEngine, hooks: list[EndTransactionHook]) -> None:
        self.kernel = engine.kernel
        self._instance = engine.instance
        self._group = engine.kernel.group
        self._sender = engine.sender
        self._hooks = hooks
        self._own_hooks = () if engine.tracing is None else (engine.tracing,)
        self._lock = threading.Lock()
        self._activity = engine.instance.activity
        self.undecided = self._activity.open(f"producer {self._group}", "transactions undecided")
        """What the application is deciding now: a test clock that settles waits for it."""

    # --- beginning -------------------------------------------------------------------------

    def begin(
        self, message: Message, *, timeout_ms: float, delay: TransactionDelay = "error"
    ) -> Future[BegunHalf]:
        """Store a message unseen, without waiting; the future gets the half, or why there is none.

        Raises at once for a message that cannot be one: `DelayConflictError` for a delay (see
        `TransactionMQProducer`), `UnsupportedOperationError` for a batch, `MQClientException`.
        """
        prepared = self._prepared(message, delay)
        future: CallbackFuture[BegunHalf] = CallbackFuture(self._instance)
        sending = self._sender.send_async(self.kernel.prepare(prepared), timeout_ms, None, None)

        def stored(sent: Future[SendResult]) -> None:
            error = sent.exception()
            if error is None:
                future.set_result(self._begun(message, sent.result()))
            else:
                future.set_exception(_not_stored(error, message))

        sending.add_done_callback(stored)
        return future

    def begin_here(
        self, message: Message, *, timeout_ms: float, delay: TransactionDelay = "error"
    ) -> BegunHalf:
        """Store a message unseen and wait for it on this thread, as blocking sends do."""
        prepared = self._prepared(message, delay)
        outgoing = self.kernel.prepare(prepared)
        try:
            result = self._sender.send(outgoing, timeout_ms, None)
        except RocketMQError as error:
            failed = _not_stored(error, message)
            if failed is error:
                raise
            raise failed from error
        return self._begun(message, result)

    def _prepared(self, message: Message, delay: TransactionDelay) -> Message:
        """Return the half message: a copy, so that the caller's can be sent again as it is."""
        if isinstance(message, MessageBatch):
            raise UnsupportedOperationError("a batch cannot be a transaction: send one by one")
        check_message(message, self.kernel.config)
        give_id(message)
        prepared = copy.copy(message)
        if has_delay(prepared.properties) and delay != "at_commit":
            name = next(name for name in prepared.properties if name in DELAY_PROPERTIES)
            if delay == "error":
                raise DelayConflictError(
                    name,
                    prepared.properties[name],
                    "a message of a transaction cannot be delayed: remove the delay, or choose "
                    'transaction_delay="drop" or "at_commit"',
                )
            for name in DELAY_PROPERTIES:
                prepared.properties.pop(name, None)
        prepared.properties[Prop.TRAN_MSG] = "true"
        prepared.properties[Prop.PGROUP] = self._group
        return prepared

    def _begun(self, message: Message, result: SendResult) -> BegunHalf:
        """Make the half of a result; what is not safely stored must never be delivered."""
        half = BegunHalf(self, message, result)
        if result.send_status is SendStatus.SEND_OK:
            message.transaction_id = result.msg_id
        else:
            half.end(LocalTransactionState.ROLLBACK_MESSAGE)
        return half

    # --- ending ----------------------------------------------------------------------------

    def end(self, half: Half, state: LocalTransactionState, remark: str | None) -> Future[None]:
        """Do what `Half.end` promises."""
        trouble: RocketMQError | None = None
        try:
            self._instance.check_usable()
        except (ClientClosedError, NotStartedError) as error:  # not ForkedClientError
            trouble = error
        telling: CallbackFuture[None] = CallbackFuture(self._instance)
        with self._lock:
            half.take_end(state, telling)
        self._sender.unfinished.enter(half)  # a shutdown of the producer waits for it
        if trouble is not None:
            self._told(half, telling, trouble)
            return telling
        address = half.known_address()
        if address is not None and self._instance.connections.get(address) is not None:
            self._tell(half, state, remark, telling)
        elif not self._instance.submit_background(self._tell, half, state, remark, telling):
            crowded = ClientClosedError("the client is shut down, or has too much to do")
            self._told(half, telling, crowded)
        return telling

    def _tell(
        self, half: Half, state: LocalTransactionState, remark: str | None, telling: Future[None]
    ) -> None:
        """Show an end to the hooks, and tell it to the broker; waits without a connection only."""
        try:
            address, header = half.address(), half.header(state)
            self._show(half, state, address, header.transaction_id)
            command = RemotingCommand(
                RequestCode.END_TRANSACTION, ext_fields=header.to_ext(), remark=remark
            )
            remoting = self._instance.remoting
            remoting.invoke_oneway(address, command, half.timeout_ms, self.kernel.stop)
        except Exception as error:  # noqa: BLE001 - also an RPC hook's: it is the outcome
            self._told(half, telling, error)
        else:
            self._told(half, telling, None)

    def _told(self, half: Half, telling: Future[None], error: Exception | None) -> None:
        """Decide what became of an end."""
        if error is None:
            telling.set_result(None)
        else:
            state = "" if half.state is None else half.state.value
            _log.warning(half.failure, state, half.message_id, error)
            telling.set_exception(error)
        self._sender.unfinished.leave(half)

    def _show(
        self,
        half: Half,
        state: LocalTransactionState,
        address: str,
        transaction_id: str | None,
    ) -> None:
        hooks = (*self._own_hooks, *self._hooks)
        if not hooks:
            return
        context = EndTransactionContext(
            producer_group=self._group,
            message=half.message,
            message_id=half.message_id,
            broker_address=address,
            state=state,
            from_check=isinstance(half, AskedHalf),
            transaction_id=transaction_id,
        )
        for hook in hooks:
            try:
                hook.end(context)
            except Exception as error:  # noqa: BLE001 - a hook cannot break transactions
                self.kernel.faults.tell("end-transaction hook", hook, error)

    # --- being asked -----------------------------------------------------------------------

    def answer_by(self, ask: Callable[[AskedHalf], object], life: Life) -> None:
        """Give ``ask`` the halves that brokers ask about from now on, until ``life`` ends.

        It must not block, and must end each, sooner or later: what it drops is asked again.
        """
        checks = self._instance.transaction_checks
        life.at_end(lambda _: checks.unregister(self._group))
        checks.register(self._group, lambda check: ask(AskedHalf(self, check)))
        life.at_end(lambda _: self._activity.close(self.undecided))


def _not_stored(error: BaseException, message: Message) -> BaseException:
    """Give the error of a half message that was not stored."""
    if isinstance(error, (MQClientException, ClientClosedError, DelayValueError)):
        return error
    if not isinstance(error, RocketMQError):
        return error
    failed = MQClientException(
        f"the half message was not stored: {error}",
        response_code=error.response_code,
        topic=message.topic,
    )
    failed.__cause__ = error
    return failed
