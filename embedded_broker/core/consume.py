"""Pulls: what a consumer gets at once, or when a message arrives.

RocketMQ's PullMessageProcessor: its checks in their order (broker, group, topic and queue,
subscription); then the store is read, the offset that came along is committed, what is handed out
is noted, and a pull that found nothing may wait (`waiters.py`) and is looked at again. Which
messages match is decided by a filter (`filters/`). Must not know: headers, response codes, how an
answer travels. Read on: `embedded_broker/store/pull.py` for how a queue is read.
"""

from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from attrs import define, field

from embedded_broker.core.background_filters import BackgroundFilters
from embedded_broker.core.environment import Environment
from embedded_broker.core.filters import NO_TAG, Filter, Filters, Unmade
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.statistics import Statistics
from embedded_broker.core.waiters import Waiter, Waiters
from embedded_broker.store.filter_budget import Unjudged
from embedded_broker.store.memory_budget import physical_memory
from embedded_broker.store.pull import GetResult, GetStatus
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.offsets.table import offset_problem
from embedded_broker.tables.peer import Peer
from rocketmq_py.errors import BodyError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.heartbeat import TAG, SubscriptionData
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import PERM_READ

logger = get_logger(__name__)


class Who(Enum):
    """Whose settings forbid a pull."""

    BROKER = auto()
    GROUP = auto()
    TOPIC = auto()
    BROADCASTING = auto()
    SUBSCRIPTION = auto()


class Forbidden(Refused):
    """A pull that a setting forbids."""

    def __init__(self, who: Who, remark: str) -> None:
        super().__init__(Reason.NO_PERMISSION, remark)
        self.who = who


@define(slots=True, eq=False)
class Pull:
    """One pull: at most `max_count` messages of a queue, from `offset` on.

    `commit_offset` is committed on the way. `expression` is the subscription that came along, of
    tags unless `expression_type` says otherwise; None means the one of the group's heartbeats, not
    older than `sub_version`. `wait_ms`: how long to wait for a message, None not at all. The broker
    may refuse all pulls that are `is_lite`.
    """

    peer: Peer
    group: str
    topic: str
    queue_id: int
    offset: int
    max_count: int
    expression: str | None = None
    expression_type: str | None = None
    sub_version: int = 0
    wait_ms: int | None = None
    commit_offset: int | None = None
    is_lite: bool = False


@define(slots=True, eq=False)
class Checked:
    """What the checks of a pull have found: who reads, and what of which topic they want."""

    group: SubscriptionGroupConfig
    topic: TopicConfig
    wanted: Filter | None


@define(slots=True, eq=False)
class Pulled:
    """What was found. `is_at_end`: nothing is there yet, but the next message will be."""

    found: GetResult
    is_at_end: bool
    checked: Checked
    next_broker_id: int = 0
    """Which broker of this name the reader should ask next: 0 is the master."""


Reply = Callable[[Pulled | Refused], None]
"""Told once how a pull ended that had to wait."""


