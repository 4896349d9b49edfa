"""Offsets of consumer groups: query, commit, and reset to another place in the queues.

Answers: what is refused, and who hears of a reset. From 5.3 on the broker keeps a reset offset and
the group's next pull is answered with it (`resetOffsetInner`, the option
useServerSideResetOffset), so nobody has to be online; a pull that waits is answered at once, where
the original leaves it to its time. Before, every member is called with all offsets
(`Broker2Client.resetOffset`). Must not know: requests. Read on: `tables/offsets/table.py`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final

from attrs import define, frozen

from embedded_broker.core.broker_stats import GROUP_GET_NUMS, TOPIC_PUT_NUMS, BrokerStats
from embedded_broker.core.client_calls import ClientCalls, ResetOffsets
from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.offsets.table import NOT_STORED, offset_problem
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import ConsumeStats, OffsetWrapper
from rocketmq_py.protocol.bodies.topics import TopicConfig, TopicOffset, TopicStatsTable
from rocketmq_py.protocol.names import READY_MADE_GROUPS, retry_topic

_TO_THE_END: Final = -1
"""The timestamp that means the end of the queue."""
_WAS_RESET: Final = "Offset has been previously reset"
"""The remark of a commit that counts for nothing, as a real broker has it (5.3.3)."""
_BOUNDARIES: Final = frozenset({"LOWER", "UPPER"})


@frozen(kw_only=True)
class GroupOffset:
    """How far a group has come in one queue.

    ``committed`` is the next offset to consume, None when nothing was committed yet;
    ``next_offset`` is the first offset that was not handed to the group.
    """

    topic: str
    queue_id: int
    committed: int | None
    next_offset: int
    min_offset: int
    max_offset: int
    lag: int


@define(eq=False, kw_only=True)
class GroupOffsets:
    """The offsets of queues and groups of one broker."""

    _env: Environment
    _tables: Tables
    _calls: ClientCalls
    _broker_stats: BrokerStats
    _wake: Callable[[str, str, int], None]

    # -- queues -----------------------------------------------------------------------------

    def search(self, topic: str, queue_id: int, timestamp: int, boundary: str | None) -> int:
        """Give the offset for a store time: nearest in 4.9, LOWER (default) or UPPER in 5.x."""
        if self._env.profile.nearest_offset_search:
            boundary = "NEAREST"
        elif not boundary:
            boundary = "LOWER"
        elif boundary not in _BOUNDARIES:
            raise Refused(Reason.FAILED, f"boundaryType[{boundary}] is none of LOWER, UPPER")
        return self._env.store.search_offset(topic, queue_id, timestamp, boundary)

    def topic_stats(self, name: str) -> Generator[None, None, TopicStatsTable]:
        """Give bounds and last store time of every queue of a topic, a queue in each step."""
        topic = self._tables.topics.get(name)
        if topic is None:
            raise Refused(Reason.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        table = TopicStatsTable(topic_put_tps=None)
        if self._env.profile.stats_have_put_tps:
            table.topic_put_tps = self._broker_stats.per_second(TOPIC_PUT_NUMS, name)
        for queue_id in range(max(topic.write_queue_nums, topic.read_queue_nums)):
            newest = self._env.store.max_offset(name, queue_id)
            table.offset_table[self._key(name, queue_id)] = TopicOffset(
                min_offset=self._env.store.min_offset(name, queue_id),
                max_offset=newest,
                last_update_timestamp=self._store_time(name, queue_id, newest - 1),
            )
            yield
        return table

    # -- groups -----------------------------------------------------------------------------

    def progress(
        self, group: str, topics: Iterable[str] = ()
    ) -> Generator[None, None, ConsumeStats]:
        """Give how far a group is in every queue, one in each step; unknown: an empty table.

        Without topics the group's committed ones are shown, as far as its live members still
        subscribe to them; topics that are named are taken as they are. How far pulls have come is
        what the last pull was answered, or the committed offset where that is greater.
        """
        names = list(dict.fromkeys(topics))
        if not names:
            names = self._tables.offsets.topics_of(group)
            live = self._tables.consumers.get(group)
            if live is not None and live.subscriptions:
                names = [name for name in names if name in live.subscriptions]
        stats = ConsumeStats()
        for name in names:
            stats.consume_tps += self._broker_stats.per_second(GROUP_GET_NUMS, f"{name}@{group}")
            for queue_id in self.queues(name):
                committed = max(0, self._tables.offsets.query(group, name, queue_id))
                pulled = self._tables.deliveries.next_offset(group, name, queue_id) or 0
                stats.offset_table[self._key(name, queue_id)] = OffsetWrapper(
                    broker_offset=self._env.store.max_offset(name, queue_id),
                    consumer_offset=committed,
                    pull_offset=max(committed, pulled)
                    if self._env.profile.stats_have_put_tps
                    else None,
                    last_timestamp=self._store_time(name, queue_id, committed - 1),
                )
                yield
        return stats

    def group_names(self) -> list[str]:
        """Name the groups that were used or created, without those that every broker has."""
        names = dict.fromkeys(group.group_name for group in self._tables.groups)
        for used in (self._tables.consumers, self._tables.offsets, self._tables.deliveries):
            names |= dict.fromkeys(used.groups())
        return [name for name in names if name not in READY_MADE_GROUPS]

    def topics_of(self, group: str) -> tuple[str, ...]:
        """Name the topics that a group subscribes to, pulls or committed, its retry topic too."""
        live = self._tables.consumers.get(group)
        names = dict.fromkeys(() if live is None else live.subscriptions)
        names |= dict.fromkeys(self._tables.offsets.topics_of(group))
        names |= dict.fromkeys(self._tables.deliveries.topics_of(group))
        names |= dict.fromkeys([retry_topic(group)])
        return tuple(name for name in names if name in self._tables.topics)

    def queues(self, topic: str) -> range:
        """Number the queues that can be read; none of an unknown topic."""
        config = self._tables.topics.get(topic)
        return range(0 if config is None else config.read_queue_nums)

    def place(self, group: str, topic: str, queue_id: int) -> GroupOffset:
        """Tell how far a group is in one queue."""
        low = self._env.store.min_offset(topic, queue_id)
        high = self._env.store.max_offset(topic, queue_id)
        committed = self._tables.offsets.query(group, topic, queue_id)
        first = self._tables.deliveries.first_offset(group, topic, queue_id)
        following = self._tables.deliveries.next_offset(group, topic, queue_id)
        is_stored = committed != NOT_STORED
        done = committed if is_stored else max(low, 0 if first is None else first)
        return GroupOffset(
            topic=topic,
            queue_id=queue_id,
            committed=committed if is_stored else None,
            next_offset=max(low, committed, 0 if following is None else following),
            min_offset=low,
            max_offset=high,
            lag=max(high - done, 0),
        )

    def query(self, group: str, topic: str, queue_id: int, *, zero_if_none: bool = True) -> int:
        """Give the committed offset, else 0 for a queue of which nothing was deleted, or refuse.

        With `zero_if_none` false there is no such 0. The original answers 0 only while the queue's
        beginning is in memory, and 5.3.3 not for an empty queue, which lets a consumer miss the
        first message; here nothing is missed.
        """
        offset = self._tables.offsets.query(group, topic, queue_id)
        if offset != NOT_STORED:
            return offset
        if not zero_if_none:
            raise Refused(
                Reason.NOT_FOUND, "Not found, do not set to zero, maybe this group boot first"
            )
        oldest = self._env.store.min_offset(topic, queue_id)
        if oldest > 0:
            raise Refused(
                Reason.NOT_FOUND,
                f"Not found, maybe this group boot first: the queue begins at {oldest}",
            )
        return 0

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> str | None:
        """Store an offset; from 5.1 on group and topic must be known.

        An offset that no queue can have is refused. While a reset waits for the group's next pull,
        what its members commit is stale: the reset stays, and a remark says so, None otherwise.
        While the offsets cannot be saved, they are kept in memory and the refusal says so.
        """
        if not self._env.profile.unknown_offset_group_accepted:
            if group not in self._tables.groups:
                raise Refused(Reason.GROUP_NOT_EXIST, f"Group {group} not exist!")
            if topic not in self._tables.topics:
                raise Refused(Reason.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        problem = offset_problem(offset)
        queues = self._env.config.int("maxQueueNums")
        if problem is None and not 0 <= queue_id < queues:
            problem = f"queueId[{queue_id}] is illegal: 0 to {queues - 1} (setting maxQueueNums)"
        if problem is not None:
            raise Refused(Reason.INVALID_PARAMETER, problem)
        if self._tables.offsets.is_reset(group, topic, queue_id):
            return _WAS_RESET
        self._tables.offsets.commit(group, topic, queue_id, offset)
        problem = self._env.store.health.problem or self._tables.offsets.unsaved
        if problem is not None:
            raise Refused(
                Reason.FAILED,
                f"offset {offset} is kept in memory only, config/consumerOffset.json cannot be "
                f"saved at present: {problem}",
            )
        return None

    # -- reset ------------------------------------------------------------------------------

    def reset_to_time(
        self,
        group: str,
        name: str,
        timestamp: int,
        *,
        queue_id: int = -1,
        offset: int | None = None,
        force: bool = False,
        as_list: bool = False,
    ) -> Generator[None, None, dict[MessageQueueKey, int]]:
        """Let a group continue at a store time, in all queues or one, or in one at an offset.

        Gives the new places; a queue is looked for or reset in each step. Refuses an unknown topic,
        group or queue and an offset outside the queue; before 5.3 a group without an offset in
        every queue, and one of which nobody is online. C++ members are told a list of queues, all
        members with `as_list`.
        """
        topic = self._tables.topics.get(name)
        if topic is None:
            raise Refused(Reason.TOPIC_NOT_EXIST, f"Topic {name} does not exist")
        if not self._env.profile.resets_at_pull:
            targets = yield from self._targets_before_5_3(group, topic, timestamp, force=force)
        elif group not in self._tables.groups:
            raise Refused(Reason.GROUP_NOT_EXIST, f"Group {group} does not exist")
        elif queue_id < 0:
            targets = {}
            for one in self.queues(name):
                targets[one] = self._by_time(name, one, timestamp)
                yield
        elif queue_id >= topic.read_queue_nums:
            raise Refused(
                Reason.FAILED,
                f"queueId[{queue_id}] is illegal: topic {name} has "
                f"readQueueNums={topic.read_queue_nums}",
            )
        elif offset is None or offset == NOT_STORED:
            targets = {queue_id: self._by_time(name, queue_id, timestamp)}
        else:
            low = self._env.store.min_offset(name, queue_id)
            high = self._env.store.max_offset(name, queue_id)
            if not low <= offset <= high + 1:
                raise Refused(
                    Reason.FAILED,
                    f"Target offset {offset} not in consume queue range [{low}-{high}]",
                )
            targets = {queue_id: offset}
        yield from self.resets(
            group, name, targets, timestamp=timestamp, tell_absent=True, as_list=as_list
        )
        places = {}
        for one, found in targets.items():
            places[self._key(name, one)] = found
            yield
        return places

    def _targets_before_5_3(
        self, group: str, topic: TopicConfig, timestamp: int, *, force: bool
    ) -> Generator[None, None, dict[int, int]]:
        """Find the new offsets: forward only unless forced, members must be there."""
        name, targets = topic.topic_name, dict[int, int]()
        for queue_id in range(topic.write_queue_nums):
            committed = self._tables.offsets.query(group, name, queue_id)
            if committed == NOT_STORED:
                raise Refused(
                    Reason.FAILED,
                    f"THe consumer group <{group}> not exist: it has no offset in queue "
                    f"{queue_id} of {name}",
                )
            found = self._by_time(name, queue_id, timestamp)
            targets[queue_id] = found if force else min(found, committed)
            yield
        if self._tables.consumers.get(group) is None:
            raise Refused(
                Reason.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {group} "
                f"Topic: {name} Timestamp: {timestamp}",
            )
        return targets

    def _by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp <= _TO_THE_END:
            return self._env.store.max_offset(topic, queue_id)
        return self.search(topic, queue_id, timestamp, None)

    def reset(self, group: str, topic: str, targets: Mapping[int, int]) -> None:
        """Let a group continue at other offsets, by queue, and tell its members; see `resets`."""
        for _ in self.resets(group, topic, targets):
            pass

    def resets(
        self,
        group: str,
        topic: str,
        targets: Mapping[int, int],
        *,
        timestamp: int = _TO_THE_END,
        tell_absent: bool = False,
        as_list: bool = False,
    ) -> Iterator[None]:
        """Let a group continue at other offsets, a queue in each step, and tell its members.

        A group without members begins there when it comes; with `tell_absent` its first pull is
        answered with the offset too, as the original does, which costs that consumer a pull.
        Without it a queue in which the group is at that offset already is left alone.
        """
        live = self._tables.consumers.get(group)
        at_pull = self._env.profile.resets_at_pull
        for queue_id, offset in targets.items():
            committed = self._tables.offsets.query(group, topic, queue_id)
            following = self._tables.deliveries.next_offset(group, topic, queue_id)
            if not tell_absent and committed == offset and following in {None, offset}:
                continue
            tell = at_pull and (live is not None or tell_absent)
            self._tables.offsets.reset(group, topic, queue_id, offset, tell=tell)
            self._tables.deliveries.moved(group, topic, queue_id, offset)
            if at_pull:
                self._wake(group, topic, queue_id)
            yield
        if at_pull or live is None:
            return
        offsets = self._by_key(topic, targets)
        for peer, member in live.members.items():
            call = ResetOffsets(
                group=group,
                topic=topic,
                timestamp=timestamp,
                offsets=offsets,
                as_list=as_list or member.is_cpp,
            )
            self._calls.ask(peer, call)

    # -- shared -----------------------------------------------------------------------------

    def _key(self, topic: str, queue_id: int) -> MessageQueueKey:
        return MessageQueueKey(topic, self._env.broker_name, queue_id)

    def _by_key(self, topic: str, offsets: Mapping[int, int]) -> dict[MessageQueueKey, int]:
        return {self._key(topic, queue_id): offset for queue_id, offset in offsets.items()}

    def _store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Give the store time of the message at a queue offset; 0 when there is none."""
        queue = self._env.store.consume_queue(topic, queue_id)
        entry = None if queue is None or offset < 0 else queue.entry(offset)
        return 0 if entry is None else self._env.store.log.store_timestamp(entry[0])
