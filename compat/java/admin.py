"""The administrator's client with Java's names: ``DefaultMQAdminExt`` of the original.

Names and argument orders are Java's; what a call takes and gives are the SDK's values, which are
frozen and have aware times. Must not know requests. Read on: `rocketmq_py.admin.AdminClient`, whose
calls this client has, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, overload

from attrs import define, setters

import rocketmq_py
from compat.java import forms
from compat.java.construction import settings_of
from compat.java.messages import MessageExt, plain
from compat.java.settings import ClientNames
from compat.java.signing import AclClientRPCHook
from rocketmq_py import ClusterInfo, QueueBounds
from rocketmq_py import MessageQueue as AnyQueue
from rocketmq_py.admin import (
    AdminClient,
    ConsumedNow,
    GroupMembers,
    GroupProgress,
    GroupSettings,
    Member,
    MemberState,
    MessageTrack,
    TopicPlace,
    TopicSettings,
    User,
)
from rocketmq_py.errors import UnsupportedOperationError

_USER_TYPES = {"Super": True, "Normal": False}
"""Whether a user of a type may do everything."""


@define(init=False, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class DefaultMQAdminExt(rocketmq_py.DefaultMQAdminExt, AdminClient, ClientNames):
    """Asks and changes brokers and name servers; made of Java's arguments.

    >>> admin = DefaultMQAdminExt(3000)
    >>> admin.setNamesrvAddr("127.0.0.1:9876")
    """

    @overload
    def __init__(self, timeoutMillis: int = ..., /) -> None: ...

    @overload
    def __init__(self, rpcHook: AclClientRPCHook | None, timeoutMillis: int = ..., /) -> None: ...

    def __init__(self, *given: Any, **settings: Any) -> None:  # Any: the overloads say what
        kind = type(self).__name__
        super().__init__(**settings_of(kind, forms.ADMIN, given, settings))

    # --- brokers and name servers ----------------------------------------------------------

    def examineBrokerClusterInfo(self) -> ClusterInfo:
        """Java's spelling of `examine_broker_cluster_info`."""
        return self.examine_broker_cluster_info()

    def fetchBrokerRuntimeStats(self, brokerAddr: str) -> dict[str, str]:
        """Java's spelling of `fetch_broker_runtime_stats`."""
        return self.fetch_broker_runtime_stats(brokerAddr)

    def getBrokerConfig(self, brokerAddr: str) -> dict[str, str]:
        """Java's spelling of `get_broker_config`."""
        return self.get_broker_config(brokerAddr)

    def updateBrokerConfig(self, brokerAddr: str, properties: Mapping[str, str]) -> None:
        """Java's spelling of `update_broker_config`."""
        self.update_broker_config(brokerAddr, properties)

    def getNameServerAddressList(self) -> list[str]:
        """Java's spelling of `name_servers`."""
        return list(self.name_servers)

    def putKVConfig(self, namespace: str, key: str, value: str) -> None:
        """Java's spelling of `put_kv_config`."""
        self.put_kv_config(namespace, key, value)

    def createAndUpdateKvConfig(self, namespace: str, key: str, value: str) -> None:
        """Java's spelling of `put_kv_config`."""
        self.put_kv_config(namespace, key, value)

    def deleteKvConfig(self, namespace: str, key: str) -> None:
        """Let every name server forget a value."""
        self.put_key_value(namespace, key, None)

    def getKVConfig(self, namespace: str, key: str) -> str | None:
        """Give a value that name servers keep, or None."""
        return self.key_values(namespace).get(key)

    def getKVListByNamespace(self, namespace: str) -> dict[str, str]:
        """Java's spelling of `key_values`."""
        return self.key_values(namespace)

    # --- topics ----------------------------------------------------------------------------

    def fetchAllTopicList(self) -> list[str]:
        """Java's spelling of `fetch_all_topic_list`."""
        return self.fetch_all_topic_list()

    def createAndUpdateTopicConfig(self, addr: str, topic: str, config: TopicSettings) -> None:
        """Java's spelling of `create_and_update_topic_config`: the topic's name stands alone."""
        self.create_and_update_topic_config(addr, topic, config)

    def examineTopicConfig(self, addr: str, topic: str) -> TopicSettings | None:
        """Java's spelling of `examine_topic_config`."""
        return self.examine_topic_config(addr, topic)

    def examineTopicRouteInfo(self, topic: str) -> tuple[TopicPlace, ...]:
        """Java's spelling of `examine_topic_route_info`."""
        return self.examine_topic_route_info(topic)

    def examineTopicStats(self, topic: str) -> dict[AnyQueue, QueueBounds]:
        """Java's spelling of `examine_topic_stats`."""
        return self.examine_topic_stats(topic)

    def queryTopicConsumeByWho(self, topic: str) -> tuple[str, ...]:
        """Java's spelling of `query_topic_consume_by_who`."""
        return self.query_topic_consume_by_who(topic)

    def deleteTopicInBroker(self, addrs: Iterable[str], topic: str) -> None:
        """Java's spelling of `delete_topic_in_broker`."""
        self.delete_topic_in_broker(set(addrs), topic)

    def deleteTopicInNameServer(self, addrs: Iterable[str], topic: str) -> None:
        """Java's spelling of `delete_topic_in_name_server`."""
        self.delete_topic_in_name_server(set(addrs), topic)

    def maxOffset(self, mq: AnyQueue) -> int:
        """Give the offset that the queue's next message will get."""
        return self.bounds(mq.topic)[plain(mq)].max_offset

    def minOffset(self, mq: AnyQueue) -> int:
        """Give the first offset of a queue that can be read."""
        return self.bounds(mq.topic)[plain(mq)].min_offset

    # --- groups ----------------------------------------------------------------------------

    def createAndUpdateSubscriptionGroupConfig(
        self, addr: str, group: str, config: GroupSettings
    ) -> None:
        """Java's spelling of `create_and_update_subscription_group_config`."""
        self.create_and_update_subscription_group_config(addr, group, config)

    def deleteSubscriptionGroup(
        self, addr: str, groupName: str, removeOffset: bool = False
    ) -> None:
        """Java's spelling of `delete_subscription_group`."""
        self.delete_subscription_group(addr, groupName, removeOffset)

    def examineConsumeStats(self, consumerGroup: str, topic: str | None = None) -> GroupProgress:
        """Java's spelling of `examine_consume_stats`."""
        return self.examine_consume_stats(consumerGroup, topic)

    def examineConsumerConnectionInfo(self, consumerGroup: str) -> GroupMembers:
        """Java's spelling of `examine_consumer_connection_info`."""
        return self.examine_consumer_connection_info(consumerGroup)

    def examineProducerConnectionInfo(self, producerGroup: str) -> tuple[Member, ...]:
        """Java's spelling of `examine_producer_connection_info`: all masters are asked."""
        return self.examine_producer_connection_info(producerGroup)

    def getConsumerRunningInfo(
        self, consumerGroup: str, clientId: str, jstack: bool
    ) -> MemberState:
        """Java's spelling of `get_consumer_running_info`."""
        return self.get_consumer_running_info(consumerGroup, clientId, jstack)

    def resetOffsetByTimestamp(
        self, topic: str, group: str, timestamp: int, isForce: Literal[True]
    ) -> dict[AnyQueue, int]:
        """Let a group go on at a store time in epoch ms; -1 is the end.

        ``isForce`` must be True: offsets move forwards, too; else `UnsupportedOperationError`.
        """
        if isForce is not True:
            raise UnsupportedOperationError(
                f"isForce={isForce!r} is not possible: a reset also moves offsets forwards"
            )
        return self.reset_offset_by_timestamp(topic, group, timestamp)

    def setMessageRequestMode(
        self, brokerAddr: str, topic: str, consumerGroup: str, mode: str, popShareQueueNum: int
    ) -> None:
        """Java's spelling of `set_message_request_mode`; ``mode`` is ``PULL`` or ``POP``."""
        self.set_message_request_mode(brokerAddr, topic, consumerGroup, mode, popShareQueueNum)

    # --- messages --------------------------------------------------------------------------

    def viewMessage(self, topic: str, msgId: str) -> MessageExt:
        """Java's spelling of `view_message`."""
        return MessageExt.of(self.view_message(topic, msgId))

    def messageTrackDetail(self, msg: rocketmq_py.MessageExt) -> list[MessageTrack]:
        """Java's spelling of `message_track_detail`."""
        return list(self.message_track_detail(msg))

    def consumeMessageDirectly(
        self, consumerGroup: str, clientId: str, topic: str, msgId: str
    ) -> ConsumedNow:
        """Java's spelling of `consume_message_directly`."""
        return self.consume_message_directly(consumerGroup, clientId, topic, msgId)

    def resumeCheckHalfMessage(self, topic: str, msgId: str) -> bool:
        """Let a broker ask again about a half message that it gave up; True, or it raises."""
        self.ask_again(self.message(topic, msgId))
        return True

    # --- users of ACL 2 (5.3) --------------------------------------------------------------

    def createUser(
        self,
        brokerAddr: str,
        username: str,
        password: str,
        userType: Literal["Super", "Normal"],
    ) -> None:
        """Add a user at one broker; ValueError for another type."""
        if userType not in _USER_TYPES:
            raise ValueError(f"userType={userType!r} is not possible: Super or Normal")
        self.create_user(username, password, super_user=_USER_TYPES[userType], at=brokerAddr)

    def deleteUser(self, brokerAddr: str, username: str) -> None:
        """Remove a user at one broker, with the policies."""
        self.delete_user(username, at=brokerAddr)

    def listUser(self, brokerAddr: str, filter: str | None) -> list[User]:  # noqa: A002 - Java's
        """Give the users of one broker whose name contains a text."""
        return [user for each in self.users(filter, at=brokerAddr).values() for user in each]
