"""Which queues belong to a consumer that pops: as their broker assigns them, or all of them.

`ByBroker` asks a broker of each topic (400), which also says whether an administrator has set that
the group pops it. A broker that does not know the request leaves its topic to the strategy of the
group. `EveryBroker` asks nobody. It must not know lanes or fetches. Facts:
``RebalanceImpl.getRebalanceResultFromBroker``, the proxy's ``RouteActivity.queryAssignment``.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from attrs import define, field

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.pop_calls import ALL_QUEUES, PopCalls, read_assignments
from rocketmq_py.consumer.core.shares import LEAST_S, Everything, Mine, Share, StrategySettings
from rocketmq_py.errors import MQBrokerException, RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.pop import POP
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.send_result import MessageQueue

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance

logger = get_logger(__name__)


@define(eq=False, repr=False, kw_only=True)
class ByBroker:
    """The assignments of one consumer. `pops` may be called by any thread.

    ``in_order``: all queues of a broker, which it assigns as one, are popped one by one, so that
    none waits for what is not handled in another.
    """

    _engine: ClientInstance
    _group: str
    _calls: PopCalls
    _settings: StrategySettings
    _by_strategy: Share
    _in_order: bool = False
    _deadline: float = field(default=0.0, init=False)
    _left_to_strategy: set[str] = field(factory=set, init=False)
    _assigned: dict[str, Mine] = field(factory=dict, init=False)

    def begin(self, deadline: float) -> None:
        """Begin a round of questions."""
        self._deadline = deadline
        self._by_strategy.begin(deadline)

    def of(self, topic: str, queues: tuple[MessageQueue, ...]) -> Mine | None:
        """Ask a broker; what it assigned before holds while it does not know this member."""
        if topic not in self._left_to_strategy:
            try:
                return self._ask(topic, queues)
            except MQBrokerException as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                logger.warning(
                    "group %s: brokers of topic %s assign no queues (%s), so its members divide "
                    "them by allocate_strategy and pull",
                    self._group,
                    topic,
                    error,
                )
                self._left_to_strategy.add(topic)
                self._assigned.pop(topic, None)
        return self._by_strategy.of(topic, queues)

    def pops(self, queue: MessageQueue) -> bool:
        """Whether the queue was assigned to be popped."""
        mine = self._assigned.get(queue.topic)
        return mine is not None and queue in mine.popped

    def waits(self) -> dict[str, float]:
        """Return the topics of which members are better asked later."""
        return self._by_strategy.waits()

    def keep_only(self, topics: AbstractSet[str]) -> None:
        """Forget all other topics."""
        self._left_to_strategy &= topics
        for topic in self._assigned.keys() - topics:
            del self._assigned[topic]
        self._by_strategy.keep_only(topics)

    def _ask(self, topic: str, queues: tuple[MessageQueue, ...]) -> Mine:
        left_s = max(LEAST_S, self._deadline - monotonic())
        answer = self._calls.ask_assignments(
            topic,
            self._settings.allocate_strategy.name,
            timeout_ms=min(left_s * 1000, self._settings.mq_client_api_timeout),
        )
        assigned = read_assignments(answer.result(), topic)
        before = self._assigned.get(topic)
        if assigned is None:
            if before is not None and not before.listed:  # once is what follows from a heartbeat
                problem = RocketMQError("its broker assigns no queues to a group that it lost")
                what = f"group {self._group}: assignment of {topic}"
                self._engine.unreachable.failed(topic, what, problem)
            mine = before or Mine([])
            mine = mine._replace(listed=False)
        else:
            meant = [
                (queue, one.mode)
                for one in assigned
                if one.queue.topic == topic
                for queue in self._meant(one.queue, queues)
            ]
            mine = Mine(
                sorted(queue for queue, _ in meant),
                popped={queue for queue, mode in meant if mode == POP},
            )
        self._assigned[topic] = mine
        return mine

    def _meant(
        self, queue: MessageQueue, queues: tuple[MessageQueue, ...]
    ) -> Sequence[MessageQueue]:
        """Return what an assigned queue stands for."""
        if not self._in_order or queue.queue_id != ALL_QUEUES:
            return [queue]
        return [one for one in queues if one.broker_name == queue.broker_name]


@define(eq=False, repr=False)
class EveryBroker(Everything):
    """Each member pops at every broker of a topic, and the brokers divide the messages.

    So a proxy lets its clients do. ``in_order``: queue by queue, as `ByBroker`.
    """

    _in_order: bool = False

    def of(self, topic: str, queues: tuple[MessageQueue, ...]) -> Mine | None:
        """Return one queue that stands for all of each broker, or in order all queues."""
        if self._in_order:
            mine = set(queues)
        else:
            mine = {MessageQueue(topic, one.broker_name, ALL_QUEUES) for one in queues}
        return Mine(sorted(mine), popped=mine)

    def pops(self, queue: MessageQueue) -> bool:
        """Whether the queue is popped: each is."""
        del queue
        return True
