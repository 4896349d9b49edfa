"""Telemetry, Heartbeat, NotifyClientTermination: who is there, and what clients are told.

After the proxy's ClientActivity and its settings manager. Settings of a client become what a
heartbeat of another client says; they are completed by those of its group and come back. What the
broker asks its clients goes over their streams. Must not know: how groups are kept.
"""

from functools import partial
from typing import Any, Final

from attrs import define

from embedded_broker.core.client_calls import (
    Answer,
    CheckTransaction,
    ConsumeDirectly,
    TellRunningInfo,
)
from embedded_broker.core.client_calls import Call as Question
from embedded_broker.core.guards import Action, Caller, Resource, group_resource, topic_resource
from embedded_broker.core.retry_policies import Growing, retry_policy
from embedded_broker.door import Door
from embedded_broker.grpc.auth import Metadata, SignedCall
from embedded_broker.grpc.broker_services import BrokerServices
from embedded_broker.grpc.call import Asked, Call
from embedded_broker.grpc.checks import BODY_MAX
from embedded_broker.grpc.clients import REQUEST_TIMEOUT_MS, ClientSettings, GrpcClient, Stream
from embedded_broker.grpc.endpoint import GrpcEndpoint
from embedded_broker.grpc.incoming import Names, expression_of, milliseconds
from embedded_broker.grpc.journal_text import told_of
from embedded_broker.grpc.schema import ClientType, Language
from embedded_broker.grpc.status import Aborted, Rejected
from embedded_broker.remoting.long_requests import Steps, do_at_once, do_in_turns
from embedded_broker.tables.peer import Peer
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.bodies.consumption import ConsumeDirectlyResult, ConsumerRunningInfo
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.heartbeat import (
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from rocketmq_py.protocol.codes import LanguageCode
from rocketmq_py.protocol.message_codec import decode_record
from rocketmq_py.protocol.rpc import Rpc, RpcStatus

CONSUMERS: Final = {
    ClientType.PUSH_CONSUMER: CONSUME_PASSIVELY,
    ClientType.SIMPLE_CONSUMER: CONSUME_ACTIVELY,
}
KNOWN: Final = frozenset({ClientType.PRODUCER, *CONSUMERS})
SEND_POLICY: Final = Growing(10, 1_000, 2)
SEND_ATTEMPTS: Final = 3
RECEIVE_BATCH: Final = 32
SECOND_PUSH_MS: Final = 1_000
"""How long after its first settings a Node client gets them again: it may have lost the first."""
_LANGUAGES: Final = {
    "JAVA": LanguageCode.JAVA,
    "CPP": LanguageCode.CPP,
    "DOTNET": LanguageCode.DOTNET,
    "PYTHON": LanguageCode.PYTHON,
    "GO": LanguageCode.GO,
    "GOLANG": LanguageCode.GO,
    "RUST": LanguageCode.RUST,
    "HTTP": LanguageCode.HTTP,
}
"""What clients call their languages, to what other protocols do."""


@define(eq=False, kw_only=True)
class MemberCalls:
    """Registers clients and talks to them."""

    _endpoint: GrpcEndpoint
    _names: Names
    _long_polling_ms: int

    def register(self) -> None:
        """Take over the calls of this module."""
        readers = self._endpoint.readers
        readers[Rpc.HEARTBEAT] = self.heartbeat
        readers[Rpc.NOTIFY_CLIENT_TERMINATION] = self.terminate
        self._endpoint.on_gone.append(self._has_left)

    # -- telemetry ----------------------------------------------------------------------------

    def opened(self, client: GrpcClient, stream: Stream) -> None:
        """Reach a known client by its new stream: not every client says again who it is. Inside."""
        if client.settings is not None:
            self._bind(client, stream)

    def _bind(self, client: GrpcClient, stream: Stream) -> None:
        former, client.stream = client.stream, stream
        if former is not None and former is not stream:
            former.end()

    def closed(self, client: GrpcClient, stream: Stream) -> None:
        """Reach a client by this stream no longer. Inside the door."""
        client = self._endpoint.clients.find(client.client_id) or client
        if client.stream is stream:
            client.stream = None

    def told(self, client: GrpcClient, stream: Stream, metadata: Metadata, raw: bytes) -> None:
        """Take what a client says on its stream. Outside the door; raises `Aborted`."""
        client = self._endpoint.clients.find(client.client_id) or client
        command = self._endpoint.parse("TelemetryCommand", raw)
        kind = command.WhichOneof("command")
        fields = {"command": kind or "", **told_of(command)}
        self._endpoint.note(Rpc.TELEMETRY, client, metadata, fields, len(raw))
        if kind == "settings":
            try:
                settings = self._read(command.settings)
            except (Rejected, RocketMQError) as error:
                told = f"process client telemetryCommand failed. {error}"
                raise Aborted(self._status_of(error), told) from error
            with self._endpoint.door:
                self._settle(client, stream, metadata, command, settings)
        elif kind in {"thread_stack_trace", "verify_message_result"}:
            with self._endpoint.door:
                self._answered(client, command, kind)

    def _status_of(self, error: Exception) -> str:
        code, _ = self._endpoint.codes.told(error)
        is_internal = code in {RpcStatus.INTERNAL_SERVER_ERROR, RpcStatus.UNRECOGNIZED_CLIENT_TYPE}
        return "INTERNAL" if self._endpoint.codes.is_strict and is_internal else "INVALID_ARGUMENT"

    def _read(self, said: Any) -> ClientSettings:
        """Read settings; refuses those of a client that is not served."""
        if said.client_type not in KNOWN:
            told = f"client type {said.client_type} is none of {sorted(KNOWN)}"
            raise Rejected(RpcStatus.UNRECOGNIZED_CLIENT_TYPE, told)
        wanted = "publishing" if said.client_type == ClientType.PRODUCER else "subscription"
        if said.WhichOneof("pub_sub") != wanted:
            raise Rejected(RpcStatus.BAD_REQUEST, f"the settings lack {wanted}")
        raw = said.SerializeToString()
        if wanted == "publishing":
            topics = tuple(self._names.topic(one) for one in said.publishing.topics)
            producers = [ProducerData(one) for one in dict.fromkeys(topics)]
            return ClientSettings(
                heartbeat=HeartbeatData(producer_data_set=producers), topics=topics, said=raw
            )
        group = self._names.group(said.subscription.group)
        consumer = ConsumerData(
            group,
            CONSUMERS[ClientType(said.client_type)],
            subscription_data_set=[
                self._subscribed(one) for one in said.subscription.subscriptions
            ],
        )
        heartbeat = HeartbeatData(consumer_data_set=[consumer])
        return ClientSettings(heartbeat=heartbeat, group=group, said=raw)

    def _subscribed(self, entry: Any) -> SubscriptionData:
        kind, expression = expression_of(entry.expression)
        return SubscriptionData.parse(self._names.topic(entry.topic), expression, 0, kind)

    def _settle(
        self,
        client: GrpcClient,
        stream: Stream,
        metadata: Metadata,
        command: Any,
        settings: ClientSettings,
    ) -> None:
        """Register a client with its settings, and tell it how they were completed."""
        endpoint = self._endpoint
        if not endpoint.brokers:
            raise Aborted("UNAVAILABLE", "no broker runs here at present")
        asked = Asked(_nothing, Action.PUB, [topic_resource(one) for one in settings.topics])
        if settings.group:
            consumer = settings.heartbeat.consumer_data_set[0]
            named: list[Resource] = [group_resource(settings.group)]
            named += [topic_resource(one.topic) for one in consumer.subscription_data_set]
            asked = Asked(_nothing, Action.SUB, named)
        try:
            endpoint.demand(client, Rpc.TELEMETRY, metadata, asked)
        except Rejected as rejected:
            status = endpoint.out.status(*endpoint.codes.told(rejected))
            endpoint.door.emit(
                stream, endpoint.v2.TelemetryCommand(status=status).SerializeToString()
            )
            endpoint.door.after(stream.end)
            return
        if not endpoint.clients.keep(client):
            raise Aborted("RESOURCE_EXHAUSTED", "too many clients are connected")
        is_first = client.settings is None
        said = command.settings
        timeout_ms = milliseconds(said.request_timeout, "request_timeout")
        client.request_timeout_ms = timeout_ms or REQUEST_TIMEOUT_MS
        settings.heartbeat.client_id = client.client_id
        client.settings = None  # it is told once, whatever else its coming changes
        self._enter(client, settings.heartbeat, metadata)
        client.settings = settings
        self._bind(client, stream)
        self._tell_settings(client)
        if is_first and said.user_agent.language == Language.NODE_JS:
            session = endpoint.brokers.first.env.session
            session.after(SECOND_PUSH_MS, partial(self._tell_settings, client), "settings")

    def _enter(self, client: GrpcClient, data: HeartbeatData, metadata: Metadata) -> None:
        """Let every broker know a client as a heartbeat does."""
        client.language, client.version, client.entered = metadata.language, metadata.version, data
        language = _LANGUAGES.get(metadata.language.upper(), LanguageCode.OTHER)
        for services in self._endpoint.brokers.values():
            caller = Caller(services.guards, client, SignedCall(Rpc.HEARTBEAT, metadata))
            version = services.env.profile.version
            members = services.administration.clients
            work = members.heartbeat(client, data, language, version, caller)
            if do_at_once(work) is None:
                services.do_later(partial(_do_all, self._endpoint.door, work))

    def group_changed(self, name: str) -> None:
        """Tell the clients of a group that its settings are others now. Under the door."""
        for client in self._endpoint.clients.all():
            if client.settings is not None and client.settings.group == name:
                self._tell_settings(client)

    def _tell_settings(self, client: GrpcClient) -> None:
        """Tell a client its settings, completed by what the broker says."""
        endpoint, out = self._endpoint, self._endpoint.out
        settings = client.settings
        if settings is None or not endpoint.brokers:
            return
        command = endpoint.v2.TelemetryCommand(status=out.ok())
        said = command.settings
        said.MergeFromString(settings.said)
        said.metric.on = False
        services = endpoint.brokers.first
        if settings.group:
            group = services.tables.groups.get(settings.group) or SubscriptionGroupConfig(
                settings.group
            )
            policy = out.backoff(retry_policy(group), group.retry_max_times + 1)
            said.subscription.fifo = bool(group.consume_message_orderly)
            said.subscription.receive_batch_size = RECEIVE_BATCH
            out.set_time(said.subscription.long_polling_timeout, self._long_polling_ms)
        else:
            policy = out.backoff(SEND_POLICY, SEND_ATTEMPTS)
            said.publishing.validate_message_type = True
            said.publishing.max_body_size = min(services.env.config.int("maxMessageSize"), BODY_MAX)
        said.backoff_policy.CopyFrom(policy)
        endpoint.push(client, command)

    # -- heartbeats and ends ------------------------------------------------------------------

    def heartbeat(self, call: Call) -> Asked:
        """Note that a client lives."""
        request = call.request
        group = self._names.group(request.group) if request.HasField("group") else ""
        resources = (group_resource(group),) if group else ()
        action = Action.SUB if group else Action.PUB
        return Asked(partial(self._heartbeat, call, group), action, resources)

    def _heartbeat(self, call: Call, group: str) -> Any:
        client = call.client
        if client.settings is None:
            if not self._endpoint.codes.is_strict:
                self._enter_unknown(call, group)
            told = f"client {client.client_id} is not known: it has sent no settings"
            raise Rejected(RpcStatus.UNRECOGNIZED_CLIENT_TYPE, told)
        self._enter(client, client.settings.heartbeat, call.metadata)
        return self._endpoint.v2.HeartbeatResponse(status=self._endpoint.out.ok())

    def _enter_unknown(self, call: Call, group: str) -> None:
        """Let a consumer stay in its group that the broker knew before it was restarted."""
        kind = CONSUMERS.get(call.request.client_type)
        if kind is None or not group or not self._endpoint.clients.keep(call.client):
            return
        consumer = ConsumerData(group, kind)
        data = HeartbeatData(call.client.client_id, [], [consumer], without_sub=True)
        self._enter(call.client, data, call.metadata)

    def terminate(self, call: Call) -> Asked:
        """Let a client leave: its receives are answered, what it had in hand comes back soon."""
        request = call.request
        group = self._names.group(request.group) if request.HasField("group") else ""
        resources = (group_resource(group),) if group else ()
        action = Action.SUB if group else Action.PUB
        return Asked(partial(self._terminate, call), action, resources)

    def _terminate(self, call: Call) -> Any:
        client = call.client
        if self._endpoint.clients.find(client.client_id) is not client:
            told = f"client {client.client_id} is not known: it has sent no settings"
            raise Rejected(RpcStatus.UNRECOGNIZED_CLIENT_TYPE, told)
        for services in self._endpoint.brokers.values():
            services.pop.service.waiters.release(client)
        client.stream = None  # the client itself ends it
        client.close()
        return self._endpoint.v2.NotifyClientTerminationResponse(status=self._endpoint.out.ok())

    def _has_left(self, client: GrpcClient) -> None:
        """Forget a client at every broker; what it had in hand comes back soon. Under the door."""
        for services in self._endpoint.brokers.values():
            services.administration.clients.has_left(client)
            services.pop.renewals.let_go(client)

    # -- questions to clients -----------------------------------------------------------------

    def wire_of(self, services: BrokerServices) -> "ClientWire":
        """Give what brings the questions of one broker to clients."""
        return ClientWire(self._endpoint, self._names, services)

    def _answered(self, client: GrpcClient, command: Any, kind: str) -> None:
        """Hand a client's answer to who asked, as clients of other protocols give it."""
        status = command.status
        if kind == "thread_stack_trace":
            nonce = command.thread_stack_trace.nonce
            text = command.thread_stack_trace.thread_stack_trace
            answer = Answer(status.code == RpcStatus.OK, status.message, _running_info(text))
        else:
            nonce = command.verify_message_result.nonce
            body = _direct_result(status.code, status.message)
            known = status.code in _RESULTS
            answer = Answer(known, status.message, body)
        self._endpoint.answered(client, nonce, answer)


_RESULTS: Final = {
    RpcStatus.OK: "CR_SUCCESS",
    RpcStatus.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    RpcStatus.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}


def _direct_result(code: int, text: str) -> bytes:
    result = _RESULTS.get(RpcStatus(code), "CR_THROW_EXCEPTION") if code in _CODES else ""
    return ConsumeDirectlyResult(consume_result=result, remark=text).encode()


_CODES: Final = frozenset(int(one) for one in RpcStatus)


def _running_info(stacks: str) -> bytes:
    return ConsumerRunningInfo(jstack=stacks).encode()


def _do_all(door: Door, work: Steps[bool]) -> None:
    do_in_turns(door, work)


def _nothing() -> None:
    """Stand for handling that is done elsewhere."""


@define(eq=False)
class ClientWire:
    """Brings the questions of one broker to gRPC clients; a ``core.client_calls.Wire``."""

    _endpoint: GrpcEndpoint
    _names: Names
    _services: BrokerServices

    def call(self, peer: Peer, call: Question) -> int | None:
        """Ask a client by its stream; None for others, and for what such clients do not know."""
        if not isinstance(peer, GrpcClient) or peer.stream is None:
            return None
        v2, out = self._endpoint.v2, self._endpoint.out
        number = self._endpoint.number(self._services.calls)
        command = v2.TelemetryCommand(status=out.ok())
        match call:
            case CheckTransaction():
                record = decode_record(call.record, check_crc=False)
                asked = command.recover_orphaned_transaction_command
                asked.message.CopyFrom(out.message(record, record.topic))
                asked.transaction_id = call.unique_key or ""
            case TellRunningInfo(with_stacks=True):
                command.print_thread_stack_trace_command.nonce = str(number)
            case ConsumeDirectly():
                record = decode_record(call.record, check_crc=False)
                command.verify_message_command.nonce = str(number)
                message = out.message(record, record.topic)
                command.verify_message_command.message.CopyFrom(message)
            case _:
                return None
        return number if self._endpoint.push(peer, command) else None
