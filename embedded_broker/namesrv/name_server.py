"""Name server: what it answers, at which address it names a broker, and how it is kept up to date.

GET_ROUTEINFO_BY_TOPIC (105), GET_BROKER_CLUSTER_INFO (106) and
GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206), after RocketMQ's ClientRequestProcessor and
DefaultRequestProcessor. Topics are never created here: a client that gets 17 asks for the route
of TBW102 and lets its first send create the topic. State is in `routes.py`.

A broker of this process registers by calls instead of request 103: all topics when it starts, every
new or changed one at once, and goodbye when it closes. One that may not be read or written
announces its topics with that permission taken away (BrokerController.registerBrokerAll), so that
clients go elsewhere.
"""

from functools import partial
from typing import Final

from attrs import evolve

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.namesrv.administration import NameServerAdministration
from embedded_broker.namesrv.registrations import Registrations
from embedded_broker.namesrv.routes import RouteTable
from embedded_broker.namesrv.seekers import Seekers
from embedded_broker.namesrv.settings import ORDER_TOPICS, KeyValues, NameServerOptions
from embedded_broker.remoting.requests import Connection, Handler, Request, RequestError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.tables.topics.table import TopicTable
from rocketmq_py.protocol.bodies.topics import MASTER_ID, BrokerData, TopicList
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE, MQVersion, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import GetRouteInfoRequestHeader

HELP_URL: Final = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"
_WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "[::]", "::"})  # noqa: S104  compared, not bound
_KEPT_ANSWERS_MAX: Final = 1024
_READ_WRITE: Final = PERM_READ | PERM_WRITE


class NameServer:
    """The name server of one cluster: register brokers by call, answer clients by request.

    A broker that leaves is taken out of `routes`; clients get 17 for topics that only it held.
    `handlers` maps request codes to what answers them, those of administrators too; the shell
    dispatches to it on its own port, under the door of the cluster.
    """

    def __init__(self) -> None:
        self.routes = RouteTable()
        self.seekers = Seekers()
        self.values = KeyValues()
        self.options = NameServerOptions()
        self.registrations = Registrations(self.routes, self.values)
        administration = NameServerAdministration(self.routes, self.values, self.options)
        self.handlers: dict[int, Handler] = {
            **administration.handlers(),
            **self.registrations.handlers(),
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route_of_topic,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster_info,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.all_topics,
        }
        self._kept: dict[tuple[str, bool, bool, str], bytes] = {}
        self._kept_version = -1

    def register(
        self,
        topics: TopicTable,
        config: BrokerConfig,
        *,
        cluster: str,
        broker_name: str,
        address: str,
        ha_address: str = "",
        broker_id: int = MASTER_ID,
    ) -> None:
        """Make a broker of this process visible to clients, and keep its topics up to date.

        `ha_address` is where slaves follow it.
        """

        def allow(_changed: frozenset[str]) -> None:
            perm = config.int("brokerPermission")
            self.routes.allow(broker_name, -1 if perm & _READ_WRITE == _READ_WRITE else perm)

        self.routes.register(
            cluster=cluster,
            broker_name=broker_name,
            address=address,
            topics=topics,
            broker_id=broker_id,
            acting_master=config.flag("enableSlaveActingMaster"),
        )
        self.registrations.note(cluster, broker_name, address, ha_address)
        allow(frozenset())
        topics.listeners.append(partial(self.routes.put_topic, broker_name))
        topics.on_removed.append(partial(self.routes.drop_topic, brokers=[broker_name]))
        config.on_change(allow)

    def route_of_topic(self, request: Request) -> RemotingCommand:
        """105: brokers and queues of a topic, or 17.

        Requests of version 401 and later, or with acceptStandardJsonOnly, get quoted broker ids;
        older ones get the unquoted keys that Java's fastjson writes.
        """
        command = request.command
        header = GetRouteInfoRequestHeader.from_ext(command.ext_fields)
        standard = command.version >= MQVersion.V4_9_4 or bool(header.accept_standard_json_only)
        if self._kept_version != self.routes.version or len(self._kept) > _KEPT_ANSWERS_MAX:
            self._kept.clear()
            self._kept_version = self.routes.version
        self.seekers.told(request.connection, header.topic, exists=header.topic in self.routes)
        with_acting = self.options.flag("supportActingMaster")
        key = (header.topic, standard, with_acting, request.connection.local[0])
        body = self._kept.get(key)
        if body is None:
            route = self.routes.route(header.topic, with_acting=with_acting)
            if route is None:
                raise RequestError(
                    ResponseCode.TOPIC_NOT_EXIST,
                    f"No topic route info in name server for the topic: {header.topic}"
                    f"\nSee {HELP_URL} for further details.",
                )
            brokers = [_reachable(broker, request.connection) for broker in route.broker_datas]
            queues = None
            if self.options.flag("orderMessageEnable"):
                queues = self.values.get(ORDER_TOPICS, header.topic)
            found = evolve(route, broker_datas=brokers, order_topic_conf=queues)
            body = found.encode(standard=standard)
            self._kept[key] = body
        return command.answer(ResponseCode.SUCCESS, body=body)

    def cluster_info(self, request: Request) -> RemotingCommand:
        """106: every broker with its addresses, every cluster with its brokers; maybe empty."""
        clusters = self.routes.clusters()
        brokers = {
            name: _reachable(broker, request.connection)
            for name, broker in clusters.broker_addr_table.items()
        }
        body = evolve(clusters, broker_addr_table=brokers).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def all_topics(self, request: Request) -> RemotingCommand:
        """206: every topic of every broker, retry, dead-letter and system topics included."""
        if not self.options.flag("enableAllTopicList"):
            raise Refused(Reason.FAILED, "disable")
        body = TopicList(topic_list=self.routes.topic_names()).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)


def _reachable(broker: BrokerData, connection: Connection) -> BrokerData:
    """Replace a wildcard address by the one through which the asking client came in."""
    addresses = {}
    for broker_id, address in broker.broker_addrs.items():
        host, _, port = address.rpartition(":")
        addresses[broker_id] = (
            f"{connection.local[0]}:{port}" if host in _WILDCARD_HOSTS else address
        )
    return evolve(broker, broker_addrs=addresses)
