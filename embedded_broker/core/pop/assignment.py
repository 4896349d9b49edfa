"""Queue assignment by the broker: which queues a consumer gets, to pull or to pop.

RocketMQ's QueryAssignmentProcessor. Who pops gets all queues of a broker as one, or shares queues
with its neighbours; who pulls gets its part as clients compute it themselves. Must not know:
bodies, where brokers are registered.
"""

from collections.abc import Callable, Sequence
from typing import Final

from attrs import define

from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.consumers.request_modes import RequestModeTable
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.heartbeat import BROADCASTING
from rocketmq_py.protocol.bodies.pop import (
    POP,
    PULL,
    MessageRequestMode,
    QueryAssignmentRequest,
    QueueAssignment,
)
from rocketmq_py.protocol.names import is_retry_topic

ALL_QUEUES: Final = -1
Queues = list[MessageQueueKey]


def in_blocks(client: str, clients: Sequence[str], queues: Queues) -> Queues:
    """Give a client its neighbouring queues (AllocateMessageQueueAveragely)."""
    if client not in clients:
        return []
    at, (each, over) = clients.index(client), divmod(len(queues), len(clients))
    begin = at * each + min(at, over)
    return queues[begin : begin + each + (at < over)]


def in_turn(client: str, clients: Sequence[str], queues: Queues) -> Queues:
    """Give a client one queue in turn with the others (AllocateMessageQueueAveragelyByCircle)."""
    return queues[clients.index(client) :: len(clients)] if client in clients else []


STRATEGIES: Final = {"AVG": in_blocks, "AVG_BY_CIRCLE": in_turn}


@define(eq=False, kw_only=True)
class Assignment:
    """Distributes queues. Used under the door.

    `queues_of` gives the queues of a topic that may be read, on all brokers; None without any.
    """

    _env: Environment
    _tables: Tables
    modes: RequestModeTable
    _queues_of: Callable[[str], Queues | None]

    def put_mode(self, mode: MessageRequestMode) -> None:
        """Set how a group gets the messages of a topic."""
        if mode.mode not in {PULL, POP}:
            raise Refused(Reason.FAILED, f"mode[{mode.mode}] is none of PULL and POP")
        if not mode.topic or not mode.consumer_group:
            raise Refused(Reason.FAILED, "topic and consumerGroup are required")
        if is_retry_topic(mode.topic):
            raise Refused(Reason.NO_PERMISSION, "retry topic is not allowed to set mode")
        if mode.topic not in self._tables.topics:
            raise Refused(Reason.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist")
        if self._tables.groups.find(mode.consumer_group) is None:
            raise Refused(Reason.GROUP_NOT_EXIST, "subscription group does not exist")
        self.modes.put(mode)

    def mode_of(self, topic: str, group: str) -> MessageRequestMode:
        """Give how a group gets the messages of a topic; those of a retry topic are pulled."""
        mode = self.modes.find(topic, group)
        if mode is not None:
            return mode
        share = self._env.config.int("defaultPopShareQueueNum")
        kind = PULL if is_retry_topic(topic) else self._env.config.text("defaultMessageRequestMode")
        return MessageRequestMode(topic, group, kind, share if kind == POP else 0)

    def assign(self, asked: QueryAssignmentRequest) -> list[QueueAssignment] | None:
        """Give a client its queues; None lets it keep those that it has."""
        if not asked.topic or not asked.consumer_group:
            raise Refused(Reason.FAILED, "topic and consumerGroup are required")
        mode = self.mode_of(asked.topic, asked.consumer_group)
        queues = self._of(asked, mode)
        if queues is None:
            return None
        return [QueueAssignment(queue, mode.mode) for queue in dict.fromkeys(queues)]

    def _of(self, asked: QueryAssignmentRequest, mode: MessageRequestMode) -> Queues | None:
        queues = self._queues_of(asked.topic)
        if queues is None or asked.message_model == BROADCASTING:
            return queues
        if not self._env.config.flag("serverLoadBalancerEnable"):
            return queues
        live = self._tables.consumers.get(asked.consumer_group)
        choose = STRATEGIES.get(asked.strategy_name)
        if live is None or choose is None:
            return None
        clients = sorted(live.client_ids())
        queues.sort()
        if mode.mode == PULL:
            return choose(asked.client_id, clients, queues)
        shared = mode.pop_share_queue_num
        if shared <= 0 or shared >= len(clients) - 1:
            return [queue._replace(queue_id=ALL_QUEUES) for queue in queues]
        if asked.client_id not in clients:
            return []
        at = clients.index(asked.client_id)
        if len(clients) > len(queues):
            return [queues[at % len(queues)]]  # so that each has one
        behind = [clients[(at + step) % len(clients)] for step in range(shared + 1)]
        return [queue for client in behind for queue in choose(client, clients, queues)]
