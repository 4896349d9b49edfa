"""Queue order of a pop: which queues it looks at, in which order, and where it waits.

Must not know: what lies in the queues. Read on: `service.py`, `peeks.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from attrs import define

from embedded_broker.core.environment import Environment
from embedded_broker.core.pop.pop_values import Pop, Popped
from embedded_broker.core.waiters import Waiters
from embedded_broker.tables.topics.table import TopicTable
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.pop_handles import pop_retry_topic

ANY_QUEUE: Final = -1


@define(eq=False, kw_only=True)
class QueueOrder:
    """The queues of pops. Used under the door."""

    _env: Environment
    _topics: TopicTable
    _waiters: Waiters

    def walk(self, pop: Pop, topic: TopicConfig, popped: Popped) -> Iterator[tuple[str, int]]:
        """Give the queues in the order in which a pop looks at them.

        In one answer messages of one retry topic only can be told apart from the others, so a
        broker with both kinds chooses one.
        """
        turn = self._env.random.randrange(100)
        retries_first = turn < self._env.config.int("popFromRetryProbability")
        retry_topic = self._retry_topic(pop, turn)
        if retries_first and not pop.is_ordered:
            yield from self._queues(retry_topic, turn)
        if pop.queue_id < 0:
            yield from self._queues(topic.topic_name, turn)
        else:
            yield topic.topic_name, pop.queue_id
        if not retries_first and not pop.is_ordered and popped.count < pop.max_count:
            yield from self._queues(retry_topic, turn)

    def _retry_topic(self, pop: Pop, turn: int) -> str:
        v2 = self._env.config.flag("enableRetryTopicV2")
        if v2 and self._env.config.flag("retrieveMessageFromPopRetryTopicV1") and turn % 2 == 0:
            v2 = False
        return pop_retry_topic(pop.topic, pop.group, v2=v2)

    def _queues(self, name: str, turn: int) -> Iterator[tuple[str, int]]:
        topic = self._topics.get(name)
        queues = 0 if topic is None else topic.read_queue_nums
        for number in range(queues):
            yield name, (turn + number) % queues

    def awaited(self, pop: Pop) -> Mapping[tuple[str, int], int]:
        """Give the queues at which a pop waits, whatever lies there."""
        topic = self._topics.get(pop.topic)
        queues = 0 if topic is None else topic.read_queue_nums
        wanted = range(queues) if pop.queue_id < 0 else [pop.queue_id]
        places = {(pop.topic, queue_id): 0 for queue_id in wanted}
        if not pop.is_ordered:
            for v2 in (False, True):
                name = pop_retry_topic(pop.topic, pop.group, v2=v2)
                retries = self._topics.get(name)
                for queue_id in range(1 if retries is None else retries.read_queue_nums):
                    places[name, queue_id] = 0
        return places

    def has_room(self, place: str) -> bool:
        """Say whether one more may wait at a place."""
        config, waiters = self._env.config, self._waiters
        return waiters.count_at(place) <= config.int("popPollingSize") and len(
            waiters
        ) < config.int("maxPopPollingSize")


def place_of(group: str, topic: str, queue_id: int) -> str:
    """Name where pops of a group wait together (KeyBuilder.buildPollingKey)."""
    return f"{topic}@{group}@{max(queue_id, ANY_QUEUE)}"
