"""QueryRoute and QueryAssignment: where the queues of a topic are.

After the proxy's RouteActivity. All brokers stand behind the endpoint that was asked, so what a
client named as its address comes back: whatever lies between, its later calls take the same way.
Must not know: who is registered where.
"""

from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from typing import Any, Final

from attrs import define

from embedded_broker.core.guards import Action, group_resource, topic_resource
from embedded_broker.grpc.broker_services import Brokers, BrokerServices
from embedded_broker.grpc.call import Asked, Call
from embedded_broker.grpc.endpoint import GrpcEndpoint
from embedded_broker.grpc.incoming import Names
from embedded_broker.grpc.outgoing import accepted_types, permissions
from embedded_broker.grpc.schema import AddressScheme, Permission
from embedded_broker.grpc.status import Rejected
from rocketmq_py.protocol.bodies.topics import QueueData, TopicConfig, TopicRouteData
from rocketmq_py.protocol.codes import PERM_READ
from rocketmq_py.protocol.rpc import Rpc, RpcStatus

MIXED: Final = "+message.type=MIXED"
ALL_QUEUES: Final = -1


def create_topic(brokers: Brokers, name: str) -> None:
    """Create a topic that takes messages of every type, on all brokers. Under the door."""
    for services in brokers.values():
        wanted = TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        services.administration.settings.put_topic(wanted, MIXED, by_owner=True)


QUEUES: Final = 4
"""Of a topic that is created because somebody asked for it."""


@define(eq=False, kw_only=True)
class RouteCalls:
    """Tells routes: ``routes`` of the name server; ``own`` is the address of a listener."""

    _endpoint: GrpcEndpoint
    _names: Names
    _routes: Callable[[str], TopicRouteData | None]
    _own: Callable[[], tuple[str, int]]
    _auto_create: bool

    def register(self) -> None:
        """Take over the calls of this module."""
        readers = self._endpoint.readers
        readers[Rpc.QUERY_ROUTE] = self.query_route
        readers[Rpc.QUERY_ASSIGNMENT] = self.query_assignment

    def query_route(self, call: Call) -> Asked:
        """Tell the queues of a topic, with what may be done with them."""
        name = self._names.topic(call.request.topic)
        handle_it = partial(self._route, call, name)
        return Asked(handle_it, Action.PUB, (topic_resource(name),), (Action.SUB,))

    def _route(self, call: Call, name: str) -> Any:
        answer = self._endpoint.v2.QueryRouteResponse(status=self._endpoint.out.ok())
        for data, services in self._held(name):
            topic = services.tables.topics.get(name)
            types = () if topic is None else accepted_types(topic)
            for number, permission in enumerate(permissions(data)):
                queue = answer.message_queues.add()
                self._fill(queue, call, services.env.broker_name, permission)
                queue.id = number
                queue.accept_message_types.extend(types)
        return answer

    def query_assignment(self, call: Call) -> Asked:
        """Tell a consumer what it receives from: any queue of each broker, or each in its order."""
        name = self._names.topic(call.request.topic)
        group = self._names.group(call.request.group)
        handle_it = partial(self._assign, call, name, group)
        return Asked(handle_it, Action.SUB, (topic_resource(name), group_resource(group)))

    def _assign(self, call: Call, name: str, group: str) -> Any:
        answer = self._endpoint.v2.QueryAssignmentResponse(status=self._endpoint.out.ok())
        for data, services in self._held(name):
            if not data.perm & PERM_READ:
                continue
            settings = services.tables.groups.get(group)
            in_order = settings is not None and bool(settings.consume_message_orderly)
            for number in range(data.read_queue_nums) if in_order else (ALL_QUEUES,):
                queue = answer.assignments.add().message_queue
                self._fill(queue, call, services.env.broker_name, Permission.READ_WRITE)
                queue.id = number
        if not answer.assignments:
            raise Rejected(RpcStatus.FORBIDDEN, f"no queue of topic[{name}] may be read")
        return answer

    def _held(self, name: str) -> list[tuple[QueueData, BrokerServices]]:
        """Give what each broker here has of a topic; refuses a topic that nobody has."""
        brokers = self._endpoint.brokers
        if self._auto_create and not any(brokers.with_topic(name)):
            create_topic(brokers, name)
        route = self._routes(name)
        held = [] if route is None else route.queue_datas
        found = [(one, brokers[one.broker_name]) for one in held if one.broker_name in brokers]
        if not found:
            told = f"No topic route info in name server for the topic: {name}"
            raise Rejected(RpcStatus.TOPIC_NOT_FOUND, told)
        return found

    def _fill(self, queue: Any, call: Call, broker: str, permission: Permission) -> None:
        """Say whose queue it is, and where that is asked."""
        request = call.request
        queue.topic.CopyFrom(request.topic)
        queue.permission = permission
        queue.broker.name = broker
        if request.endpoints.addresses:
            queue.broker.endpoints.CopyFrom(request.endpoints)
            return
        host, port = self._own()
        queue.broker.endpoints.scheme = _scheme(host)
        queue.broker.endpoints.addresses.add(host=host, port=port)


def _scheme(host: str) -> AddressScheme:
    try:
        version = ip_address(host).version
    except ValueError:
        return AddressScheme.DOMAIN_NAME
    return AddressScheme.IPv4 if version == 4 else AddressScheme.IPv6
