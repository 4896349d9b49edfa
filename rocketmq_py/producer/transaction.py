"""Messages that consumers see only if the sender's own work succeeded.

``TransactionMQProducer`` of the original, the face with a listener: the message is stored where
nobody sees it, the local work runs, and the broker is told to deliver or to forget it. When it
hears nothing, it asks a producer of the group. Must not know how a half message is stored and
ended (``halves.py``), or on which threads a listener is asked (``checking.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, wait
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

from attrs import Attribute, define, field, fields, setters

from rocketmq_py.config import explained, must, one_of, setting, within
from rocketmq_py.errors import ConfigError, MQClientException, NotStartedError
from rocketmq_py.logs import get_logger
from rocketmq_py.message import Message, MessageExt
from rocketmq_py.producer.checking import Checking, decision_of
from rocketmq_py.producer.halves import AskedHalf, BegunHalf, Halves, TransactionDelay
from rocketmq_py.producer.producer import DefaultMQProducer
from rocketmq_py.producer.validation import checked_timeout
from rocketmq_py.send_result import LocalTransactionState, SendResult, TransactionSendResult

_log = get_logger(__name__)

CHECK_THREADS_MAX = 1_024


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


_an_executor = must(
    "be None or an executor",
    lambda value: value is None or callable(getattr(value, "submit", None)),
)


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

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **DefaultMQProducer.FIXED_BY_START,
        "executor": "",
        "check_thread_pool_min": "",
        "check_thread_pool_max": "",
        "check_request_hold_max": "",
    }

    transaction_listener: AnyTransactionListener | None = field(
        default=None, kw_only=True, metadata=setting(_a_listener)
    )
    executor: Executor | None = field(default=None, kw_only=True, metadata=setting(_an_executor))
    check_thread_pool_min: int = field(
        default=1, kw_only=True, metadata=setting(within(0, CHECK_THREADS_MAX))
    )
    check_thread_pool_max: int = field(
        default=1, kw_only=True, metadata=setting(within(1, CHECK_THREADS_MAX))
    )
    check_request_hold_max: int = field(default=2_000, kw_only=True, metadata=setting(within(1)))
    transaction_delay: TransactionDelay = field(
        default="error", kw_only=True, metadata=setting(one_of("error", "drop", "at_commit"))
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._check_threads()
        self._halves: Halves | None = None

    def _check_threads(self) -> None:
        least, most = self.check_thread_pool_min, self.check_thread_pool_max
        if least > most:
            limit = f"must not exceed check_thread_pool_max, which is {most}"
            raise ConfigError("check_thread_pool_min", least, limit)

    def __repr__(self) -> str:
        return f"TransactionMQProducer({self.producer_group!r}, {self._life.state})"

    @property
    def _questions(self) -> _Questions | None:
        listener = self.transaction_listener
        return None if listener is None else _questions_of(listener)

    # --- life ------------------------------------------------------------------------------

    def _start(self, *, check: bool) -> None:
        """Get ready to send and to be asked."""
        self._check_threads()
        super()._start(check=check)
        engine, life = self._running(), self._life
        self._halves = halves = Halves(engine, self._end_hooks)
        checking = Checking(
            halves,
            self._check,
            executor=self.executor,
            threads_max=self.check_thread_pool_max,
            hold_max=self.check_request_hold_max,
            schedule_after=engine.instance.schedule_after,
        )
        life.at_end(checking.close)
        checking.start(self.check_thread_pool_min)
        halves.answer_by(partial(self._asked, checking), life)
        # Brokers must know this producer before they ask, also when it sends nothing.
        engine.warm_up([self.config.create_topic_key])

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
        self._running()
        halves, questions = self._halves, self._questions
        if halves is None:
            raise NotStartedError(f"{self!r} is still starting")
        if questions is None:
            raise MQClientException(
                "no transaction_listener: pass one to TransactionMQProducer. It does the local "
                "work and answers the broker's questions about it",
                topic=message.topic,
            )
        timeout_ms = self.config.send_msg_timeout if timeout is None else checked_timeout(timeout)
        with halves.undecided.working():
            half = halves.begin_here(message, timeout_ms=timeout_ms, delay=self.transaction_delay)
            state, remark = half.state, None
            if state is None:
                state, remark = decision_of(
                    lambda: questions.execute(message, arg),
                    "executeLocalTransactionBranch exception",
                    message,
                )
                # It is handed over before this returns; the log says so if it is not.
                wait([half.end(state, remark=remark)])
        values = {item.name: getattr(half.result, item.name) for item in fields(SendResult)}
        return TransactionSendResult(**values, local_transaction_state=state)

    def begin(self, message: Message, *, timeout: int | timedelta | None = None) -> BegunHalf:
        """Store the message unseen and leave its end to the program: `BegunHalf.end`.

        For local work that is no call of a listener's method. What is not ended the broker asks
        about. ``timeout`` and errors as of `send_message_in_transaction`.
        """
        self._running()
        if self._halves is None:
            raise NotStartedError(f"{self!r} is still starting")
        timeout_ms = self.config.send_msg_timeout if timeout is None else checked_timeout(timeout)
        return self._halves.begin_here(message, timeout_ms=timeout_ms, delay=self.transaction_delay)

    # --- being asked -----------------------------------------------------------------------

    def _asked(self, checking: Checking, half: AskedHalf) -> None:
        if self._questions is None:
            _log.warning("transaction check of %s: there is no listener", half.message_id)
        else:
            checking.ask(half)

    def _check(self, message: MessageExt) -> LocalTransactionState | None:
        questions = self._questions
        if questions is None:
            raise MQClientException("the transaction_listener was taken away")
        return questions.check(message)


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
