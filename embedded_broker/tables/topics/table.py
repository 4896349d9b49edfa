"""Topic table: the topics of one broker, who may create one, and who hears about it.

State of RocketMQ's TopicConfigManager. Every call is made under the door. This module knows no
request and no file format beyond its own JSON object; the handlers decide what to answer when a
topic is missing. Read on: `core/send_gate.py` (creation by a send),
`remoting/handlers/admin/admin_broker.py` (request 17), `namesrv/routes.py` (who listens to
changes).
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import Profile
from embedded_broker.tables.files import VersionedTable
from embedded_broker.tables.topics.attributes import (
    BATCH_QUEUES,
    QUEUE_TYPE,
    apply_attributes,
    takes_batches,
)
from embedded_broker.tables.topics.ready_made import READ_WRITE, ready_made_topics
from rocketmq_py.clock import Clock
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import PERM_INHERIT
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC, is_group_topic, is_system_topic

logger = get_logger(__name__)

TopicListener = Callable[[TopicConfig], None]


class TopicTable(VersionedTable):
    """Topic name to configuration, with the rules by which a topic comes to be.

    `listeners` are called under the door with every configuration that is new or changed.
    """

    document_key = "topicConfigTable"

    def __init__(
        self,
        config: BrokerConfig,
        profile: Profile,
        clock: Clock,
        *,
        cluster_name: str,
        broker_name: str,
    ) -> None:
        super().__init__(clock, profile)
        self._config = config
        self._topics: dict[str, TopicConfig] = {}
        self.listeners: list[TopicListener] = []
        self.on_removed: list[Callable[[str], None]] = []
        """Called under the door with the name of every topic that is removed."""
        self.get: Callable[[str], TopicConfig | None] = self._topics.get
        for topic in ready_made_topics(
            config, version=profile.version, cluster_name=cluster_name, broker_name=broker_name
        ):
            self._topics[topic.topic_name] = topic
        self._ready_made = frozenset(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, name: object) -> bool:
        return name in self._topics

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(self._topics.values())

    def names(self) -> list[str]:
        """Give all topic names, system topics included, in order of creation."""
        return list(self._topics)

    def created(self) -> list[str]:
        """Give the names of the topics that a fresh broker has not, in order of creation."""
        return [name for name in self._topics if name not in self._ready_made]

    def put(self, topic: TopicConfig) -> None:
        """Create or replace a topic; listeners hear of it unless nothing changed."""
        if self._topics.get(topic.topic_name) == topic:
            return
        self._topics[topic.topic_name] = topic
        self.note_change(topic.topic_name)
        for listener in self.listeners:
            listener(topic)

    def remove(self, name: str) -> bool:
        """Remove a topic; False when there is none."""
        if self._topics.pop(name, None) is None:
            return False
        self.note_change(name)
        for listener in self.on_removed:
            listener(name)
        return True

    def create_for_send(
        self, name: str, template_name: str, queues_wanted: int, *, sys_flag: int = 0
    ) -> TopicConfig | None:
        """Create a topic because a message arrived for it, or return None when that is refused.

        The template must exist with the inherit bit; the new topic has at most the template's
        queues and its permissions without that bit (createTopicInSendMessageMethod).
        """
        template = self._topics.get(template_name)
        if template is None or not template.perm & PERM_INHERIT:
            return None
        if template_name == AUTO_CREATE_TOPIC and not self._config.flag("autoCreateTopicEnable"):
            return None
        queues = max(0, min(queues_wanted, template.write_queue_nums))
        topic = TopicConfig(
            topic_name=name,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=template.perm & ~PERM_INHERIT,
            topic_sys_flag=sys_flag,
            topic_filter_type=template.topic_filter_type,
        )
        self.put(topic)
        return topic

    def ensure(
        self, name: str, queues: int, *, sys_flag: int = 0, order: bool | None = None
    ) -> tuple[TopicConfig, bool]:
        """Return a retry or dead-letter topic and whether it had to be created now.

        `order` is written to a topic that exists already, too
        (createTopicInSendMessageBackMethod); None leaves it alone.
        """
        topic = self._topics.get(name)
        if topic is None:
            topic = TopicConfig(
                topic_name=name,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=READ_WRITE,
                topic_sys_flag=sys_flag,
                order=bool(order),
            )
            self.put(topic)
            return topic, True
        if order is not None and topic.order != order:
            topic = evolve(topic, order=order)
            self.put(topic)
        return topic, False

    def update(self, wanted: TopicConfig, attribute_changes: Mapping[str, str]) -> None:
        """Do what request 17 asks: create or replace, with attributes changed by sign.

        Raises TopicAttributeError when an attribute cannot be applied; nothing is changed then.
        """
        old = self._topics.get(wanted.topic_name)
        attributes = apply_attributes(
            None if old is None else old.attributes or {}, attribute_changes
        )
        self.put(evolve(wanted, attributes=attributes))

    def is_system(self, name: str) -> bool:
        """Say whether the topic belongs to the broker itself, so that nobody may redefine it."""
        return name in self._ready_made or is_system_topic(name)

    def takes_batches(self, name: str) -> bool:
        """Say whether this is a BatchCQ topic."""
        return takes_batches(self._topics.get(name))

    def restore(
        self, used: Iterable[tuple[str, int]], *, batch_topics: Container[str] = ()
    ) -> list[str]:
        """Make the topics anew that have messages or waiting timers and are in no file.

        That is when the process died between a topic's creation and the save. `used` names each
        topic with a queue that was used. It gets as many queues as are known, and at least those of
        the template from which sends create topics: a waiting timer may belong to any of them. A
        topic of retries or dead letters has one. Those in ``batch_topics`` become BatchCQ topics.
        Gives a line about each of them.
        """
        template = self._topics.get(AUTO_CREATE_TOPIC)
        at_least = 1 if template is None else template.write_queue_nums
        at_most = self._config.int("maxQueueNums")
        queues: dict[str, int] = {}
        for name, queue_id in used:
            if name not in self._topics and not self.is_system(name):
                known = queues.get(name) or (1 if is_group_topic(name) else at_least)
                queues[name] = max(known, min(queue_id + 1, at_most))
        lines = []
        for name, count in queues.items():
            lines.append(f"topic {name} was in no file; it has {count} queues again")
            logger.warning("%s", lines[-1])
            topic = TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count)
            if name in batch_topics:
                topic.attributes[QUEUE_TYPE] = BATCH_QUEUES
            self.put(topic)
        return lines

    def keys(self) -> Iterable[str]:
        """Give the names of all topics."""
        return self._topics

    def value(self, key: str) -> TopicConfig | None:
        """Give a topic; it is never changed, another one takes its place."""
        return self._topics.get(key)

    def entry(self, key: str, value: TopicConfig) -> tuple[str, Any]:
        """Give what `config/topics.json` holds of a topic."""
        document = value.to_document()
        if not self._profile.topic_attributes:
            del document["attributes"]
        return key, document

    def head(self) -> dict[str, Any]:
        """Give the version, which stands beside the topics."""
        return {"dataVersion": self.data_version()}

    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over what `config/topics.json` holds; a stored topic replaces a ready-made one."""
        for name, fields in (stored.get("topicConfigTable") or {}).items():
            topic = TopicConfig.from_document(fields)
            self._topics[str(name)] = evolve(topic, topic_name=str(name))
        self.take_version(stored)
