"""Progress of consumer groups: requests 43, 300, 303, 308, 314, 317, 321, 343 and 345.

The reports of RocketMQ's AdminBrokerProcessor, in front of
`core/administration/consumption.py`.
"""

from attrs import define

from embedded_broker.core.administration.consumption import Consumption
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.long_requests import Work
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.bodies.consumption import CorrectionOffsets, GroupList, SubscriptionView
from rocketmq_py.protocol.bodies.topics import TopicList
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.groups import (
    CloneGroupOffsetRequestHeader,
    GetConsumeStatsInBrokerHeader,
    QueryConsumeQueueRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryCorrectionOffsetHeader,
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
)


@define(eq=False)
class ConsumptionProcessor:
    """Shows what groups do; `address` is the broker's."""

    _consumption: Consumption
    _address: str

    def register(self, endpoint: Endpoint) -> None:
        """Take over the requests of this module."""
        register, register_long = endpoint.register, endpoint.register_long
        register_long(RequestCode.GET_ALL_CONSUMER_OFFSET, self.all_offsets)
        register(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, self.readers)
        register(RequestCode.QUERY_TOPICS_BY_CONSUMER, self.topics)
        register(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, self.subscription)
        register_long(RequestCode.QUERY_CONSUME_TIME_SPAN, self.time_spans)
        register(RequestCode.QUERY_CORRECTION_OFFSET, self.corrections)
        register(RequestCode.CLONE_GROUP_OFFSET, self.clone)
        register_long(RequestCode.GET_BROKER_CONSUME_STATS, self.of_all_groups)
        register(RequestCode.QUERY_CONSUME_QUEUE, self.entries)

    # -- who --------------------------------------------------------------------------------

    def readers(self, request: Request) -> RemotingCommand:
        """300: the groups that subscribe to a topic, or have committed in it."""
        header = QueryTopicConsumeByWhoRequestHeader.from_ext(request.command.ext_fields)
        body = GroupList(self._consumption.readers_of(header.topic)).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def topics(self, request: Request) -> RemotingCommand:
        """343: the topics in which a group has committed."""
        header = QueryTopicsByConsumerRequestHeader.from_ext(request.command.ext_fields)
        topics = self._consumption.topics_read_by(header.group)
        body = TopicList(topics, self._address).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def subscription(self, request: Request) -> RemotingCommand:
        """345: how a group subscribes to a topic; nothing when nobody of it does."""
        header = QuerySubscriptionByConsumerRequestHeader.from_ext(request.command.ext_fields)
        found = self._consumption.subscription(header.group, header.topic)
        body = SubscriptionView(found, header.group, header.topic).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    # -- how far ----------------------------------------------------------------------------

    def all_offsets(self, request: Request) -> Work:
        """43: everything that was committed."""
        table = yield from self._consumption.all_offsets()
        body = yield table.encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def time_spans(self, request: Request) -> Work:
        """303: how old what a group has still to read is; unknown topic: 17."""
        header = QueryConsumeTimeSpanRequestHeader.from_ext(request.command.ext_fields)
        spans = yield from self._consumption.time_spans(header.topic, header.group)
        body = yield spans.encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def corrections(self, request: Request) -> RemotingCommand:
        """308: the least offsets of all groups but those that are left out."""
        header = QueryCorrectionOffsetHeader.from_ext(request.command.ext_fields)
        left_out = frozenset((header.filter_groups or "").split(","))
        least = self._consumption.corrections(header.topic, header.compare_group, left_out)
        return request.command.answer(ResponseCode.SUCCESS, body=CorrectionOffsets(least).encode())

    def clone(self, request: Request) -> RemotingCommand:
        """314: a group begins where another one is."""
        header = CloneGroupOffsetRequestHeader.from_ext(request.command.ext_fields)
        self._consumption.clone(
            header.src_group, header.dest_group, header.topic, offline=header.offline
        )
        return request.command.answer(ResponseCode.SUCCESS)

    def of_all_groups(self, request: Request) -> Work:
        """317: how far every group is in each of its topics, or in the ordered ones."""
        header = GetConsumeStatsInBrokerHeader.from_ext(request.command.ext_fields)
        told = yield from self._consumption.of_all_groups(ordered_only=header.is_order)
        body = yield told.encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    # -- queues -----------------------------------------------------------------------------

    def entries(self, request: Request) -> RemotingCommand:
        """321: entries of a queue; one that nobody wrote to: 1."""
        header = QueryConsumeQueueRequestHeader.from_ext(request.command.ext_fields)
        view = self._consumption.entries(
            header.topic, header.queue_id, header.index, header.count, header.consumer_group
        )
        return request.command.answer(ResponseCode.SUCCESS, body=view.encode())
