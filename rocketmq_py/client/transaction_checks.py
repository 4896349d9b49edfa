"""Who answers when a broker asks what became of a transaction: request 39.

``ClientRemotingProcessor.checkTransactionState``: the stored half message in the body names the
producer group, and the producer of that group here is asked. Must not know what it answers; that is
``producer/transaction.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rocketmq_py.logs import get_logger

if TYPE_CHECKING:
    from rocketmq_py.message import MessageExt
    from rocketmq_py.protocol.command import RemotingCommand
    from rocketmq_py.protocol.headers.send import CheckTransactionStateRequestHeader

_log = get_logger(__name__)


class TransactionCheck(NamedTuple):
    """One question of a broker: its address, its header, and the half message as it is stored."""

    address: str
    header: CheckTransactionStateRequestHeader
    message: MessageExt


Answerer: TypeAlias = Callable[[TransactionCheck], object]


class TransactionChecks:
    """The producers of one client that can answer, by group. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answerers: dict[str, Answerer] = {}

    def register(self, group: str, answerer: Answerer) -> None:
        """Let ``answerer`` have the questions about a group; it must not block for long."""
        with self._lock:
            self._answerers[group] = answerer

    def unregister(self, group: str) -> None:
        """Forget a group; its questions are dropped from now on, and asked again elsewhere."""
        with self._lock:
            self._answerers.pop(group, None)

    def serve(self, address: str, command: RemotingCommand) -> None:
        """Hand a request 39 to the producer that it concerns; nobody there: logged and dropped.

        The broker asks again, so nothing is lost. Raises `RemotingCommandException` for a request
        that cannot be read.
        """
        from rocketmq_py.message import MessageExt
        from rocketmq_py.protocol.headers.send import CheckTransactionStateRequestHeader
        from rocketmq_py.protocol.message_codec import decode_record
        from rocketmq_py.protocol.properties import Prop

        header = CheckTransactionStateRequestHeader.from_ext(command.ext_fields)
        record = decode_record(command.body)
        message = MessageExt.as_stored(record, header.broker_name or "")
        message.transaction_id = message.properties.get(Prop.UNIQ_KEY)
        group = message.properties.get(Prop.PGROUP, "")
        with self._lock:
            answerer = self._answerers.get(group)
        if answerer is None:
            _log.warning(
                "transaction check dropped group=%r topic=%s: no TransactionMQProducer of this "
                "group runs in this client",
                group,
                message.topic,
            )
            return
        answerer(TransactionCheck(address, header, message))
