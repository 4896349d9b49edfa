"""Transactions of ONS: messages that consumers see only if the sender's own work succeeded.

A thin translator over `rocketmq_py.TransactionMQProducer`, whose one listener does the work of each
send's own executer. Names as in ``com.aliyun.openservices.ons.api.transaction``. Must not know how
a half message is stored and ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import ClassVar, Final, NamedTuple, Protocol, TypeAlias

import rocketmq_py
from compat.ons.client import Client, misfit
from compat.ons.message import Message, from_core
from compat.ons.producer import refuse_delay, sending
from compat.ons.properties import PropertyKeyConst, int_of
from compat.ons.sending import SendResult
from compat.ons.settings import TRANSACTION_PRODUCER, ClientKind, producer_settings
from rocketmq_py import LocalTransactionState, MessageExt, SendStatus, TransactionMQProducer
from rocketmq_py.errors import ONSClientException

logger = logging.getLogger(__name__)

_IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"


class TransactionStatus(Enum):
    """What a program says about its own work.

    An exception counts as Unknow. So does everything that is no TransactionStatus, and the log says
    so.
    """

    CommitTransaction = 0
    """Consumers get the message."""
    RollbackTransaction = 1
    """Nobody gets it."""
    Unknow = 2
    """The broker asks the checker, later."""
    COMMIT_TRANSACTION = CommitTransaction
    ROLLBACK_TRANSACTION = RollbackTransaction
    UNKNOW = Unknow


_STATES: Final = {
    TransactionStatus.CommitTransaction: LocalTransactionState.COMMIT_MESSAGE,
    TransactionStatus.RollbackTransaction: LocalTransactionState.ROLLBACK_MESSAGE,
    TransactionStatus.Unknow: LocalTransactionState.UNKNOW,
}


class LocalTransactionExecuter:
    """Does the local work of one send: override `execute`, or pass a callable."""

    _execute: Callable[[Message, object], TransactionStatus] | None = None

    def __init__(
        self, execute: Callable[[Message, object], TransactionStatus] | None = None
    ) -> None:
        self._execute = execute

    def execute(self, message: Message, arg: object) -> TransactionStatus:
        """Do the work, on the thread that sends; ``message.msg_id`` names the transaction."""
        if self._execute is None:
            raise ONSClientException(
                f"{type(self).__name__} has no execute: override it, or pass a callable"
            )
        return self._execute(message, arg)


class LocalTransactionChecker:
    """Says what became of earlier work: override `check`, or pass a callable."""

    _check: Callable[[Message], TransactionStatus] | None = None

    def __init__(self, check: Callable[[Message], TransactionStatus] | None = None) -> None:
        self._check = check

    def check(self, message: Message) -> TransactionStatus:
        """Look it up, by ``message.msg_id``. Called on another thread, perhaps after a restart."""
        if self._check is None:
            raise ONSClientException(
                f"{type(self).__name__} has no check: override it, or pass a callable"
            )
        return self._check(message)


class _Executer(Protocol):
    def execute(self, message: Message, arg: object, /) -> TransactionStatus: ...


class _Checker(Protocol):
    def check(self, message: Message, /) -> TransactionStatus: ...


ExecuterLike: TypeAlias = _Executer | Callable[[Message, object], TransactionStatus]
"""Everything that ``TransactionProducer.send`` takes as its executer."""
CheckerLike: TypeAlias = _Checker | Callable[[Message], TransactionStatus]
"""Everything that ``ONSFactory.create_transaction_producer`` takes as its checker."""


class _Work(NamedTuple):
    """The local work of one send, as it travels through the SDK as ``arg``."""

    message: Message
    execute: Callable[[Message, object], object]
    arg: object


class _Listener:
    """The one listener of the SDK's producer."""

    def __init__(self, check: Callable[[Message], object]) -> None:
        self._check = check

    def execute_local_transaction(
        self, message: rocketmq_py.Message, arg: object
    ) -> LocalTransactionState:
        """Do the work of the send that is under way."""
        if not isinstance(arg, _Work):
            raise ONSClientException("send with TransactionProducer.send, not with its core")
        arg.message.msg_id = message.transaction_id
        return _state(arg.execute(arg.message, arg.arg), "executer", arg.message)

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Ask the checker."""
        asked = from_core(message)
        return _state(self._check(asked), "checker", asked)


class TransactionProducer(Client):
    """Sends messages whose delivery depends on local work.

    Made by `ONSFactory.create_transaction_producer` with a checker, which answers later questions
    of the broker. Every producer of a GROUP_ID must be able to answer for the others, and one must
    be alive then. Failures are `ONSClientException`, as of every producer.
    """

    _KIND: ClassVar[ClientKind] = TRANSACTION_PRODUCER

    def __init__(self, properties: Mapping[str, object], checker: CheckerLike | None) -> None:
        self._checker = None if checker is None else _method(checker, "check", "checker", "message")
        super().__init__(properties)

    def _make(self) -> None:
        settings = producer_settings(self._KIND, self.properties, self._access)
        if self._checker is not None:
            settings["transaction_listener"] = _Listener(self._checker)
        # A delay is refused by `send`, unless the caller allows it.
        self._producer = TransactionMQProducer(**settings, transaction_delay="at_commit")
        self._immunity_s = int_of(self.properties, PropertyKeyConst.CheckImmunityTimeInSeconds, 0)
        if self._immunity_s < 0:
            raise ONSClientException(
                f"property {PropertyKeyConst.CheckImmunityTimeInSeconds} = {self._immunity_s} must "
                "not be negative"
            )

    @property
    def core(self) -> TransactionMQProducer:
        """The client of the SDK."""
        return self._producer

    def start(self) -> None:
        """Start, as every client; ValueError without a checker."""
        if self._checker is None:
            raise ValueError(
                "there is no checker: pass one to create_transaction_producer, which answers the "
                "broker's questions about transactions"
            )
        super().start()

    def send(
        self,
        message: Message,
        executer: ExecuterLike,
        arg: object = None,
        *,
        allow_delay: bool = False,
    ) -> SendResult:
        """Store the message unseen, let ``executer`` do the local work, and tell the broker.

        A commit makes it visible. After a rollback, and when the broker has not stored it safely,
        raises ONSClientException; after Unknow, an exception included, the broker asks the checker.
        Raises `DelayConflictError`, a ValueError, for a delayed message unless ``allow_delay``: an
        embedded broker starts the delay at the commit, a real one of 5.x loses such a message.
        """
        execute = _method(executer, "execute", "executer", "message", "arg")
        self.check_running()
        with sending(message) as core:
            refuse_delay(core, allow_delay=allow_delay, what="a message of a transaction")
            if self._immunity_s:
                core.put_user_property(_IMMUNITY, str(self._immunity_s))
            result = self._producer.send_message_in_transaction(core, _Work(message, execute, arg))
        if result.local_transaction_state is LocalTransactionState.ROLLBACK_MESSAGE:
            is_unsafe = result.send_status is not SendStatus.SEND_OK
            why = (
                f"it was not stored safely: {result.send_status.value}" if is_unsafe else "as said"
            )
            raise ONSClientException(
                f"the transaction is rolled back ({why}), nobody gets the message "
                f"(topic={message.topic}, msgId={message.msg_id})",
                topic=message.topic,
                message_id=message.msg_id,
            )
        return SendResult(message.topic, result.msg_id)


def _state(answer: object, who: str, message: Message) -> LocalTransactionState:
    # A foreign program may return anything, whatever its annotation says.
    if isinstance(answer, TransactionStatus):
        return _STATES[answer]
    logger.warning(
        "the %s returned %s instead of a TransactionStatus for message %s of topic %s, which "
        "counts as Unknow: return TransactionStatus.CommitTransaction",
        who,
        "None" if answer is None else f"{answer!r:.40}, a {type(answer).__name__},",
        message.msg_id,
        message.topic,
    )
    return LocalTransactionState.UNKNOW


def _method(given: object, name: str, what: str, *arguments: str) -> Callable[..., object]:
    """Find what a program has passed: an object with a method of this name, or a callable."""
    if isinstance(given, type):
        raise TypeError(f"{given.__name__} is a class: pass an object of it as the {what}")
    # A name from a foreign program: what it is, is looked at here.
    method = getattr(given, name, None)
    for one in (method, given):
        if callable(one):
            found: Callable[..., object] = one
            wrong = misfit(found, what, *arguments)
            if wrong is not None:
                raise TypeError(wrong)
            return found
    raise TypeError(
        f"{type(given).__name__} is no {what}: pass a callable, or an object with {name}"
    )
