"""Registrations of brokers, and for how long each of them counts.

Requests 103, 104, 322, 901 and 904 of brokers of other processes; those of this process register by
calls. A slave learns by its registration where its master is. After RocketMQ's
DefaultRequestProcessor and the half of RouteInfoManager about live brokers: one that is silent for
120 s, or for what it said itself, is forgotten, and one whose connection ends at once. Must not
know: clients. Read on: `routes.py`, which tells clients of them.
"""

from zlib import crc32

from attrs import define, field

from embedded_broker.clocks.session import SessionTimer
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.namesrv.routes import RouteTable
from embedded_broker.namesrv.settings import ORDER_TOPICS, KeyValues
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Connection, Handler, Request
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.registration import read_compressed
from rocketmq_py.protocol.bodies.replication import (
    BrokerMemberGroup,
    GetBrokerMemberGroupResponseBody,
)
from rocketmq_py.protocol.bodies.topics import MASTER_ID, DataVersion, KVTable, RegisterBrokerBody
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.namesrv import (
    BrokerHeartbeatRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)

logger = get_logger(__name__)

EXPIRED_MS = 120_000
"""``DEFAULT_BROKER_CHANNEL_EXPIRED_TIME``"""

BrokerKey = tuple[str, str]
"""A broker's cluster and address."""


@define(eq=False)
class LiveBroker:
    """A broker that counts as there; ``BrokerLiveInfo``. Without a connection it is of here."""

    broker_name: str
    ha_address: str
    version: DataVersion = field(factory=DataVersion)
    timeout_ms: int = EXPIRED_MS
    connection: Connection | None = None
    timer: SessionTimer | None = None


