"""Tables that a slave copies from its master, and the master from slaves that stood in for it.

A table: the request that a master answers, and what is done with the answer. Each is taken as a
whole, under the door. After ``SlaveSynchronize``. Must not know: connections, when it is asked.
Read on: ``synchronize.py``.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from attrs import define, evolve

from embedded_broker.tables.consumers.groups import GroupTable
from embedded_broker.tables.consumers.request_modes import RequestModeTable
from embedded_broker.tables.files import VersionedTable
from embedded_broker.tables.offsets.table import OffsetTable
from embedded_broker.tables.topics.table import TopicTable
from embedded_broker.timer.levels.service import ScheduleMessageService
from embedded_broker.timer.outcomes import TimerProgress
from embedded_broker.timer.wheel.engine import TimerMessageStore
from rocketmq_py.errors import BodyError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupTable
from rocketmq_py.protocol.bodies.pop import MessageRequestMode
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint
from rocketmq_py.protocol.bodies.topics import TopicConfigTable
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.admin import ExchangeHAInfoResponseHeader
from rocketmq_py.protocol.lenient_json import loads_lenient

logger = get_logger(__name__)

Take = Callable[[bytes], None]


@define(eq=False, kw_only=True)
class FollowedTables:
    """The slave's own tables, which become what the master's are."""

    _topics: TopicTable
    _groups: GroupTable
    _offsets: OffsetTable
    _modes: RequestModeTable
    _levels: ScheduleMessageService
    _timers: TimerMessageStore

    def requests(self) -> dict[int, Take]:
        """Give what is asked, and who takes the body of the answer.

        They raise ``BodyError`` for one that is not the table.
        """
        takes: dict[int, Take] = {
            RequestCode.GET_ALL_TOPIC_CONFIG: self.take_topics,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.take_offsets,
            RequestCode.GET_ALL_DELAY_OFFSET: self.take_levels,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.take_groups,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.take_modes,
            RequestCode.GET_TIMER_CHECK_POINT: self.take_checkpoint,
        }
        return {code: partial(_taken, code, take) for code, take in takes.items()}

    def take_topics(self, body: bytes) -> None:
        """21: the topics, unless the version is ours."""
        found = TopicConfigTable.decode(body)
        version = {"dataVersion": found.data_version.to_document()}
        if _is_same(self._topics, version):
            return
        for name in self._topics.names():
            if name not in found.topic_config_table:
                self._topics.remove(name)
        for name, topic in found.topic_config_table.items():
            self._topics.put(evolve(topic, topic_name=name))
        self._topics.take_version(version)

    def take_groups(self, body: bytes) -> None:
        """201: the groups, and what they may not read, unless the version is ours."""
        found = SubscriptionGroupTable.decode(body)
        version = {"dataVersion": found.data_version.to_document()}
        if _is_same(self._groups, version):
            return
        for name in [one.group_name for one in self._groups]:
            if name not in found.subscription_group_table:
                self._groups.remove(name)
        for name, group in found.subscription_group_table.items():
            self._groups.put(evolve(group, group_name=name))
        self._groups.take_version(version)

    def take_offsets(self, body: bytes) -> None:
        """43: how far groups are; what only we know stays."""
        for group, topic, queue_id, offset in _offsets_of(body):
            if self._offsets.query(group, topic, queue_id) != offset:
                self._offsets.commit(group, topic, queue_id, offset)

    def take_levels(self, body: bytes) -> None:
        """45: how far the delay levels are."""
        self._levels.follow(loads_lenient(body))

    def take_modes(self, body: bytes) -> None:
        """402: how groups get messages."""
        for topic, groups in _part(body, "messageRequestModeMap").items():
            for group, mode in groups.items():
                found = MessageRequestMode.from_document(mode)
                if self._modes.find(str(topic), str(group)) != found:
                    self._modes.put(found)

    def take_checkpoint(self, body: bytes) -> None:
        """60: how far the master's wheel is; ours is filled up to there."""
        self._timers.follow_master(TimerCheckpoint.decode(body).master_timer_queue_offset)


@define(eq=False, kw_only=True)
class SlavesWork:
    """What slaves have done as acting masters, taken over by the master that comes back."""

    _offsets: OffsetTable
    _levels: ScheduleMessageService
    _timers: TimerMessageStore
    _note: Callable[[], None]

    def requests(self, told: ExchangeHAInfoResponseHeader) -> dict[int, Take]:
        """Give what a slave is asked that told so much by itself, and who takes the answer."""

        def take_checkpoint(body: bytes) -> None:
            """60: all slots before its read time are done; of ours what it told is exact."""
            found = TimerCheckpoint.decode(body)
            slots = TimerProgress(found.last_read_time_ms, found.last_timer_queue_offset)
            exact = TimerProgress(
                told.timers_until_ms or 0, told.timers_queue_offset or 0, told.timers_next_root or 0
            )
            for progress in (slots, exact):
                passed = self._timers.pass_released(progress)
                if passed:
                    logger.info("timers_released_by_slave %d, up to %r", passed, progress)

        takes: dict[int, Take] = {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.take_offsets,
            RequestCode.GET_ALL_DELAY_OFFSET: self.take_levels,
            RequestCode.GET_TIMER_CHECK_POINT: take_checkpoint,
        }
        return {code: partial(_taken, code, take) for code, take in takes.items()}

    def take_offsets(self, body: bytes) -> None:
        """43: groups that went on at the slave; none goes back."""
        for group, topic, queue_id, offset in _offsets_of(body):
            if self._offsets.query(group, topic, queue_id) < offset:
                self._offsets.commit(group, topic, queue_id, offset)

    def take_levels(self, body: bytes) -> None:
        """45: how far the delay levels are."""
        self._levels.pass_delivered(loads_lenient(body))
        self._levels.hold()

    def go_offline(self) -> None:
        """Deliver nothing until it is known what slaves have done."""
        self._timers.set_should_running_dequeue(False)
        self._levels.settle()
        self._levels.hold()

    def go_online(self) -> None:
        """Deliver from now on."""
        self._timers.set_should_running_dequeue(True)
        self._levels.go_on()
        self._note()


def _offsets_of(body: bytes) -> Iterator[tuple[str, str, int, int]]:
    """Give group, topic, queue and offset of each entry."""
    for key, queues in _part(body, "offsetTable").items():
        topic, _, group = str(key).partition("@")
        for queue_id, offset in queues.items() if group else ():
            yield group, topic, int(queue_id), int(offset)


def _taken(code: int, take: Take, body: bytes) -> None:
    try:
        take(body)
    except BodyError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BodyError(f"answer to {code}", f"it does not hold what it should: {error}") from error


def _part(body: bytes, name: str) -> Mapping[Any, Any]:  # any JSON
    document = loads_lenient(body)
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _is_same(table: VersionedTable, found: Mapping[str, Any]) -> bool:
    own, theirs = table.data_version(), found["dataVersion"]
    return all(own[name] == theirs.get(name) for name in ("counter", "timestamp"))
