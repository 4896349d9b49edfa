"""Who is in a group, and how far it has come: requests 38, 14 and 15.

RocketMQ's ConsumerManageProcessor over `tables/consumers/registry.py` and
`tables/offsets/table.py`. Offsets are stored as they are given; where a consumer starts that has
none is the client's decision, helped by the answer 22.
"""

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.endpoint import Request, RequestError
from embedded_broker.tables.offsets.table import NOT_STORED
from rocketmq_py.protocol.bodies.groups import ConsumerList
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import GetConsumerListByGroupRequestHeader
from rocketmq_py.protocol.headers.offsets import (
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)


class ConsumerManageProcessor:
    """Answers what a consumer asks before it pulls, and stores what it has done."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core

    def register(self) -> None:
        """Take over the requests of this module."""
        register = self._core.endpoint.register
        register(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.consumers_of_group)
        register(RequestCode.QUERY_CONSUMER_OFFSET, self.query_offset)
        register(RequestCode.UPDATE_CONSUMER_OFFSET, self.update_offset)

    def consumers_of_group(self, request: Request) -> RemotingCommand:
        """38: the client ids of a group's members in order of arrival; nobody there: 1."""
        header = GetConsumerListByGroupRequestHeader.from_ext(request.command.ext_fields)
        live = self._core.consumers.get(header.consumer_group)
        if live is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {header.consumer_group}"
            )
        body = ConsumerList(live.client_ids()).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def query_offset(self, request: Request) -> RemotingCommand:
        """14: the committed offset, else 0 for a queue of which nothing was deleted, else 22.

        A caller that says setZeroIfNotFound=false gets 22 instead of that 0. The original
        answers 0 only while the queue's beginning is in memory, and 5.3.3 not for an empty
        queue, which lets a consumer miss the first message; here nothing is missed.
        """
        command = request.command
        header = QueryConsumerOffsetRequestHeader.from_ext(command.ext_fields)
        offset = self._core.offsets.query(header.consumer_group, header.topic, header.queue_id)
        if offset == NOT_STORED:
            if header.set_zero_if_not_found is False:
                raise RequestError(
                    ResponseCode.QUERY_NOT_FOUND,
                    "Not found, do not set to zero, maybe this group boot first",
                )
            oldest = self._core.store.min_offset(header.topic, header.queue_id)
            if oldest > 0:
                raise RequestError(
                    ResponseCode.QUERY_NOT_FOUND,
                    f"Not found, maybe this group boot first: the queue begins at {oldest}",
                )
            offset = 0
        return command.answer(ResponseCode.SUCCESS, ext_fields={"offset": str(offset)})

    def update_offset(self, request: Request) -> RemotingCommand:
        """15: store an offset. From 5.1 on an unknown group is 26 and an unknown topic 17.

        While a reset waits for the group's next pull, what its members commit is stale: 1.
        """
        command = request.command
        header = UpdateConsumerOffsetRequestHeader.from_ext(command.ext_fields)
        if not self._core.profile.unknown_offset_group_accepted:
            if header.consumer_group not in self._core.groups:
                raise RequestError(
                    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                    f"Group {header.consumer_group} not exist!",
                )
            if header.topic not in self._core.topics:
                raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} not exist!")
        offsets = self._core.offsets
        if offsets.is_reset(header.consumer_group, header.topic, header.queue_id):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                "Offset has been previously reset: the next pull says where the group continues",
            )
        offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        return command.answer(ResponseCode.SUCCESS)
