"""Do the members of a group subscribe to the same: asked at a broker while somebody debugs.

Members that do not lose messages without a word. A broker keeps one table of subscriptions for a
group: the last heartbeat decides which topics are in it, and of two expressions for a topic the one
that was subscribed later. `Agreement` compares that table with what this member subscribes. This
module must not know who calls it again and again. Facts: ``ConsumerGroupInfo.updateSubscription``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from attrs import define, field

from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.groups import ConsumerConnection
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.admin import GetConsumerConnectionListRequestHeader
from rocketmq_py.protocol.names import retry_topic

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.consumer.subscriptions import SubscriptionTable
    from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData

logger = get_logger(__name__)

ASK_MS: Final = 3_000.0
PART_OF_A_HEARTBEAT: Final = 0.9
"""Between two looks, so that most fall between another member's heartbeat and the own next one."""


@define(eq=False, repr=False)
class Agreement:
    """Whether the other members of a group subscribe to what this one does."""

    _engine: ClientInstance
    _group: str
    _subscriptions: SubscriptionTable
    _told: list[str] = field(factory=list, init=False)

    def look(self, _lanes: Iterable[Lane] = ()) -> None:
        """Ask a broker, and warn of what is new; may block. Nothing without the level DEBUG."""
        if not logger.isEnabledFor(logging.DEBUG):
            return
        try:
            found = self._asked()
        except RocketMQError as error:
            logger.debug("group %s: nobody says what its members subscribe: %s", self._group, error)
            return
        if found is None or len(found.connection_set) < 2:
            return
        told = sorted(self._differences(found.subscription_table))
        if told and told != self._told:
            logger.warning(
                "group %s: its members do not subscribe to the same, so each of them misses "
                "messages: %s. Give them the same subscriptions, or different groups",
                self._group,
                "; ".join(told),
            )
        self._told = told

    def _asked(self) -> ConsumerConnection | None:
        """Give the group as one of its brokers knows it; None when nobody can be asked."""
        routes = self._engine.routes
        asked = (address for topic in self._topics() for address in routes.addresses_to_ask(topic))
        address = next(asked, None)
        if address is None:
            return None
        header = GetConsumerConnectionListRequestHeader(consumer_group=self._group)
        command = RemotingCommand(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, ext_fields=header.to_ext()
        )
        answer = self._engine.remoting.invoke(address, command, ASK_MS)
        if answer.code != ResponseCode.SUCCESS:
            return None
        return ConsumerConnection.decode(answer.body)

    def _topics(self) -> list[str]:
        own = retry_topic(self._group)
        return [topic for topic in self._subscriptions.topics() if topic != own]

    def _differences(self, table: dict[str, SubscriptionData]) -> Iterator[str]:
        own = self._topics()
        for topic in set(own).symmetric_difference(table) - {retry_topic(self._group)}:
            yield f"{topic} is subscribed by {'this member' if topic in own else 'another'} only"
        for topic in set(own).intersection(table):
            mine, theirs = self._subscriptions.get(topic), table[topic]
            if mine is None or theirs.sub_version < mine.sub_version:
                continue  # a heartbeat of this member is on its way
            if _selects(mine) != _selects(theirs):
                yield f"{topic} with {mine.sub_string!r} here, {theirs.sub_string!r} elsewhere"


def _selects(subscription: SubscriptionData) -> tuple[str, object]:
    """Give what a subscription selects; the order of tags does not count."""
    kind = subscription.expression_type
    return kind, subscription.tags_set or subscription.sub_string
