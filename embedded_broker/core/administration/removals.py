"""Removal of topics and groups, and of what goes with them.

The rules of AdminBrokerProcessor's deleteTopic and deleteSubscriptionGroup. A topic takes along its
messages, the offsets that groups have committed in it, and the retry topics that POP made for it. A
group takes along its offsets only when that is asked for. Must not know: requests.
"""

from collections.abc import Callable

from attrs import define

from embedded_broker.core.administration.settings import check_saved
from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.broker_tables import Tables
from rocketmq_py.protocol.names import retry_topic


@define(eq=False, kw_only=True)
class Removals:
    """What can be taken away from one broker."""

    _env: Environment
    _tables: Tables
    _let_old_go: Callable[[], None]

    def topic(self, name: str) -> None:
        """Delete a topic with its messages; one that is not there is no error.

        Refuses a blank name and a system topic.
        """
        if not name or name.isspace():
            raise Refused(Reason.INVALID_PARAMETER, "The specified topic is blank.")
        guarded = self._env.config.flag("validateSystemTopicWhenUpdateTopic")
        if guarded and self._tables.topics.is_system(name):
            raise Refused(
                Reason.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic."
            )
        check_saved(self._tables.topics, "config/topics.json", self._env.store.health)
        for group in self._tables.offsets.readers().get(name, []):
            for separator in "_+":  # the names of POP's first and second version
                self._remove(f"{retry_topic(group)}{separator}{name}")
        self._remove(name)

    def _remove(self, name: str) -> None:
        queues = self._env.store.of_topic(name)
        if not self._tables.topics.remove(name) and not queues:
            return
        self._tables.offsets.forget_topic(name)
        self._tables.deliveries.forget_topic(name)
        for queue in queues.values():
            queue.hide(queue.max_offset)
        self._tables.deleted_topics.put(
            name, {number: queue.max_offset for number, queue in queues.items()}
        )

    def messages_without_topic(self) -> None:
        """Take away what came for topics after their end, such as a timer that was due later."""
        for name in dict.fromkeys(topic for topic, _ in self._env.store.queues):
            if name not in self._tables.topics and not self._tables.topics.is_system(name):
                self._remove(name)

    def old_messages(self) -> None:
        """Let everything go that is old, whatever the hour; done in background."""
        self._let_old_go()

    def group(self, name: str, *, with_offsets: bool = False) -> None:
        """Delete the settings of a group, and what it has committed if that is asked for."""
        check_saved(self._tables.groups, "config/subscriptionGroup.json", self._env.store.health)
        self._tables.groups.remove(name)
        if with_offsets:
            self._tables.offsets.forget_group(name)
            self._tables.deliveries.forget_group(name)
