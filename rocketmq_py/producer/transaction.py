"""Messages that consumers see only if the sender's own work succeeded.

``TransactionMQProducer`` of the original: the message is stored where nobody sees it, the local
work runs, and the broker is told to deliver or to forget it (request 37). When it hears nothing,
it asks a producer of the group (39). Must not know how a message is sent (``sending.py``) or who
takes requests from the wire (``client/transaction_checks.py``).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from attrs import Attribute, define, field, fields, setters

from rocketmq_py.client.background import WorkerPool
from rocketmq_py.client.hooks import EndTransactionContext, EndTransactionHook
from rocketmq_py.config import explained, one_of, setting
from rocketmq_py.errors import (
    ClientClosedError,
    ConfigError,
    DelayConflictError,
    MQClientException,
    RocketMQError,
    UnsupportedOperationError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.message import Message, MessageBatch, MessageExt
from rocketmq_py.producer.producer import DefaultMQProducer
from rocketmq_py.producer.send_kernel import give_id
from rocketmq_py.producer.validation import check_message
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.delay import DELAY_PROPERTIES, has_delay
from rocketmq_py.protocol.handles import decode_offset_id
from rocketmq_py.protocol.headers.send import EndTransactionRequestHeader
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from rocketmq_py.send_result import (
    LocalTransactionState,
    SendResult,
    SendStatus,
    TransactionSendResult,
)

if TYPE_CHECKING:
    from rocketmq_py.client.transaction_checks import TransactionCheck
    from rocketmq_py.producer.engine import ProducerEngine

_log = get_logger(__name__)

TransactionDelay = Literal["error", "drop", "at_commit"]

CHECK_ANSWER_TIMEOUT_MS = 3_000
CHECK_THREADS_MAX = 1_024

_NUMBER_OF = {
    LocalTransactionState.COMMIT_MESSAGE: TRANSACTION_COMMIT,
    LocalTransactionState.ROLLBACK_MESSAGE: TRANSACTION_ROLLBACK,
    LocalTransactionState.UNKNOW: TRANSACTION_NONE,
}


class TransactionListener(Protocol):
    """The two questions that an application answers.

    An exception counts as `UNKNOW`. So do None and any other value that is no state; the log says
    so. Java's names ``executeLocalTransaction`` and ``checkLocalTransaction`` are accepted, too.
    """

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        """Do the local work, on the thread that sends; ``message.transaction_id`` names it."""

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Say what became of earlier work. Called on another thread, perhaps after a restart."""


class _JavaTransactionListener(Protocol):
    def executeLocalTransaction(  # noqa: N802 - the spelling that ported listeners bring along
        self, message: Message, arg: object, /
    ) -> LocalTransactionState: ...

    def checkLocalTransaction(  # noqa: N802 - likewise
        self, message: MessageExt, /
    ) -> LocalTransactionState: ...


AnyTransactionListener = TransactionListener | _JavaTransactionListener
"""What `TransactionMQProducer` takes as ``transaction_listener``."""


class _Questions(NamedTuple):
    """The methods of a listener, whatever they are called there."""

    execute: Callable[[Message, object], LocalTransactionState | None]
    check: Callable[[MessageExt], LocalTransactionState | None]


def _a_listener(_owner: object, _setting: Attribute[Any], value: object) -> None:
    if value is not None:
        _questions_of(value)