@define(eq=False, kw_only=True)
class Consume:
    """Hands out messages. Used under the door."""

    _env: Environment
    _tables: Tables
    _statistics: Statistics
    waiters: Waiters
    filters: Filters
    _background_filters: BackgroundFilters
    _heir: "Consume | None" = field(default=None, init=False)

    def pull(self, pull: Pull, reply: Reply) -> Pulled | None:
        """Give messages, or say why there are none; None: `reply` is told later."""
        problem = None if pull.commit_offset is None else offset_problem(pull.commit_offset)
        if problem is not None:
            raise Refused(Reason.INVALID_PARAMETER, problem)
        try:
            pulled = self._look(pull)
        except (Unjudged, Unmade) as one:
            self._background_filters.judge(one, partial(self._pull_again, pull, reply))
            return None
        if pull.commit_offset is not None and pulled.found.status is not GetStatus.OFFSET_RESET:
            self._tables.offsets.commit(pull.group, pull.topic, pull.queue_id, pull.commit_offset)
        is_parked = (
            pulled.is_at_end
            and pull.wait_ms is not None
            and self._park(pull, pulled.checked.wanted, reply)
        )
        return None if is_parked else pulled

    def _pull_again(self, pull: Pull, reply: Reply) -> None:
        """Go on with a pull whose first message was judged outside."""
        if pull.peer.closed:
            return
        outcome: Pulled | Refused | None
        try:
            outcome = (self._heir or self).pull(pull, reply)
        except Refused as refused:
            outcome = refused
        except Exception as error:  # noqa: BLE001 - the puller hears of it
            outcome = _failed(pull, error)
        if outcome is not None:
            reply(outcome)

    def wanted_by(self, group: str, topic: str) -> Filter | None:
        """Give the filter of a connected group; None: every message, or nothing is known."""
        live = self._tables.consumers.get(group)
        data = None if live is None else live.subscriptions.get(topic)
        try:
            return None if data is None else self._of_heartbeat(data, group)
        except Refused:
            return None
        except Unmade as one:
            self.filters.make(one.asked)
            return self.wanted_by(group, topic)

    def hand_over(self, heir: "Consume") -> None:
        """Ask another state from now on: whoever waits here is asked again there.

        The offset that came along is left out: it counts messages that are gone.
        """
        self._heir = heir
        for waiter in self.waiters.drain():
            if not waiter.peer.closed:
                waiter.answer(True)

    # -- reading ----------------------------------------------------------------------------

    def _look(self, pull: Pull) -> Pulled:
        """Check a pull and read, unless the group's offset was reset: then it begins there."""
        checked = self._check(pull)
        topic, queue_id = pull.topic, pull.queue_id
        reset = self._tables.offsets.take_reset(pull.group, topic, queue_id)
        if reset is not None:
            low = self._env.store.min_offset(topic, queue_id)
            high = self._env.store.max_offset(topic, queue_id)
            found = GetResult(GetStatus.OFFSET_RESET, reset, low, high, [], 0)
        else:
            found = self._env.store.get(
                topic, queue_id, pull.offset, pull.max_count, wanted=checked.wanted
            )
        self._note_handed_out(pull, found)
        is_at_end = not found.count and (
            found.status is GetStatus.OFFSET_OVERFLOW_ONE
            or (found.status is GetStatus.NO_MESSAGE_IN_QUEUE and pull.offset == 0)
        )
        pulled = Pulled(found, is_at_end, checked)
        if self._env.config.flag("slaveReadEnable"):
            pulled.next_broker_id = self._broker_for(found, checked.group)
        return pulled

    def _note_handed_out(self, pull: Pull, found: GetResult) -> None:
        group, topic, count = pull.group, pull.topic, found.count
        self._statistics.note_pull(group, topic, count, found.size)
        self._tables.deliveries.handed_out(
            group, topic, pull.queue_id, pull.offset, found.next_begin_offset, count
        )

    def _broker_for(self, found: GetResult, group: SubscriptionGroupConfig) -> int:
        """Say which broker of this name is asked next: a reader far behind goes to a slave.

        Far is more than ``accessMessageInMemoryMaxRatio`` percent of the memory. A slave sends
        everybody to the master, unless they are as far behind.
        """
        if found.places:
            offset, size = found.places[-1]
            behind = self._env.store.log.max_offset - offset - size
            percent = self._env.config.int("accessMessageInMemoryMaxRatio")
            if behind * 100 > physical_memory() * percent:
                return group.which_broker_when_consume_slowly
        return 0 if self._env.config.int("brokerId") else group.broker_id

    def _park(self, pull: Pull, wanted: Filter | None, reply: Reply) -> bool:
        wait_ms = pull.wait_ms or 0
        if not self._env.config.flag("longPollingEnable"):
            wait_ms = self._env.config.int("shortPollingTimeMills")
        if wait_ms <= 0:
            return False
        queues = {(pull.topic, pull.queue_id): pull.offset}

        def answer(is_over: bool) -> bool:
            return self._look_again(waiter, pull, reply, is_over)

        waiter = Waiter(pull.peer, pull.group, queues, wanted, answer)
        return self.waiters.add(waiter, wait_ms)

    def _look_again(self, waiter: Waiter, pull: Pull, reply: Reply, is_over: bool) -> bool:
        """Answer a pull that waited; false when nothing that came was wanted, and it may wait on.

        Topic and group are checked again.
        """
        outcome: Pulled | Refused | None
        try:
            if self._heir is not None:
                pull.commit_offset = None
                outcome = self._heir.pull(pull, reply)
            else:
                outcome = self._look(pull)
                found = outcome.found
                if (
                    not is_over
                    and found.status is GetStatus.NO_MATCHED_MESSAGE
                    and found.next_begin_offset >= found.max_offset
                ):
                    pull.offset = found.next_begin_offset
                    return False
        except (Unjudged, Unmade) as one:
            outcome = self._background_filters.judge_for(waiter, self.waiters, one, is_over=is_over)
        except Refused as refused:
            outcome = refused
        except Exception as error:  # noqa: BLE001 - the puller hears of it
            outcome = _failed(pull, error)
        if outcome is not None:
            reply(outcome)
        return True

    # -- the checks, in order ---------------------------------------------------------------

    def _check(self, pull: Pull) -> Checked:
        """Refuse a pull by the first check that fails, in the order of the original."""
        if pull.is_lite and not self._env.config.flag("litePullMessageEnable"):
            raise Forbidden(
                Who.BROKER,
                f"the broker[{self._env.address}] for lite pull consumer is forbidden: "
                "litePullMessageEnable=false",
            )
        perm = self._env.config.int("brokerPermission")
        if not perm & PERM_READ:
            raise Forbidden(
                Who.BROKER,
                f"the broker[{self._env.address}] pulling message is forbidden: "
                f"brokerPermission={perm} has no read bit (4)",
            )
        group = self._group(pull)
        topic = self._topic(pull)
        if pull.expression is not None:
            self.filters.demand_made(pull.expression_type, pull.expression, frozenset())
            wanted = self.filters.of(pull.expression_type, pull.expression)
        else:
            wanted = self._from_heartbeat(pull, group)
        return Checked(group, topic, wanted)

    def _group(self, pull: Pull) -> SubscriptionGroupConfig:
        group = self._tables.groups.find(pull.group)
        if group is None:
            raise Refused(
                Reason.GROUP_NOT_EXIST,
                f"subscription group [{pull.group}] does not exist: "
                "autoCreateSubscriptionGroup is false or the name is not legal",
            )
        if not group.consume_enable:
            raise Forbidden(
                Who.GROUP,
                f"subscription group no permission, {pull.group}: consumeEnable=false",
            )
        return group

    def _topic(self, pull: Pull) -> TopicConfig:
        topic = self._tables.topics.get(pull.topic)
        if topic is None:
            raise Refused(
                Reason.TOPIC_NOT_EXIST, f"topic[{pull.topic}] not exist, apply first please!"
            )
        if not topic.perm & PERM_READ:
            raise Forbidden(
                Who.TOPIC,
                f"the topic[{pull.topic}] pulling message is forbidden: "
                f"its perm={topic.perm} has no read bit (4)",
            )
        if not 0 <= pull.queue_id < topic.read_queue_nums:
            raise Refused(
                Reason.INVALID_PARAMETER,
                f"queueId[{pull.queue_id}] is illegal, topic:[{pull.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{pull.group}]",
            )
        return topic

    def _from_heartbeat(self, pull: Pull, group: SubscriptionGroupConfig) -> Filter | None:
        """Give the filter of the subscription that the group's heartbeats registered."""
        live = self._tables.consumers.get(pull.group)
        if live is None:
            raise Refused(
                Reason.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist: no heartbeat of {pull.group}",
            )
        if live.is_broadcasting and not group.consume_broadcast_enable:
            raise Forbidden(
                Who.BROADCASTING,
                f"the consumer group[{pull.group}] can not consume by broadcast way: "
                "consumeBroadcastEnable=false",
            )
        if self._tables.groups.is_forbidden(pull.group, pull.topic):
            raise Forbidden(
                Who.SUBSCRIPTION,
                f"the consumer group[{pull.group}] is forbidden for topic[{pull.topic}]",
            )
        data = live.subscriptions.get(pull.topic)
        if data is None:
            raise Refused(
                Reason.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: {pull.group} has not "
                f"subscribed to {pull.topic}",
            )
        if data.sub_version < pull.sub_version:
            is_tag = (data.expression_type or TAG) == TAG
            if not is_tag or not self._env.config.flag("acceptNewerSubVersion"):
                raise Refused(
                    Reason.SUBSCRIPTION_NOT_LATEST,
                    f"the consumer's subscription not latest: the pull has subVersion "
                    f"{pull.sub_version}, the last heartbeat {data.sub_version}",
                )
            return None  # the client filters tags itself, so nothing is lost
        return self._of_heartbeat(data, pull.group, pull.sub_version)

    def _of_heartbeat(
        self, data: SubscriptionData, group: str, sub_version: int = 0
    ) -> Filter | None:
        """Give the filter of a subscription; nobody refused the heartbeat that brought it.

        One that is not of tags is the last right one of the group's heartbeats: refused when there
        is none, or none of this version.
        """
        kind = data.expression_type or TAG
        if kind == TAG:
            self.filters.demand_made(kind, data.sub_string, data.code_set)
            try:
                return self.filters.made(kind, data.sub_string, data.code_set)
            except BodyError:
                return NO_TAG
        kept = self._tables.consumer_filters.find(data.topic, group)
        if kept is None:
            problem = self.filters.problem(kind, data.sub_string) or "it was right once"
            raise Refused(
                Reason.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong! "
                f"{data.topic}: {problem}",
            )
        if kept.client_version < sub_version:
            raise Refused(
                Reason.FILTER_DATA_NOT_LATEST,
                f"the consumer's consumer filter data not latest: the pull has subVersion "
                f"{sub_version}, the last right expression {kept.client_version}",
            )
        self.filters.allow(kind)
        self.filters.demand_made(kept.expression_type, kept.expression, frozenset())
        return self.filters.made(kept.expression_type, kept.expression)


def _failed(pull: Pull, error: Exception) -> Refused:
    """Say why a pull failed: the puller hears of it, not whoever happens to leave the door."""
    logger.error("a parked pull of %s failed", pull.topic, exc_info=error)
    return Refused(Reason.FAILED, f"{type(error).__name__}: {error}")
