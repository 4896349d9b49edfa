"""Assignment of queues by the broker: requests 400, 401 and 402.

RocketMQ's QueryAssignmentProcessor as far as bodies go. Read on:
`embedded_broker/core/pop/assignment.py`.
"""

from functools import partial

from attrs import define

from embedded_broker.core.pop.assignment import Assignment
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.long_requests import Work
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.bodies.pop import (
    MessageRequestMode,
    MessageRequestModes,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand


@define(eq=False)
class QueryAssignmentProcessor:
    """Distributes queues, and keeps who pops."""

    _assignment: Assignment

    def register(self, endpoint: Endpoint) -> None:
        """Take over the requests of this module."""
        endpoint.register_long(RequestCode.QUERY_ASSIGNMENT, self.query)
        endpoint.register_long(RequestCode.SET_MESSAGE_REQUEST_MODE, self.set_mode)
        endpoint.register(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, self.modes)

    def query(self, request: Request) -> Work:
        """400: the queues of a client in a topic."""
        asked = yield partial(QueryAssignmentRequest.decode, request.command.body)
        answer = QueryAssignmentResponse(self._assignment.assign(asked))
        return request.command.answer(ResponseCode.SUCCESS, body=answer.encode(standard=True))

    def set_mode(self, request: Request) -> Work:
        """401: a group pulls or pops a topic; unknown topic 17, retry topic 16."""
        mode = yield partial(MessageRequestMode.decode, request.command.body)
        self._assignment.put_mode(mode)
        return request.command.answer(ResponseCode.SUCCESS)

    def modes(self, request: Request) -> RemotingCommand:
        """402: everything that was set by 401."""
        answer = MessageRequestModes(self._assignment.modes.everything())
        return request.command.answer(ResponseCode.SUCCESS, body=answer.encode(standard=True))