class Registrations:
    """The brokers that are there. Used under the door."""

    def __init__(self, routes: RouteTable, values: KeyValues) -> None:
        self._routes = routes
        self._values = values
        self._live: dict[BrokerKey, LiveBroker] = {}
        self._endpoint: Endpoint | None = None

    def handlers(self) -> dict[int, Handler]:
        """Give what answers which request."""
        return {
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.QUERY_DATA_VERSION: self.query_version,
            RequestCode.BROKER_HEARTBEAT: self.heartbeat,
            RequestCode.GET_BROKER_MEMBER_GROUP: self.members,
        }

    def serve_at(self, endpoint: Endpoint) -> None:
        """Use the clock of the name server's address, and hear who leaves it."""
        self._endpoint = endpoint
        endpoint.on_disconnected.append(self._lost)

    # -- brokers of this process --------------------------------------------------------------

    def note(self, cluster: str, broker_name: str, address: str, ha_address: str) -> None:
        """Note a broker of this process; it counts until ``drop``."""
        self._live[cluster, address] = LiveBroker(broker_name, ha_address)

    def drop(self, cluster: str, address: str) -> None:
        """Forget a broker and what clients were told of it; idempotent."""
        broker = self._live.pop((cluster, address), None)
        if broker is not None:
            if broker.timer is not None:
                broker.timer.cancel()
            self._routes.unregister(broker.broker_name, address)

    # -- brokers of others ----------------------------------------------------------------------

    def register(self, request: Request) -> RemotingCommand:
        """103: a broker with its topics; a slave is told where its master is.

        A body whose checksum is another one, and one topic of a broker that is not known yet: 1.
        """
        header = RegisterBrokerRequestHeader.from_ext(request.command.ext_fields)
        text = request.command.body
        if header.body_crc32 and crc32(text) & 0x7FFF_FFFF != header.body_crc32:
            raise Refused(Reason.FAILED, "crc32 not match")
        read = read_compressed if header.compressed else RegisterBrokerBody.decode
        body = read(text) if text else RegisterBrokerBody()
        table = body.topic_config_serialize_wrapper
        place = (header.cluster_name, header.broker_addr)
        name, broker_id = header.broker_name, header.broker_id
        if len(table.topic_config_table) == 1 and not self._routes.knows(name, broker_id):
            raise Refused(Reason.FAILED, "register broker failed")
        known = self._live.get(place)
        self._routes.register(
            cluster=header.cluster_name,
            broker_name=name,
            address=header.broker_addr,
            topics=table.topic_config_table.values(),
            has_changed=known is None or known.version != table.data_version,
            broker_id=broker_id,
            acting_master=header.enable_acting_master,
        )
        if known is None:
            logger.info("broker_registered %s %d at %s", name, broker_id, header.broker_addr)
        elif known.timer is not None:
            known.timer.cancel()
        broker = self._live[place] = LiveBroker(
            name,
            header.ha_server_addr,
            table.data_version,
            header.heartbeat_timeout_millis or EXPIRED_MS,
            request.connection,
        )
        self._wait(place, broker)
        answer = RegisterBrokerResponseHeader()
        if broker_id != MASTER_ID:
            answer = self._master_of(name, header.cluster_name)
        orders = self._values.all_of(ORDER_TOPICS)
        return request.command.answer(
            ResponseCode.SUCCESS,
            ext_fields=answer.to_ext(),
            body=b"" if orders is None else KVTable(dict(orders)).encode(),
        )

    def _master_of(self, broker_name: str, cluster: str) -> RegisterBrokerResponseHeader:
        address = self._routes.address_of(broker_name, MASTER_ID)
        master = None if address is None else self._live.get((cluster, address))
        if master is None:
            return RegisterBrokerResponseHeader()
        return RegisterBrokerResponseHeader(
            ha_server_addr=master.ha_address or None, master_addr=address
        )

    def unregister(self, request: Request) -> RemotingCommand:
        """104: a broker says goodbye; an unknown one is no error."""
        header = UnRegisterBrokerRequestHeader.from_ext(request.command.ext_fields)
        self.drop(header.cluster_name, header.broker_addr)
        return request.command.answer(ResponseCode.SUCCESS)

    def query_version(self, request: Request) -> RemotingCommand:
        """322: whether a broker's topics have changed since it registered; it is there, too."""
        header = QueryDataVersionRequestHeader.from_ext(request.command.ext_fields)
        given = DataVersion.decode(request.command.body)
        broker = self._touch((header.cluster_name, header.broker_addr))
        changed = broker is None or broker.version != given
        return request.command.answer(
            ResponseCode.SUCCESS,
            ext_fields=QueryDataVersionResponseHeader(changed=changed).to_ext(),
            body=b"" if broker is None else broker.version.encode(),
        )

    def heartbeat(self, request: Request) -> RemotingCommand:
        """904: a broker is there; an unknown one is no error."""
        header = BrokerHeartbeatRequestHeader.from_ext(request.command.ext_fields)
        self._touch((header.cluster_name, header.broker_addr))
        return request.command.answer(ResponseCode.SUCCESS)

    def members(self, request: Request) -> RemotingCommand:
        """901: the master and the slaves of a name; none when nobody has it."""
        header = GetBrokerMemberGroupRequestHeader.from_ext(request.command.ext_fields)
        group = BrokerMemberGroup(
            broker_addrs=self._routes.addresses_of(header.broker_name),
            broker_name=header.broker_name,
            cluster=header.cluster_name,
        )
        body = GetBrokerMemberGroupResponseBody(group).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    # -- silence --------------------------------------------------------------------------------

    def _touch(self, place: BrokerKey) -> LiveBroker | None:
        broker = self._live.get(place)
        if broker is not None:
            self._wait(place, broker)
        return broker

    def _wait(self, place: BrokerKey, broker: LiveBroker) -> None:
        """Forget a broker of another process after a time of silence, beginning now."""
        if broker.timer is not None:
            broker.timer.cancel()
        if broker.connection is not None and self._endpoint is not None:
            broker.timer = self._endpoint.session.after(
                broker.timeout_ms, lambda: self.drop(*place), f"broker {broker.broker_name}"
            )

    def _lost(self, connection: Connection) -> None:
        for place, broker in list(self._live.items()):
            if broker.connection is connection:
                logger.info("broker_lost %s at %s", broker.broker_name, place[1])
                self.drop(*place)
