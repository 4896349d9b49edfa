"""Which topics and groups there are, and how they are set up: requests 17, 200, 351 and 352.

The part of RocketMQ's AdminBrokerProcessor that creates, shows and removes them, in front of
`core/administration/settings.py`.
"""

from functools import partial

from attrs import define

from embedded_broker.core.administration import Administration
from embedded_broker.remoting.endpoint import Endpoint, Request
from embedded_broker.remoting.long_requests import Work
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.admin import (
    CreateTopicRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    GetTopicConfigRequestHeader,
)


@define(eq=False)
class TopicsAndGroupsProcessor:
    """Settings of topics and groups."""

    _acts: Administration

    def register(self, endpoint: Endpoint) -> None:
        """Take over the requests of this module."""
        register, register_long = endpoint.register, endpoint.register_long
        register(RequestCode.UPDATE_AND_CREATE_TOPIC, self.put_topic)
        register(RequestCode.GET_TOPIC_CONFIG, self.topic)
        register_long(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, self.put_group)
        register(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, self.group)

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
        self._acts.settings.put_topic(wanted, header.attributes)
        return request.command.answer(ResponseCode.SUCCESS)

    def topic(self, request: Request) -> RemotingCommand:
        """351: the settings of a topic; unknown: 17."""
        header = GetTopicConfigRequestHeader.from_ext(request.command.ext_fields)
        body = self._acts.settings.topic(header.topic).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    # -- groups -----------------------------------------------------------------------------

    def put_group(self, request: Request) -> Work:
        """200: create the settings of a consumer group or replace them."""
        if request.command.body:
            group = yield partial(SubscriptionGroupConfig.decode, request.command.body)
            self._acts.settings.put_group(group)
        return request.command.answer(ResponseCode.SUCCESS)

    def group(self, request: Request) -> RemotingCommand:
        """352: the settings of a group, which is made if that is allowed; else 26."""
        header = GetSubscriptionGroupConfigRequestHeader.from_ext(request.command.ext_fields)
        body = self._acts.settings.group(header.group).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)
