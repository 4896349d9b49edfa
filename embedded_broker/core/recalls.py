"""How a timer message is taken back by its handle.

RocketMQ's RecallMessageProcessor behind its header: its checks in its order, one row each as far as
they concern the broker, those of the handle in ``timer/recall.py``; then a delete mark is stored, a
timer message of the victim's slot that removes it. Success means that the mark was accepted:
recalling twice, or an unknown id, succeeds as well. Must not know: headers, response codes.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from embedded_broker.core.put_reasons import STORED
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.message_store import MessageStore
from embedded_broker.tables.peer import Peer
from embedded_broker.tables.topics.table import TopicTable
from embedded_broker.timer.recall import check_handle, delete_message
from rocketmq_py.errors import RemotingCommandException
from rocketmq_py.protocol.codes import PERM_WRITE
from rocketmq_py.protocol.handles import RecallHandle

__all__ = ["Recalled", "Recalls"]


class Recalled(NamedTuple):
    """The UNIQ_KEY of what was recalled, and the end of its mark in the log."""

    unique_key: str
    synced_at: int


class Recalls:
    """Stores delete marks for pending timers. Used under the door."""

    def __init__(
        self, *, broker_name: str, config: BrokerConfig, store: MessageStore, topics: TopicTable
    ) -> None:
        self.broker_name = broker_name
        self.config = config
        self.store = store
        self.topics = topics

    def recall(
        self, topic: str, handle_text: str, producer_group: str | None, peer: Peer
    ) -> Recalled:
        """Store a mark; `Refused` by the first check that fails."""
        for reason, fails in _BEFORE_THE_HANDLE:
            problem = fails(self, topic)
            if problem is not None:
                raise Refused(reason, f"recall failed, {problem}")
        now_ms = self.store.clock.now_ms
        handle = self._handle(topic, handle_text, now_ms)
        mark = delete_message(
            handle, producer_group=producer_group, now_ms=now_ms, born_host=peer.packed_remote
        )
        result = self.store.put(mark)
        if result.status not in STORED:
            problem = f"execute error: {result.status.name} {result.remark or ''}".rstrip()
            raise Refused(Reason.FAILED, f"recall failed, {problem}")
        return Recalled(handle.uniq_key, result.commit_log_offset + result.size)

    def _handle(self, topic: str, text: str, now_ms: int) -> RecallHandle:
        """Read the handle and refuse what is not of this topic, broker and time."""
        try:
            handle = RecallHandle.decode(text)
        except RemotingCommandException as error:
            raise Refused(Reason.ILLEGAL_OPERATION, f"recall failed, {error}") from error
        problem = check_handle(
            handle,
            topic=topic,
            broker_name=self.broker_name,
            now_ms=now_ms,
            max_delay_sec=self.config.int("timerMaxDelaySec"),
        )
        if problem is not None:
            raise Refused(Reason.ILLEGAL_OPERATION, problem)
        return handle


def _is_forbidden(recalls: Recalls, _topic: str) -> str | None:
    if recalls.config.flag("recallMessageEnable"):
        return None
    return "operation is forbidden: recallMessageEnable=false"


def _is_slave(recalls: Recalls, _topic: str) -> str | None:
    role = recalls.config.text("brokerRole")
    return f"broker service not available: brokerRole={role}" if role == "SLAVE" else None


def _is_closed(recalls: Recalls, _topic: str) -> str | None:
    """Refuse while the store does not take messages: starting or shutting down."""
    return None if recalls.store.is_open else "broker service not available: it is not running"


def _is_read_only(recalls: Recalls, _topic: str) -> str | None:
    perm = recalls.config.int("brokerPermission")
    if perm & PERM_WRITE or recalls.config.flag("allowRecallWhenBrokerNotWriteable"):
        return None
    return (
        f"broker service not available: brokerPermission={perm} has no write bit (2) and "
        "allowRecallWhenBrokerNotWriteable=false"
    )


def _has_no_topic(recalls: Recalls, topic: str) -> str | None:
    return None if topic in recalls.topics else f"the topic[{topic}] not exist"


_BEFORE_THE_HANDLE: Final[tuple[tuple[Reason, Callable[[Recalls, str], str | None]], ...]] = (
    (Reason.NO_PERMISSION, _is_forbidden),
    (Reason.SLAVE_NOT_AVAILABLE, _is_slave),
    (Reason.SERVICE_NOT_AVAILABLE, _is_closed),
    (Reason.SERVICE_NOT_AVAILABLE, _is_read_only),
    (Reason.TOPIC_NOT_EXIST, _has_no_topic),
)
