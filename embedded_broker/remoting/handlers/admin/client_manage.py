"""Heartbeats and offsets of clients: requests 34, 35, 46, 38, 14 and 15.

RocketMQ's ClientManageProcessor and ConsumerManageProcessor, in front of
`core/administration/clients.py` and `core/administration/offsets.py`.
"""

from functools import partial

from attrs import define

from embedded_broker.core.administration import Administration
from embedded_broker.core.filters import LONG, Filters
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.long_requests import Work, elsewhere
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.bodies.groups import ClientConfigCheck, ConsumerList
from rocketmq_py.protocol.bodies.heartbeat import HeartbeatData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import (
    GetConsumerListByGroupRequestHeader,
    UnregisterClientRequestHeader,
)
from rocketmq_py.protocol.headers.consume import (
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)


@define(eq=False)
class ClientManageProcessor:
    """Hands over what clients say of themselves, and what a consumer asks before it pulls."""

    _administration: Administration
    _filters: Filters
    _takes_fingerprints: bool
    _endpoint: Endpoint

    def register(self) -> None:
        """Take over the requests of this module."""
        endpoint = self._endpoint
        endpoint.register_long(RequestCode.HEART_BEAT, self.heartbeat)
        endpoint.register(RequestCode.UNREGISTER_CLIENT, self.unregister)
        endpoint.register_long(RequestCode.CHECK_CLIENT_CONFIG, self.check_config)
        endpoint.register(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.consumers_of_group)
        endpoint.register(RequestCode.QUERY_CONSUMER_OFFSET, self.query_offset)
        endpoint.register(RequestCode.UPDATE_CONSUMER_OFFSET, self.update_offset)

    def heartbeat(self, request: Request) -> Work:
        """34: register producers and consumers of one client.

        5.x answers that a fingerprint is enough instead of all subscriptions, and whether they must
        come along next time.
        """
        command = request.command
        data: HeartbeatData = yield partial(HeartbeatData.decode, command.body)
        subscriptions = (one.subscription_data_set for one in data.consumer_data_set)
        if any(len(one.sub_string) > LONG for each in subscriptions for one in each):
            yield elsewhere
        is_outdated = yield from self._administration.clients.heartbeat(
            request.connection,
            data,
            command.language,
            command.version,
            self._endpoint.caller(request),
        )
        fields = None
        if self._takes_fingerprints:
            outdated = str(is_outdated).lower()
            fields = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": outdated}
        return command.answer(ResponseCode.SUCCESS, ext_fields=fields)

    def unregister(self, request: Request) -> RemotingCommand:
        """35: a client leaves one producer group or one consumer group."""
        header = UnregisterClientRequestHeader.from_ext(request.command.ext_fields)
        self._administration.clients.unregister(
            request.connection,
            producer_group=header.producer_group,
            consumer_group=header.consumer_group,
        )
        return request.command.answer(ResponseCode.SUCCESS)

    def check_config(self, request: Request) -> Work:
        """46: may this subscription be used? Tags always; SQL92 needs enablePropertyFilter."""
        check: ClientConfigCheck = yield partial(ClientConfigCheck.decode, request.command.body)
        asked = check.subscription_data
        if len(asked.sub_string) > LONG:
            yield elsewhere
        yield partial(self._filters.check, asked.expression_type, asked.sub_string)
        return request.command.answer(ResponseCode.SUCCESS)

    def consumers_of_group(self, request: Request) -> RemotingCommand:
        """38: the client ids of a group's members in order of arrival; nobody there: 1."""
        header = GetConsumerListByGroupRequestHeader.from_ext(request.command.ext_fields)
        body = ConsumerList(self._administration.clients.client_ids(header.consumer_group)).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def query_offset(self, request: Request) -> RemotingCommand:
        """14: the committed offset, else 0 or 22; a caller may say setZeroIfNotFound=false."""
        header = QueryConsumerOffsetRequestHeader.from_ext(request.command.ext_fields)
        offset = self._administration.offsets.query(
            header.consumer_group,
            header.topic,
            header.queue_id,
            zero_if_none=header.set_zero_if_not_found is not False,
        )
        return request.command.answer(ResponseCode.SUCCESS, ext_fields={"offset": str(offset)})

    def update_offset(self, request: Request) -> RemotingCommand:
        """15: store an offset. From 5.1 on an unknown group is 26 and an unknown topic 17.

        While a reset waits the answer is 0, too, with a remark.
        """
        header = UpdateConsumerOffsetRequestHeader.from_ext(request.command.ext_fields)
        remark = self._administration.offsets.commit(
            header.consumer_group, header.topic, header.queue_id, header.commit_offset
        )
        return request.command.answer(ResponseCode.SUCCESS, remark)