@explained
@define(eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class TransactionMQProducer(DefaultMQProducer):
    """Sends messages whose delivery depends on local work.

    ``transaction_listener`` does the work and answers later questions; it may be set until the
    first send. `TypeError` for one that lacks a method of `TransactionListener`.

    All producers that share a ``producer_group`` must be able to answer for one another, and one
    of them must be alive when the broker asks: without any, messages stay undelivered and end in
    ``TRANS_CHECK_MAX_TIME_TOPIC``. A producer that only restarts, without sending, is known to
    the brokers of its ``topics`` and of ``create_topic_key``.

    Questions are answered on ``executor``, or on up to ``check_thread_pool_max`` own threads, of
    which `start` starts ``check_thread_pool_min``; when ``check_request_hold_max`` of them wait,
    further ones are dropped and asked again by the broker.

    ``transaction_delay``: what to do with a message that also asks for a delay. ``"error"`` raises
    `DelayConflictError`, ``"drop"`` sends it without, ``"at_commit"`` sends it as it is. The last
    is for brokers that start the timer at the commit, such as `embedded_broker`: a real 5.x broker
    puts the half message itself on the timer wheel and loses it.

    The other arguments are those of `DefaultMQProducer`.
    """

    transaction_listener: AnyTransactionListener | None = field(
        default=None, kw_only=True, metadata=setting(_a_listener)
    )
    _executor: Executor | None = field(default=None, alias="executor", kw_only=True)
    _threads_min: int = field(default=1, alias="check_thread_pool_min", kw_only=True)
    _threads_max: int = field(default=1, alias="check_thread_pool_max", kw_only=True)
    _hold_max: int = field(default=2_000, alias="check_request_hold_max", kw_only=True)
    transaction_delay: TransactionDelay = field(
        default="error", kw_only=True, metadata=setting(one_of("error", "drop", "at_commit"))
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        least, most = self._threads_min, self._threads_max
        if not 1 <= most <= CHECK_THREADS_MAX:
            raise ConfigError("check_thread_pool_max", most, f"from 1 to {CHECK_THREADS_MAX}")
        if not 0 <= least <= most:
            limit = f"from 0 to check_thread_pool_max, which is {most}"
            raise ConfigError("check_thread_pool_min", least, limit)
        if self._hold_max < 1:
            raise ConfigError("check_request_hold_max", self._hold_max, "at least 1")
        self._check_threads = (least, most)
        self._checks: WorkerPool | None = None
        self._end_hooks: list[EndTransactionHook] = []
        self._count_lock = threading.Lock()
        self._undecided = 0

    def __repr__(self) -> str:
        return f"TransactionMQProducer({self.producer_group!r}, {self._life.state})"

    @property
    def _questions(self) -> _Questions | None:
        listener = self.transaction_listener
        return None if listener is None else _questions_of(listener)

    # --- life ------------------------------------------------------------------------------

    def _start(self, *, check: bool) -> None:
        """Get ready to send and to be asked."""
        super()._start(check=check)
        engine, life = self._running(), self._life
        if self._executor is None:
            least, most = self._check_threads
            self._checks = checks = WorkerPool(
                "rocketmq-transaction-check",
                most,
                self._hold_max,
                schedule_after=engine.instance.schedule_after,
            )
            life.at_end(checks.close)
            checks.start(least)
        life.at_end(partial(self._ask_no_more, engine))
        engine.instance.transaction_checks.register(
            self.producer_group, partial(self._asked, engine)
        )
        engine.instance.add_probe(self._is_busy)
        # Brokers must know this producer before they ask, also when it sends nothing.
        engine.warm_up([self.config.create_topic_key])

    def _ask_no_more(self, engine: ProducerEngine, _timeout: float) -> None:
        engine.instance.transaction_checks.unregister(self.producer_group)
        engine.instance.remove_probe(self._is_busy)

    # --- sending ---------------------------------------------------------------------------

    def send_message_in_transaction(
        self, message: Message, arg: object = None, *, timeout: int | timedelta | None = None
    ) -> TransactionSendResult:
        """Store the message unseen, do the local work with ``arg``, and tell the broker.

        A commit makes the message visible, a rollback never; after `UNKNOW`, and when the broker
        is not told, it asks later. ``timeout`` in ms is for storing the message. Raises
        `MQClientException` when it could not be stored or there is no listener, and
        `DelayConflictError` for a delay (see ``transaction_delay``); then the work is not done.
        """
        engine = self._running()
        questions = self._questions
        if questions is None:
            raise MQClientException(
                "no transaction_listener: pass one to TransactionMQProducer. It does the local "
                "work and answers the broker's questions about it",
                topic=message.topic,
            )
        prepared = self._prepared(message)
        self._count(1)
        try:
            result = self._send_half(prepared, timeout)
            state, remark = LocalTransactionState.ROLLBACK_MESSAGE, None
            if result.send_status is SendStatus.SEND_OK:
                message.transaction_id = result.msg_id
                state, remark = _outcome(
                    lambda: questions.execute(message, arg),
                    "executeLocalTransactionBranch exception",
                    message,
                )
            self._end(engine, message, result, state, remark)
        finally:
            self._count(-1)
        values = {item.name: getattr(result, item.name) for item in fields(SendResult)}
        return TransactionSendResult(**values, local_transaction_state=state)

    def register_end_transaction_hook(self, hook: EndTransactionHook) -> None:
        """Show the outcome of every transaction to ``hook`` before the broker is told."""
        self._end_hooks.append(hook)

    def _prepared(self, message: Message) -> Message:
        """Return the half message: a copy, so that the caller's can be sent again as it is."""
        if isinstance(message, MessageBatch):
            raise UnsupportedOperationError("a batch cannot be a transaction: send one by one")
        check_message(message, self.config)
        give_id(message)
        prepared = copy.copy(message)
        if has_delay(prepared.properties) and self.transaction_delay != "at_commit":
            name = next(name for name in prepared.properties if name in DELAY_PROPERTIES)
            if self.transaction_delay == "error":
                raise DelayConflictError(
                    name,
                    prepared.properties[name],
                    "a message of a transaction cannot be delayed: remove the delay, or choose "
                    'transaction_delay="drop" or "at_commit"',
                )
            for name in DELAY_PROPERTIES:
                prepared.properties.pop(name, None)
        prepared.properties[Prop.TRAN_MSG] = "true"
        prepared.properties[Prop.PGROUP] = self.producer_group
        return prepared

    def _send_half(self, prepared: Message, timeout: int | timedelta | None) -> SendResult:
        try:
            return self.send(prepared, timeout=timeout)
        except (MQClientException, ClientClosedError):
            raise
        except RocketMQError as error:
            raise MQClientException(
                f"the half message was not stored: {error}",
                response_code=error.response_code,
                topic=prepared.topic,
            ) from error

    def _end(
        self,
        engine: ProducerEngine,
        message: Message,
        result: SendResult,
        state: LocalTransactionState,
        remark: str | None,
    ) -> None:
        """Tell the broker that stored the half message; a failure is logged: it will ask."""
        try:
            self._tell(
                engine,
                engine.kernel.address_of(result.message_queue),
                message,
                state,
                remark,
                self.config.send_msg_timeout,
                tran_state_table_offset=result.queue_offset,
                commit_log_offset=decode_offset_id(result.offset_msg_id)[2],
                msg_id=result.msg_id,
                transaction_id=result.transaction_id,
                topic=message.topic,
                broker_name=result.message_queue.broker_name,
            )
        except (RocketMQError, ValueError) as error:
            _log.warning(
                "the broker was not told about a transaction, it will ask state=%s id=%s: %s",
                state.value,
                result.msg_id,
                error,
            )

    # --- being asked -----------------------------------------------------------------------

    def _asked(self, engine: ProducerEngine, check: TransactionCheck) -> None:
        """Take a question on the thread that reads requests; the listener runs elsewhere."""
        self._count(1)
        if self._executor is not None:
            self._ask_on(self._executor, engine, check)
        elif self._checks is None or not self._checks.submit(self._answer, engine, check):
            self._count(-1)
            _log.warning(
                "transaction check dropped group=%s id=%s: %d wait already "
                "(check_request_hold_max); the broker asks again",
                self.producer_group,
                check.message.msg_id,
                self._hold_max,
            )

    def _ask_on(self, executor: Executor, engine: ProducerEngine, check: TransactionCheck) -> None:
        try:
            future = executor.submit(self._ask_listener, engine, check)
        except RuntimeError as error:
            self._count(-1)
            _log.warning("transaction check dropped: the executor takes no work: %s", error)
        else:
            future.add_done_callback(lambda _: self._count(-1))

    def _answer(self, engine: ProducerEngine, check: TransactionCheck) -> None:
        try:
            self._ask_listener(engine, check)
        finally:
            self._count(-1)

    def _ask_listener(self, engine: ProducerEngine, check: TransactionCheck) -> None:
        """Ask the listener and tell the broker, also that nothing is known yet."""
        address, asked, message = check
        questions = self._questions
        if questions is None:
            _log.warning("transaction check of %s: there is no listener", message.msg_id)
            return

        def ask() -> LocalTransactionState | None:
            # Only now: thousands of questions may wait, and small bodies can become large ones.
            nonlocal message
            message = message.unpacked(self.config.decompressed_body_max_bytes)
            return questions.check(message)

        state, remark = _outcome(ask, "checkLocalTransactionState Exception", message)
        try:
            self._tell(
                engine,
                address,
                message,
                state,
                remark,
                CHECK_ANSWER_TIMEOUT_MS,
                tran_state_table_offset=asked.tran_state_table_offset,
                commit_log_offset=asked.commit_log_offset,
                from_transaction_check=True,
                msg_id=message.msg_id,
                transaction_id=asked.transaction_id,
                topic=asked.topic,
                broker_name=asked.broker_name,
            )
        except RocketMQError as error:
            _log.warning(
                "answer to a transaction check failed id=%s: %s; the broker asks again",
                message.msg_id,
                error,
            )

    # --- both ------------------------------------------------------------------------------

    def _count(self, change: int) -> None:
        with self._count_lock:
            self._undecided += change

    def _is_busy(self) -> str | None:
        """Say how many transactions are being worked on: what a settling test clock waits for."""
        count = self._undecided
        return f"producer {self.producer_group}: {count} transactions undecided" if count else None

    def _tell(
        self,
        engine: ProducerEngine,
        address: str,
        message: Message,
        state: LocalTransactionState,
        remark: str | None,
        timeout_ms: int,
        **fields: Any,  # of the header; each has a type of its own
    ) -> None:
        """Show an outcome to the hooks, and tell it to the broker (37)."""
        header = EndTransactionRequestHeader(
            producer_group=self.producer_group, commit_or_rollback=_NUMBER_OF[state], **fields
        )
        if self._end_hooks:
            context = EndTransactionContext(
                producer_group=self.producer_group,
                message=message,
                message_id=header.msg_id or "",
                broker_address=address,
                state=state,
                from_check=header.from_transaction_check is True,
            )
            for hook in self._end_hooks:
                try:
                    hook.end(context)
                except Exception:  # noqa: BLE001 - a hook cannot break transactions
                    _log.exception("end-transaction hook failed hook=%r", hook)
        command = RemotingCommand(
            RequestCode.END_TRANSACTION, ext_fields=header.to_ext(), remark=remark
        )
        engine.instance.remoting.invoke_oneway(address, command, timeout_ms)


def _questions_of(listener: object) -> _Questions:
    """Find the two methods of a listener; TypeError when one is missing or cannot be called."""
    if isinstance(listener, type):
        raise TypeError(
            f"{listener.__name__} is a class: pass an object of it as transaction_listener"
        )
    return _Questions(
        _method(listener, "execute_local_transaction", "executeLocalTransaction"),
        _method(listener, "check_local_transaction", "checkLocalTransaction"),
    )


def _method(listener: object, name: str, java_name: str) -> Any:  # Any: a foreign program's method
    for known in (name, java_name):
        method = getattr(listener, known, None)
        # A subclass of the protocol that has Java's names inherits empty methods of the others.
        is_empty = getattr(method, "__func__", method) is vars(TransactionListener).get(known)
        if callable(method) and not is_empty:
            return method
    raise TypeError(
        f"{type(listener).__name__} is no transaction_listener: it has no method {name}, see "
        "TransactionListener"
    )


def _outcome(
    ask: Callable[[], LocalTransactionState | None], trouble: str, message: Message
) -> tuple[LocalTransactionState, str | None]:
    """Ask the application; None and exceptions are `UNKNOW`, the latter with a remark."""
    try:
        state = ask()
        if state is None:
            _log.warning(
                "the transaction listener returned None for id=%s topic=%s, which counts as "
                "UNKNOW, so the broker asks again: return a LocalTransactionState",
                message.transaction_id,
                message.topic,
            )
            return LocalTransactionState.UNKNOW, None
        if isinstance(state, LocalTransactionState):
            return state, None
        raise TypeError(f"a LocalTransactionState is needed, not {state!r}")  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - the application's; the broker is told
        _log.exception(
            "the transaction listener failed for id=%s topic=%s; its answer counts as UNKNOW",
            message.transaction_id,
            message.topic,
        )
        return LocalTransactionState.UNKNOW, f"{trouble}: {type(error).__name__}: {error}"
