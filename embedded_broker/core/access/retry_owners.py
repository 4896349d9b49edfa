"""Whose messages a retry topic may hold: whoever reads or writes it needs a right to all of them.

What a group failed to consume lies in ``%RETRY%group``; what it popped from a topic and did not ack
in ``%RETRY%group+topic``, or in ``%RETRY%group_topic``, the older name, which is the default. Names
of groups and topics hold underscores, too: ``%RETRY%a_b_c`` may be of the group ``a_b_c``, of
``a_b`` and the topic ``c``, of ``a`` and ``b_c``, and of several at once. Those count that are
known: a group that exists, and a group that has consumed the topic. A pop is not refused because of
a group that merely exists: anybody could make one. Must not know: accounts.
"""

from collections.abc import Iterator, Sequence

from attrs import define

from embedded_broker.core.guards import Resource, ResourceKind, group_resource, topic_resource
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.tables.consumers.groups import GroupTable
from embedded_broker.tables.offsets.table import OffsetTable
from rocketmq_py.protocol.names import RETRY_PREFIX, is_retry_topic
from rocketmq_py.protocol.pop_handles import GroupAndTopic, pop_retry_topic, pops_of_retry_topic


@define(eq=False, kw_only=True)
class RetryOwners:
    """Knows the groups and topics of retry topics. ``has_pop``: the version knows POP."""

    _config: BrokerConfig
    _groups: GroupTable
    _offsets: OffsetTable
    _has_pop: bool

    def resolved(self, resources: Sequence[Resource]) -> Sequence[Resource]:
        """Give what a request is about, with groups and topics in the place of retry topics."""
        if not any(one.name.startswith(RETRY_PREFIX) for one in resources):
            return resources
        owners = (owner for one in resources for owner in self._resolved(one))
        return list(dict.fromkeys(owners))

    def _resolved(self, resource: Resource) -> Sequence[Resource]:
        if resource.kind is ResourceKind.TOPIC and is_retry_topic(resource.name):
            return self.of(resource.name)
        return (resource,)

    def of(self, retry_topic: str) -> list[Resource]:
        """Give the groups and topics whose messages a retry topic may hold."""
        group = retry_topic.removeprefix(RETRY_PREFIX)
        owners = [owner for pop in self._pops(retry_topic) for owner in _rights(pop)]
        if group in self._groups or not owners:
            owners.insert(0, group_resource(group))
        return owners

    def beside(self, group: str, topic: str) -> list[Resource]:
        """Give whose messages the pops of a group from a topic may get besides its own.

        None where what comes back has names of its own (``enableRetryTopicV2``).
        """
        config = self._config
        v1_is_read = config.flag("retrieveMessageFromPopRetryTopicV1")
        if config.flag("enableRetryTopicV2") and not v1_is_read:
            return []
        name = pop_retry_topic(topic, group)
        own = GroupAndTopic(group, topic)
        others = [owner for pop in self._pops(name) if pop != own for owner in _rights(pop)]
        if self._offsets.is_stored(name.removeprefix(RETRY_PREFIX), name):
            others.insert(0, group_resource(name))
        return others

    def _pops(self, retry_topic: str) -> Iterator[GroupAndTopic]:
        """Give the groups whose pops from a topic may have come back to a retry topic."""
        for pop, is_certain in pops_of_retry_topic(retry_topic) if self._has_pop else ():
            if is_certain or any(
                self._offsets.is_stored(pop.group, topic) for topic in (pop.topic, retry_topic)
            ):
                yield pop


def _rights(pop: GroupAndTopic) -> tuple[Resource, Resource]:
    group, topic = pop
    named = group_resource(topic) if is_retry_topic(topic) else topic_resource(topic)
    return group_resource(group), named
