"""Creating, changing, listing and deleting topics and consumer groups.

Requests 17, 18, 21, 215, 305, 306, 316, 329 and 351 about topics, 200, 201, 207, 225, 352 and 353
about groups.

The part of RocketMQ's AdminBrokerProcessor that creates, shows and removes them, in front of
`core/administration/settings.py`.
"""

from functools import partial
from typing import Final

from attrs import define

from embedded_broker.core.administration import Administration
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.long_requests import Work, elsewhere
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.bodies.groups import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupConfigs,
    SubscriptionGroupTable,
)
from rocketmq_py.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigs,
    TopicConfigTable,
    TopicList,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.admin import (
    CreateTopicRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    GetTopicConfigRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)

_MANY: Final = 500
"""A longer list is written outside the door."""


@define(eq=False)
class TopicsAndGroupsProcessor:
    """Settings of topics and groups."""

    _administration: Administration
    _has_static_topics: bool

    def register(self, endpoint: Endpoint) -> None:
        """Take over the requests of this module."""
        register, register_long = endpoint.register, endpoint.register_long
        register(RequestCode.UPDATE_AND_CREATE_TOPIC, self.put_topic)
        register_long(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, self.put_topics)
        register_long(RequestCode.GET_ALL_TOPIC_CONFIG, self.topics)
        register(RequestCode.GET_TOPIC_CONFIG, self.topic)
        register(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, self.system_topics)
        register(RequestCode.DELETE_TOPIC_IN_BROKER, self.delete_topic)
        register(RequestCode.CLEAN_UNUSED_TOPIC, self.clean_unused)
        register(RequestCode.DELETE_EXPIRED_COMMITLOG, self.delete_expired)
        register(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, self.clean_queues)
        register_long(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, self.put_group)
        register_long(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, self.put_groups)
        register_long(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self.groups)
        register(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, self.group)
        register(RequestCode.DELETE_SUBSCRIPTIONGROUP, self.delete_group)
        register(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, self.may_read)

    # -- topics -----------------------------------------------------------------------------

    def put_topic(self, request: Request) -> RemotingCommand:
        """17: create a topic or change it.

        A bad name, a system topic and the type MIXED are 1 or 29 by profile; an attribute that
        cannot be applied is 1.
        """
        header = CreateTopicRequestHeader.from_ext(request.command.ext_fields)
        wanted = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
        )
        self._administration.settings.put_topic(wanted, header.attributes)
        return request.command.answer(ResponseCode.SUCCESS)

    def topic(self, request: Request) -> RemotingCommand:
        """351: the settings of a topic; unknown: 17."""
        header = GetTopicConfigRequestHeader.from_ext(request.command.ext_fields)
        body = self._administration.settings.topic(header.topic).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def put_topics(self, request: Request) -> Work:
        """18: create topics or change them; the first that is refused ends it."""
        wanted: TopicConfigs = yield partial(TopicConfigs.decode, request.command.body)
        for topic in wanted.topic_config_list:
            self._administration.settings.put_topics([topic])
            yield None
        return request.command.answer(ResponseCode.SUCCESS)

    def topics(self, request: Request) -> Work:
        """21: every topic, with the version of the table."""
        settings = self._administration.settings
        table = TopicConfigTable(
            data_version=DataVersion.from_document(settings.topics_version()),
            topic_config_table=settings.topics(),
        )
        if self._has_static_topics:
            table.mapping_data_version = DataVersion()
            table.topic_queue_mapping_detail_map = {}
            table.topic_queue_mapping_info_map = {}
        if len(table.topic_config_table) > _MANY:
            yield elsewhere
        body = yield table.encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def system_topics(self, request: Request) -> RemotingCommand:
        """305: the topics that nobody may create or delete."""
        body = TopicList(self._administration.settings.system_topics()).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def delete_topic(self, request: Request) -> RemotingCommand:
        """215: delete a topic with its messages; a system topic is 1 or 29 by profile."""
        header = DeleteTopicRequestHeader.from_ext(request.command.ext_fields)
        self._administration.removals.topic(header.topic)
        return request.command.answer(ResponseCode.SUCCESS)

    def clean_unused(self, request: Request) -> RemotingCommand:
        """316: take away what came for topics after their end."""
        self._administration.removals.messages_without_topic()
        return request.command.answer(ResponseCode.SUCCESS)

    def delete_expired(self, request: Request) -> RemotingCommand:
        """329: let old files go, whatever the hour."""
        self._administration.removals.old_messages()
        return request.command.answer(ResponseCode.SUCCESS)

    def clean_queues(self, request: Request) -> RemotingCommand:
        """306: nothing is left to do, because queues follow the commit log at once."""
        return request.command.answer(ResponseCode.SUCCESS)

    # -- groups -----------------------------------------------------------------------------

    def put_group(self, request: Request) -> Work:
        """200: create the settings of a consumer group or replace them."""
        if request.command.body:
            group = yield partial(SubscriptionGroupConfig.decode, request.command.body)
            self._administration.settings.put_group(group)
        return request.command.answer(ResponseCode.SUCCESS)

    def group(self, request: Request) -> RemotingCommand:
        """352: the settings of a group, which is made if that is allowed; else 26."""
        header = GetSubscriptionGroupConfigRequestHeader.from_ext(request.command.ext_fields)
        body = self._administration.settings.group(header.group).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def put_groups(self, request: Request) -> Work:
        """225: create groups or replace their settings; the first that is refused ends it."""
        wanted = yield partial(SubscriptionGroupConfigs.decode, request.command.body)
        for group in wanted.group_config_list:
            self._administration.settings.put_group(group)
            yield None
        return request.command.answer(ResponseCode.SUCCESS)

    def groups(self, request: Request) -> Work:
        """201: every group, with the version of the table."""
        settings = self._administration.settings
        table = SubscriptionGroupTable(
            data_version=DataVersion.from_document(settings.groups_version()),
            forbidden_table=settings.forbidden(),
            subscription_group_table=settings.groups(),
        )
        if len(table.subscription_group_table) > _MANY:
            yield elsewhere
        body = yield table.encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def delete_group(self, request: Request) -> RemotingCommand:
        """207: delete a group; its offsets too under removeOffset (4.9) or cleanOffset (5.x)."""
        header = DeleteSubscriptionGroupRequestHeader.from_ext(request.command.ext_fields)
        with_offsets = header.remove_offset or header.clean_offset
        self._administration.removals.group(header.group_name, with_offsets=with_offsets)
        return request.command.answer(ResponseCode.SUCCESS)

    def may_read(self, request: Request) -> RemotingCommand:
        """353: forbid a group to read a topic or allow it, and tell whether it may."""
        header = UpdateGroupForbiddenRequestHeader.from_ext(request.command.ext_fields)
        may = self._administration.settings.may_read(
            header.group, header.topic, may=header.readable
        )
        body = GroupForbidden(header.group, header.topic, may).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)
