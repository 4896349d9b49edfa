"""Recall requests: whether this broker takes recalls now, and what the caller is told.

RocketMQ's RecallMessageProcessor behind its header: its checks in its order, one row each as far as
they concern the broker, those of the handle in ``timer/recall.py``; then a delete mark is stored, a
timer message of the victim's slot that removes it. Success means that the mark was accepted:
recalling twice, or an unknown id, succeeds as well. Must not know: headers, response codes.
"""

from typing import NamedTuple

from attrs import define

from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.peer import Peer
from embedded_broker.tables.topics.table import TopicTable
from embedded_broker.timer.recall import check_handle, delete_message
from rocketmq_py.errors import RemotingCommandException
from rocketmq_py.protocol.codes import PERM_WRITE
from rocketmq_py.protocol.handles import RecallHandle


class Recalled(NamedTuple):
    """The UNIQ_KEY of what was recalled, and the end of its mark in the log."""

    unique_key: str
    synced_at: int


@define(eq=False, kw_only=True)
class Recalls:
    """Stores delete marks for pending timers. Used under the door."""

    _env: Environment
    _topics: TopicTable

    def recall(
        self, topic: str, handle_text: str, producer_group: str | None, peer: Peer
    ) -> Recalled:
        """Store a mark; `Refused` by the first check that fails."""
        self._check_broker(topic)
        now_ms = self._env.store.clock.now_ms
        handle = self._handle(topic, handle_text, now_ms)
        mark = delete_message(
            handle, producer_group=producer_group, now_ms=now_ms, born_host=peer.packed_remote
        )
        result = self._env.store.put(mark)
        if not result.status.is_stored:
            problem = f"execute error: {result.status.name} {result.remark or ''}".rstrip()
            raise Refused(Reason.FAILED, f"recall failed, {problem}")
        return Recalled(handle.uniq_key, result.commit_log_offset + result.size)

    def _check_broker(self, topic: str) -> None:
        """Refuse what concerns the broker and the topic, in the order of the original."""
        config = self._env.config
        role, perm = config.text("brokerRole"), config.int("brokerPermission")
        writable = perm & PERM_WRITE or config.flag("allowRecallWhenBrokerNotWriteable")
        away, trouble = "broker service not available", self._env.store.health.problem
        read_only = (
            f"{away}: brokerPermission={perm} has no write bit (2) and "
            "allowRecallWhenBrokerNotWriteable=false"
        )
        for passes, reason, problem in (
            (
                config.flag("recallMessageEnable"),
                Reason.NO_PERMISSION,
                "operation is forbidden: recallMessageEnable=false",
            ),
            (role != "SLAVE", Reason.SLAVE_NOT_AVAILABLE, f"{away}: brokerRole={role}"),
            # The store takes no messages while it starts or shuts down.
            (self._env.store.is_open, Reason.SERVICE_NOT_AVAILABLE, f"{away}: it is not running"),
            (trouble is None, Reason.SERVICE_NOT_AVAILABLE, f"{away}: {trouble}"),
            (writable, Reason.SERVICE_NOT_AVAILABLE, read_only),
            (topic in self._topics, Reason.TOPIC_NOT_EXIST, f"the topic[{topic}] not exist"),
        ):
            if not passes:
                raise Refused(reason, f"recall failed, {problem}")

    def _handle(self, topic: str, text: str, now_ms: int) -> RecallHandle:
        """Read the handle and refuse what is not of this topic, broker and time."""
        try:
            handle = RecallHandle.decode(text)
        except RemotingCommandException as error:
            raise Refused(Reason.ILLEGAL_OPERATION, f"recall failed, {error}") from error
        problem = check_handle(
            handle,
            topic=topic,
            broker_name=self._env.broker_name,
            now_ms=now_ms,
            max_delay_sec=self._env.config.int("timerMaxDelaySec"),
        )
        if problem is not None:
            raise Refused(Reason.ILLEGAL_OPERATION, problem)
        return handle
