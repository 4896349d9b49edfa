"""Checks that every request of the POP family must pass, in the order of the original.

The checks of PopMessageProcessor, AckMessageProcessor and ChangeInvisibleTimeProcessor. Must not
know: what is done then.
"""

from attrs import define

from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import PERM_READ

COUNT_MAX = 32
"""Most messages that one pop may ask for."""


@define(eq=False, kw_only=True)
class PopChecks:
    """Refuses what cannot be done."""

    _env: Environment
    _tables: Tables

    def broker(self, doing: str) -> None:
        """Refuse everything while the broker may not be read."""
        perm = self._env.config.int("brokerPermission")
        if not perm & PERM_READ:
            raise Refused(
                Reason.NO_PERMISSION,
                f"the broker[{self._env.address}] {doing} message is forbidden: "
                f"brokerPermission={perm} has no read bit (4)",
            )

    def count(self, wanted: int) -> None:
        """Refuse a pop of more messages than one check point can hold."""
        if not 0 <= wanted <= COUNT_MAX:
            bound = "greater than 32" if wanted > 0 else "less than 0"
            raise Refused(
                Reason.INVALID_PARAMETER,
                f"the broker[{self._env.address}] pop message's num is {bound}",
            )

    def timers(self) -> None:
        """Refuse to hide messages that could not come back."""
        if not self._env.config.flag("timerWheelEnable"):
            raise Refused(
                Reason.FAILED,
                f"the broker[{self._env.address}] pop message is forbidden because "
                "timerWheelEnable is false",
            )

    def topic(self, name: str) -> TopicConfig:
        """Give a topic that exists."""
        topic = self._tables.topics.get(name)
        if topic is None:
            raise Refused(Reason.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        return topic

    def source(self, name: str, queue_id: int, group: str, peer: Peer) -> TopicConfig:
        """Give a topic that may be read, has such a queue, and whose group may consume."""
        topic = self.topic(name)
        if not topic.perm & PERM_READ:
            raise Refused(
                Reason.NO_PERMISSION,
                f"the topic[{name}] peeking message is forbidden: its perm={topic.perm} has no "
                "read bit (4)",
            )
        if queue_id >= topic.read_queue_nums:
            raise Refused(Reason.INVALID_PARAMETER, _illegal_queue(topic, queue_id, peer))
        self._group(group)
        return topic

    def handed_out(
        self, name: str, queue_id: int, offset: int, peer: Peer, *, end_counts: bool
    ) -> None:
        """Refuse what names no message of a queue; `end_counts`: the next one may be named, too."""
        topic = self.topic(name)
        if not 0 <= queue_id < topic.read_queue_nums:
            raise Refused(Reason.MESSAGE_ILLEGAL, _illegal_queue(topic, queue_id, peer))
        low, high = (
            self._env.store.min_offset(name, queue_id),
            self._env.store.max_offset(name, queue_id),
        )
        if not low <= offset < high + end_counts:
            raise Refused(
                Reason.NO_MESSAGE,
                f"offset is illegal, key:{name}@{queue_id}, commit:{offset}, store:{low}~{high}",
            )

    def _group(self, name: str) -> SubscriptionGroupConfig:
        group = self._tables.groups.find(name)
        if group is None:
            raise Refused(
                Reason.GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist: autoCreateSubscriptionGroup is "
                "false or the name is not legal",
            )
        if not group.consume_enable:
            raise Refused(
                Reason.NO_PERMISSION,
                f"subscription group no permission, {name}: consumeEnable=false",
            )
        return group


def _illegal_queue(topic: TopicConfig, queue_id: int, peer: Peer) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{topic.topic_name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
        f"consumer:[{peer.remote[0]}:{peer.remote[1]}]"
    )
