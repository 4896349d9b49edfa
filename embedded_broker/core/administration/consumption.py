"""Consumption status: who reads what, and how far, as tools ask about topics and groups.

The part of RocketMQ's AdminBrokerProcessor behind mqadmin's reports. What may be long is given a
step at a time. Must not know: requests. Read on: `offsets.py` for the progress of one group.
"""

import json
from collections.abc import Collection, Generator
from typing import Final

from attrs import define

from embedded_broker.core.administration.offsets import GroupOffsets
from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.broker_tables import Tables
from rocketmq_py.protocol.bodies.consumption import (
    ConsumeQueueEntry,
    ConsumeQueueView,
    ConsumeStatsList,
    ConsumeTimeSpans,
    QueueTimeSpan,
)
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import ConsumerOffsets
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.bodies.topics import TopicConfig

_NEVER: Final = (1 << 63) - 1
ENTRIES_MAX: Final = 1_000
"""So many entries of a queue are shown at once."""


@define(eq=False, kw_only=True)
class Consumption:
    """Reports about the readers of one broker."""

    _env: Environment
    _tables: Tables
    _progress: GroupOffsets

    # -- who --------------------------------------------------------------------------------

    def readers_of(self, topic: str) -> list[str]:
        """Name the groups whose members subscribe to a topic, or that have committed in it."""
        names = dict.fromkeys(
            name
            for name in self._tables.consumers.groups()
            if self.subscription(name, topic) is not None
        )
        return list(names | dict.fromkeys(self._tables.offsets.readers().get(topic, ())))

    def topics_read_by(self, group: str) -> list[str]:
        """Name the topics in which a group has committed anything."""
        return self._tables.offsets.topics_of(group)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Give how the members of a group subscribe to a topic."""
        live = self._tables.consumers.get(group)
        return None if live is None else live.subscriptions.get(topic)

    # -- how far ----------------------------------------------------------------------------

    def all_offsets(self) -> Generator[None, None, ConsumerOffsets]:
        """Give everything that was committed, a group's topic in each step."""
        table = ConsumerOffsets()
        for key in list(self._tables.offsets.keys()):
            queues = self._tables.offsets.value(key)
            if queues is not None:
                table.offset_table[self._tables.offsets.name(key)] = queues
            yield
        return table

    def of_all_groups(self, *, ordered_only: bool) -> Generator[None, None, ConsumeStatsList]:
        """Give how far every group is in each of its topics, a queue in each step."""
        told = ConsumeStatsList(broker_addr=self._env.address)
        inflight = 0
        for group in [one.group_name for one in self._tables.groups]:
            rows = []
            for name in self._tables.offsets.topics_of(group):
                topic = self._tables.topics.get(name)
                if topic is None or (ordered_only and not topic.order):
                    continue
                if self._is_dropped(group, name):
                    continue
                stats = yield from self._progress.progress(group, [name])
                for one in stats.offset_table.values():
                    told.total_diff += one.broker_offset - one.consumer_offset
                    inflight += (one.pull_offset or 0) - one.consumer_offset
                rows.append(stats)
            told.consume_stats_list.append({group: rows})
        if self._env.profile.stats_have_put_tps:
            told.total_inflight_diff = inflight
        return told

    def _is_dropped(self, group: str, topic: str) -> bool:
        """Whether a group has members, and these have not subscribed to the topic."""
        live = self._tables.consumers.get(group)
        return live is not None and bool(live.subscriptions) and topic not in live.subscriptions

    def time_spans(self, topic: str, group: str) -> Generator[None, None, ConsumeTimeSpans]:
        """Tell how old what a group has still to read is, a queue in each step."""
        config = self._known(topic)
        spans = ConsumeTimeSpans()
        for queue_id in range(config.write_queue_nums):
            first = self._env.store.earliest_store_time(topic, queue_id)
            end = self._env.store.max_offset(topic, queue_id)
            committed = self._tables.offsets.query(group, topic, queue_id)
            span = QueueTimeSpan(
                message_queue=MessageQueueKey(topic, self._env.broker_name, queue_id),
                min_time_stamp=first,
                max_time_stamp=self._time_at(topic, queue_id, end - 1),
                consume_time_stamp=(
                    self._time_at(topic, queue_id, committed - 1) if committed > 0 else first
                ),
            )
            if committed < end:
                following = self._time_at(topic, queue_id, max(committed, 0))
                span.delay_time = max(0, self._env.clock.now_ms - following) if following > 0 else 0
            spans.consume_time_span_set.append(span)
            yield
        return spans

    def corrections(
        self, topic: str, compared: str, left_out: Collection[str] = ()
    ) -> dict[int, int]:
        """Give the least offset of all groups by queue, without those of some groups.

        Where the compared group is behind all others there is nothing to correct: 2**63 - 1.
        """
        least: dict[int, int] = {}
        for group in self._tables.offsets.readers().get(topic, ()):
            if group in left_out:
                continue
            for queue_id, offset in self._tables.offsets.queues(group, topic).items():
                if offset >= self._env.store.min_offset(topic, queue_id):
                    least[queue_id] = min(offset, least.get(queue_id, _NEVER))
        for queue_id, offset in self._tables.offsets.queues(compared, topic).items():
            if least.get(queue_id, _NEVER) > offset:
                least[queue_id] = _NEVER
        return least

    def clone(
        self, source: str, target: str, topic: str | None = None, *, offline: bool = False
    ) -> None:
        """Let a group begin where another one is, in one topic or in all that that one has read.

        Topics that its members do not subscribe to are left out, unless nobody is to be looked at.
        """
        for name in [topic] if topic else self._tables.offsets.topics_of(source):
            if name in self._tables.topics and (offline or not self._is_dropped(source, name)):
                self._tables.offsets.copy(source, target, name)

    # -- queues -----------------------------------------------------------------------------

    def entries(
        self, topic: str, queue_id: int, index: int, count: int, group: str | None = None
    ) -> ConsumeQueueView:
        """Show entries of a queue from an index on, at most so many; refuses an unknown queue."""
        queue = self._env.store.consume_queue(topic, queue_id)
        if queue is None:
            raise Refused(Reason.FAILED, f"{queue_id}@{topic} is not exist!")
        view = ConsumeQueueView(max_queue_index=queue.max_offset, min_queue_index=queue.min_offset)
        if group:
            view.subscription_data = self.subscription(group, topic)
            kept = self._tables.consumer_filters.find(topic, group)
            view.filter_data = json.dumps(
                kept and kept.to_document(), indent="\t", separators=(",", ":")
            )
            if view.subscription_data is None:
                view.filter_data = f"{group}@{topic} is not online!"
        end = index + min(count, ENTRIES_MAX)
        view.queue_data = [
            ConsumeQueueEntry(*entry) for _, entry in queue.iterate(max(0, index), max(0, end))
        ]
        return view

    # -- shared -----------------------------------------------------------------------------

    def _known(self, name: str) -> TopicConfig:
        topic = self._tables.topics.get(name)
        if topic is None:
            raise Refused(Reason.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return topic

    def _time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Give the store time of the message at a queue offset; -1 when there is none."""
        queue = self._env.store.consume_queue(topic, queue_id)
        entry = None if queue is None or offset < 0 else queue.entry(offset)
        return -1 if entry is None else self._env.store.log.store_timestamp(entry[0])
