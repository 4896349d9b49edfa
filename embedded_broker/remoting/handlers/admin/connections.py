"""Connections of clients, and requests relayed to them: 203, 204, 328, 223, 307 and 309.

The part of RocketMQ's AdminBrokerProcessor about clients. 223, 307 and 309 are answered when the
client has answered (221, 307 and 309 to it), or did not in time. In front of
`core/administration/clients.py` and `core/administration/relays.py`.
"""

from functools import partial
from typing import Final

from attrs import define

from embedded_broker.core.administration import Administration
from embedded_broker.core.administration.relays import Relayed, Statuses
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.long_requests import Work, elsewhere
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.bodies.consumption import ConsumerStatus
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.admin import GetConsumerConnectionListRequestHeader
from rocketmq_py.protocol.headers.groups import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    GetProducerConnectionListRequestHeader,
)

_MANY: Final = 500
"""A longer list is written outside the door."""


@define(eq=False)
class ConnectionsProcessor:
    """Tables of clients, and questions to them."""

    _administration: Administration
    _endpoint: Endpoint

    def register(self) -> None:
        """Take over the requests of this module."""
        register, register_long = self._endpoint.register, self._endpoint.register_long
        register_long(RequestCode.GET_CONSUMER_CONNECTION_LIST, self.consumers)
        register(RequestCode.GET_PRODUCER_CONNECTION_LIST, self.producers)
        register_long(RequestCode.GET_ALL_PRODUCER_INFO, self.all_producers)
        register(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, self.offsets)
        register(RequestCode.GET_CONSUMER_RUNNING_INFO, self.running_info)
        register(RequestCode.CONSUME_MESSAGE_DIRECTLY, self.consume)

    # -- who is there -----------------------------------------------------------------------

    def consumers(self, request: Request) -> Work:
        """203: who is connected in a group and to what it subscribes; nobody: 206."""
        header = GetConsumerConnectionListRequestHeader.from_ext(request.command.ext_fields)
        table = self._administration.clients.consumer_connections(header.consumer_group)
        if len(table.subscription_table) + len(table.connection_set) > _MANY:
            yield elsewhere
        body = yield table.encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def producers(self, request: Request) -> RemotingCommand:
        """204: who is connected in a producer group; nobody: 1."""
        header = GetProducerConnectionListRequestHeader.from_ext(request.command.ext_fields)
        body = self._administration.clients.producer_connections(header.producer_group).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def all_producers(self, request: Request) -> Work:
        """328: who is connected in which producer group."""
        table = self._administration.clients.producers()
        if len(table.data) > _MANY:
            yield elsewhere
        body = yield table.encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    # -- questions to them ------------------------------------------------------------------

    def offsets(self, request: Request) -> None:
        """223: how far the members of a group say that they are; nobody there: 206."""
        header = GetConsumerStatusRequestHeader.from_ext(request.command.ext_fields)

        def tell(found: Statuses) -> None:
            body = ConsumerStatus(consumer_table=found).encode()
            answer = request.command.answer(ResponseCode.SUCCESS, body=body)
            self._endpoint.answer(request, answer)

        self._administration.relays.offsets(header.group, header.topic, header.client_addr, tell)

    def running_info(self, request: Request) -> None:
        """307: how a member says that it is; not there: 1, no answer in time: 207."""
        header = GetConsumerRunningInfoRequestHeader.from_ext(request.command.ext_fields)
        self._administration.relays.running_info(
            header.consumer_group,
            header.client_id,
            partial(self._tell, request),
            with_stacks=header.jstack_enable,
        )

    def consume(self, request: Request) -> None:
        """309: let a member consume a message now; not there: 1, no answer in time: 207."""
        fields = request.command.ext_fields
        header = ConsumeMessageDirectlyResultRequestHeader.from_ext(fields)
        self._administration.relays.consume(
            header.consumer_group,
            header.client_id or "",
            header.msg_id or "",
            header.topic,
            partial(self._tell, request),
            self._endpoint.caller(request),
        )

    def _tell(self, request: Request, relayed: Relayed) -> None:
        if relayed.refusal is not None:
            answer = self._endpoint.refusal(request.command, relayed.refusal)
        else:
            answer = request.command.answer(ResponseCode.SUCCESS, body=relayed.body)
        self._endpoint.answer(request, answer)
