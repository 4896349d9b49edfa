"""Changes of topics, groups and options of a running broker.

Answers: what is refused, and in which words. The rules are those of RocketMQ's
AdminBrokerProcessor; but a real broker accepts any option, while here an unknown one, a bad value,
and one that cannot change on a running broker are refused with a sentence. Must not know: requests.
Read on: `tables/topics/table.py`, `tables/consumers/groups.py`, `settings/options.py`.
"""

from collections.abc import Sequence
from typing import Final

from attrs import define, field

from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.settings.config import check_known, read_properties
from embedded_broker.settings.options import ARGUMENT_NAMES, OPTIONS
from embedded_broker.store.disk_health import DiskHealth
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.files import Table
from embedded_broker.tables.topics.attributes import TopicAttributeError, parse_attributes
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import PERM_INHERIT, PERM_READ, PERM_WRITE
from rocketmq_py.protocol.names import SYSTEM_TOPICS, topic_problem

_MIXED: Final = "MIXED"
_PERM_MAX: Final = PERM_READ | PERM_WRITE | PERM_INHERIT
_FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")
BLACK_LIST: Final = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})
"""Names that nobody may change by request (BrokerConfig.configBlackList)."""


def check_saved(table: Table, path: str, health: DiskHealth) -> None:
    """Refuse a change that would not outlive the broker."""
    if health.problem is not None:
        raise Refused(Reason.SERVICE_NOT_AVAILABLE, f"{path} cannot be saved: {health.problem}")
    if table.unsaved is not None:
        raise Refused(Reason.FAILED, f"{path} cannot be saved at present: {table.unsaved}")


