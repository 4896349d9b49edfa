"""Who is there: requests 34, 35 and 46.

RocketMQ's ClientManageProcessor: a heartbeat registers the socket for its groups, creates the
group's settings and its retry topic, and replaces its subscriptions. Who is told about a change,
and who is dropped for silence, is decided in `core/liveness.py`.
"""

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.core.liveness import Liveness
from embedded_broker.remoting.endpoint import Request, RequestError
from embedded_broker.tables.consumers.registry import Member, is_tag_type
from rocketmq_py.protocol.bodies.groups import ClientConfigCheck
from rocketmq_py.protocol.bodies.heartbeat import ConsumerData, HeartbeatData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode, TopicSysFlag
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import UnregisterClientRequestHeader
from rocketmq_py.protocol.names import retry_topic


class ClientManageProcessor:
    """Keeps the registries of live clients up to date."""

    def __init__(self, core: BrokerCore, liveness: Liveness) -> None:
        self._core = core
        self._liveness = liveness

    def register(self) -> None:
        """Take over the requests of this module."""
        register = self._core.endpoint.register
        register(RequestCode.HEART_BEAT, self.heartbeat)
        register(RequestCode.UNREGISTER_CLIENT, self.unregister)
        register(RequestCode.CHECK_CLIENT_CONFIG, self.check_config)

    def heartbeat(self, request: Request) -> RemotingCommand:
        """34: register producers and consumers of one client.

        The answer carries no fields, as in 4.9: a 5.x client then keeps sending whole
        heartbeats instead of fingerprints.
        """
        command = request.command
        data = HeartbeatData.decode(command.body)
        connection = request.connection
        connection.client_id = data.client_id
        member = Member(
            connection,
            data.client_id,
            command.language,
            command.version,
            self._core.session_clock.now_ms,
        )
        for consumer in data.consumer_data_set:
            self._register_consumer(consumer, member)
        for producer in data.producer_data_set:
            self._core.producers.register(producer.group_name, member)
        self._liveness.heard()
        return command.answer(ResponseCode.SUCCESS)

    def _register_consumer(self, data: ConsumerData, member: Member) -> None:
        """Do the consumer part; a group that may not be created is passed over, as upstream."""
        settings = self._core.groups.find(data.group_name)
        if settings is None:
            return
        topics = self._core.topics
        ordered = any(
            topic is not None and topic.order
            for topic in (topics.get(one.topic) for one in data.subscription_data_set)
        )
        _, is_new = topics.ensure(
            retry_topic(data.group_name),
            settings.retry_queue_nums,
            sys_flag=TopicSysFlag.UNIT_SUB if data.unit_mode else 0,
            order=ordered,
        )
        changed = self._core.consumers.register(data, member)
        group = self._core.consumers.get(data.group_name)
        if changed and group is not None and settings.notify_consumer_ids_changed_enable:
            self._liveness.tell(group)
        if is_new:
            self._liveness.tell_again_soon(data.group_name)

    def unregister(self, request: Request) -> RemotingCommand:
        """35: a client leaves one producer group or one consumer group."""
        header = UnregisterClientRequestHeader.from_ext(request.command.ext_fields)
        if header.producer_group is not None:
            self._core.producers.unregister(header.producer_group, request.connection)
        if header.consumer_group is not None:
            lost = self._core.consumers.unregister(header.consumer_group, request.connection)
            settings = self._core.groups.get(header.consumer_group)
            wants_notice = settings is None or settings.notify_consumer_ids_changed_enable
            if lost is not None and wants_notice:
                self._liveness.tell(lost)
        return request.command.answer(ResponseCode.SUCCESS)

    def check_config(self, request: Request) -> RemotingCommand:
        """46: may this subscription be used? Tags always; SQL92 needs enablePropertyFilter."""
        check = ClientConfigCheck.decode(request.command.body)
        expression_type = check.subscription_data.expression_type
        if not is_tag_type(expression_type):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {expression_type}",
            )
        return request.command.answer(ResponseCode.SUCCESS)