@define(eq=False, kw_only=True)
class Settings:
    """Topics, groups and options of one broker."""

    _env: Environment
    _tables: Tables
    _health: DiskHealth
    _arguments: dict[str, str]
    """What `EmbeddedBroker(...)` was given, under RocketMQ's names for it."""
    _new_type: str = ""
    """The `message.type` of topics that the owner creates and says nothing of it."""
    _changes: int = field(default=0, init=False)
    _changed_ms: int = field(init=False)

    @_changed_ms.default
    def _now(self) -> int:
        return self._env.clock.now_ms

    def put_topic(
        self, wanted: TopicConfig, attributes: str | None = None, *, by_owner: bool = False
    ) -> None:
        """Create a topic or change it, with attribute changes as `+key=value,-key`.

        Refuses a bad name, a system topic, numbers that no tool of the original lets through, the
        type MIXED while it is switched off, and what is wrong with an attribute; 4.9 does not look
        at attributes. The owner of the broker may change system topics, give attributes to a topic
        of 4.9, and say once more what never changes.
        """
        profile, name = self._env.profile, wanted.topic_name
        problem = topic_problem(
            name,
            length_max=profile.topic_length_max,
            retry_length_max=profile.system_topic_length_max,
        )
        if problem is not None:
            raise Refused(Reason.INVALID_PARAMETER, problem)
        guarded = not by_owner and self._env.config.flag("validateSystemTopicWhenUpdateTopic")
        if guarded and self._tables.topics.is_system(name):
            raise Refused(
                Reason.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic."
            )
        self._check_numbers(wanted)
        try:
            changes = parse_attributes(attributes if by_owner or profile.topic_attributes else None)
            if by_owner:
                if self._new_type and name not in self._tables.topics:
                    changes.setdefault("+message.type", self._new_type)
                changes = self._new_in(self._tables.topics.get(name), changes)
            mixed_allowed = self._env.config.flag("enableMixedMessageType")
            if changes.get("+message.type") == _MIXED and not mixed_allowed:
                raise Refused(
                    Reason.INVALID_PARAMETER,
                    "MIXED message type is not supported: enableMixedMessageType=false",
                )
            check_saved(self._tables.topics, "config/topics.json", self._health)
            self._tables.topics.update(wanted, changes)
        except TopicAttributeError as error:
            raise Refused(Reason.FAILED, str(error)) from error

    @staticmethod
    def _new_in(topic: TopicConfig | None, changes: dict[str, str]) -> dict[str, str]:
        """Leave out what a topic has already."""
        has = {} if topic is None else topic.attributes or {}
        return {name: value for name, value in changes.items() if has.get(name[1:]) != value}

    def _check_numbers(self, topic: TopicConfig) -> None:
        """Refuse what the original's tools refuse, and numbers of queues that nobody means."""
        if not 0 <= topic.perm <= _PERM_MAX:
            raise Refused(
                Reason.INVALID_PARAMETER,
                f"perm[{topic.perm}] is illegal: 0 to {_PERM_MAX}, the sum of 4 (read), 2 (write) "
                "and 1 (inherit)",
            )
        if topic.topic_filter_type not in _FILTER_TYPES:
            raise Refused(
                Reason.INVALID_PARAMETER,
                f"topicFilterType[{topic.topic_filter_type}] is none of {', '.join(_FILTER_TYPES)}",
            )
        self._check_queues("readQueueNums", topic.read_queue_nums)
        self._check_queues("writeQueueNums", topic.write_queue_nums)

    def _check_queues(self, field: str, number: int) -> None:
        most = self._env.config.int("maxQueueNums")
        if not 0 <= number <= most:
            raise Refused(
                Reason.INVALID_PARAMETER,
                f"{field}[{number}] is illegal: 0 to {most} (setting maxQueueNums)",
            )

    def topic(self, name: str) -> TopicConfig:
        """Give the settings of a topic; refuses an unknown one."""
        topic = self._tables.topics.get(name)
        if topic is None:
            raise Refused(Reason.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
        return topic

    def put_topics(self, wanted: Sequence[TopicConfig]) -> None:
        """Create topics or change them, all or, when one is refused, those before it.

        The attributes of each say what is to change, with signs.
        """
        for topic in wanted:
            changes = ",".join(
                name if value == "" else f"{name}={value}"
                for name, value in topic.attributes.items()
            )
            self.put_topic(topic, changes)

    def topics(self) -> dict[str, TopicConfig]:
        """Give every topic by its name."""
        return {topic.topic_name: topic for topic in self._tables.topics}

    def system_topics(self) -> list[str]:
        """Name the topics that nobody may create or delete."""
        ready_made = (
            name for name in self._tables.topics.names() if self._tables.topics.is_system(name)
        )
        return sorted(SYSTEM_TOPICS.union(ready_made))

    def topics_version(self) -> dict[str, int]:
        """Give the DataVersion of the topics."""
        return self._tables.topics.data_version()

    def groups(self) -> dict[str, SubscriptionGroupConfig]:
        """Give every group by its name."""
        return {group.group_name: group for group in self._tables.groups}

    def groups_version(self) -> dict[str, int]:
        """Give the DataVersion of the groups."""
        return self._tables.groups.data_version()

    def group(self, name: str) -> SubscriptionGroupConfig:
        """Give the settings of a group, which is made if that is allowed; else refuses."""
        group = self._tables.groups.find(name)
        if group is None:
            raise Refused(Reason.GROUP_NOT_EXIST, "No group in this broker")
        return group

    def may_read(self, group: str, topic: str, *, may: bool | None = None) -> bool:
        """Forbid a group to read a topic, or allow it; say whether it may. None changes nothing."""
        if may is not None:
            check_saved(self._tables.groups, "config/subscriptionGroup.json", self._health)
            self._tables.groups.forbid(group, topic, reading=not may)
        return not self._tables.groups.is_forbidden(group, topic)

    def forbidden(self) -> dict[str, dict[str, int]]:
        """Give what groups may not do with topics, as bits of permissions."""
        return self._tables.groups.forbidden()

    def put_group(self, group: SubscriptionGroupConfig) -> None:
        """Create the settings of a consumer group or replace them; 4.9 takes any name."""
        problem = self._tables.groups.problem(group.group_name)
        if problem is not None and self._env.profile.checks_group_names:
            raise Refused(Reason.INVALID_PARAMETER, problem)
        self._check_queues("retryQueueNums", group.retry_queue_nums)
        check_saved(self._tables.groups, "config/subscriptionGroup.json", self._health)
        self._tables.groups.put(group)

    def update_options(self, text: str) -> list[str]:
        """Change options, all of them or none, from lines of `name=value`.

        Gives the names that a real broker has and this one has no use for. Nobody may change a
        black-listed name this way.
        """
        settings: dict[str, object] = {}
        without_effect: list[str] = []
        try:
            for name, value in read_properties(text):
                if name in BLACK_LIST:
                    raise Refused(
                        Reason.NO_PERMISSION, f"Can not update config in black list: {name}"
                    )
                if check_known(name):
                    settings[name] = value
                else:
                    without_effect.append(name)
            self._env.config.update_inside(settings)
        except ConfigError as error:
            raise Refused(Reason.FAILED, str(error)) from error
        if settings:
            self._changes += 1
            self._changed_ms = self._env.clock.now_ms
        return without_effect

    def options(self) -> dict[str, str]:
        """Give every option with its value, the arguments first."""
        given = {name: self._arguments[name] for name in ARGUMENT_NAMES if name in self._arguments}
        shown = {name: OPTIONS[name].shown(value) for name, value in self._env.config.items()}
        return given | shown

    def options_version(self) -> dict[str, int]:
        """Give the DataVersion of the options: how often they were changed, and when last."""
        version = {"counter": self._changes, "timestamp": self._changed_ms}
        return (
            {**version, "stateVersion": 0} if self._env.profile.data_version_has_state else version
        )
