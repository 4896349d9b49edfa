"""What happens to one message on its way into a request, and to the answer on its way back.

``DefaultMQProducerImpl.sendKernelImpl`` and ``MQClientAPIImpl.processSendResponse``: id,
translation of Aliyun's delay, compression, hooks, header, and the answer as `SendResult` or error.
The caller's message is changed in one respect only: it gets its UNIQ_KEY. Must not know how often
an attempt is repeated; that is ``attempts.py``.
"""

import threading
from collections.abc import Iterable, Mapping
from contextvars import Context, copy_context
from functools import partial

from attrs import define, field

from rocketmq_py.client.answers import broker_error
from rocketmq_py.client.application_faults import ApplicationFaults
from rocketmq_py.client.connections import Wait
from rocketmq_py.client.delay_policy import judge_broker, mentions_delay
from rocketmq_py.client.hooks import CheckForbiddenHook, SendMessageContext, SendMessageHook
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.pool import local_address
from rocketmq_py.clock import wall_ms
from rocketmq_py.errors import (
    MQClientException,
    RemotingCommandException,
    RemotingException,
    ReservedPropertyError,
    RocketMQError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.message import Message, MessageBatch
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.producer.validation import (
    check_body,
    check_delay,
    check_message,
    encoded_properties,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.compression import compress
from rocketmq_py.protocol.delay import Delay, translate_start_deliver
from rocketmq_py.protocol.delay_doubts import timer_asked
from rocketmq_py.protocol.handles import UniqIdGenerator
from rocketmq_py.protocol.headers.send import SendMessageResponseHeader, send_fields
from rocketmq_py.protocol.names import DEFAULT_REGION, is_retry_topic
from rocketmq_py.protocol.properties import REPLY, RESERVED, Prop
from rocketmq_py.protocol.sysflag import (
    COMPRESSED,
    TRANSACTION_PREPARED,
    CompressionType,
    with_compression,
)
from rocketmq_py.send_result import MessageQueue, SendResult, SendStatus

_log = get_logger(__name__)

TOPICS_MAX = 4_096

_generator: UniqIdGenerator | None = None


def give_id(message: Message) -> str:
    """Return the message's id (UNIQ_KEY), giving it a new one when it has none.

    A message that is sent again keeps its id, so retries can be told from new messages.
    """
    global _generator
    msg_id = message.properties.get(Prop.UNIQ_KEY)
    if msg_id is None:
        generator = _generator
        if generator is None:
            # Two first senders may make one each: the ids of both are unique all the same.
            generator = _generator = UniqIdGenerator(local_address())
        msg_id = message.properties[Prop.UNIQ_KEY] = generator.next()
    return msg_id


def _shown(message: Message) -> str:
    """Name a message in a warning."""
    keys = message.properties.get(Prop.KEYS)
    return give_id(message) + ("" if keys is None else f" keys={keys}")


@define(kw_only=True, eq=False)
class Outgoing:
    """One message made ready: what all attempts of its send share."""

    message: Message
    topic: str
    msg_id: str
    properties: dict[str, str]
    code: int
    ext_fields: dict[str, str]
    body: bytes
    caller: Context = field(factory=copy_context)
    """The context variables of who sends: hooks see them, on whatever thread they run."""
    timer: Delay | None = None
    """A delay that a broker before 5.0 does not keep, until that has been judged and told."""
    extra: Mapping[str, str] = field(factory=dict)
    """What hooks have added to the properties for the present attempt."""


@define(eq=False, repr=False)
class SendKernel:
    """Makes requests of messages and results of answers, for one producer."""

    group: str
    config: ProducerConfig
    instance: ClientInstance
    send_hooks: list[SendMessageHook]
    forbidden_hooks: list[CheckForbiddenHook]
    own_hooks: tuple[SendMessageHook, ...] = ()
    """The SDK's own, which never block: they learn an outcome on the thread that has read it."""
    stop: threading.Event = field(factory=threading.Event, init=False)
    """Set when the producer ends: whoever waits for its sake waits no more."""
    faults: ApplicationFaults = field(factory=partial(ApplicationFaults, _log), init=False)
    _shared: dict[tuple[str, int, str, int, bool], dict[str, str]] = field(factory=dict, init=False)

    # --- before ----------------------------------------------------------------------------

    def prepare(self, message: Message) -> Outgoing:
        """Check a message, give it its id, and make everything but the queue's part ready.

        Raises `MQClientException`, `DelayConflictError`, `DelayValueError`,
        `ReservedPropertyError`.
        """
        if isinstance(message, MessageBatch):
            return self._prepare_batch(message)
        config = self.config
        check_message(message, config)
        is_delayed = mentions_delay(message.properties)
        if is_delayed:
            check_delay(message, config, partial(_shown, message))
        msg_id = give_id(message)
        properties = translate_start_deliver(
            message.properties, config.translate_start_deliver_time
        )
        body, sys_flag = message.body, 0
        if len(body) >= config.compress_msg_body_over_howmuch:
            body = compress(body, config.compress_type, config.compress_level)
            sys_flag = COMPRESSED
            if config.compress_type not in {CompressionType.ZLIB, CompressionType.UNSPECIFIED}:
                sys_flag = with_compression(0, config.compress_type)
        if Prop.TRAN_MSG in properties and properties[Prop.TRAN_MSG].lower() == "true":
            sys_flag |= TRANSACTION_PREPARED
        code = RequestCode.SEND_MESSAGE_V2
        if Prop.MSG_TYPE in properties and properties[Prop.MSG_TYPE] == REPLY:
            code = RequestCode.SEND_REPLY_MESSAGE_V2
        outgoing = self._outgoing(message, msg_id, properties, body, sys_flag, code)
        if is_delayed and config.delay_policy != "as_java":
            outgoing.timer = timer_asked(properties)
        return outgoing

    def _prepare_batch(self, batch: MessageBatch) -> Outgoing:
        config = self.config
        for message in batch:
            check_message(message, config)
            if mentions_delay(message.properties):
                check_delay(message, config, partial(_shown, message))
            encoded_properties(message.topic, message.properties)
        msg_id = ",".join([give_id(message) for message in batch])
        body = batch.encode()
        check_body(batch.topic, body, config.max_message_size)
        return self._outgoing(
            batch, msg_id, batch.properties, body, 0, RequestCode.SEND_BATCH_MESSAGE
        )

    def _outgoing(
        self,
        message: Message,
        msg_id: str,
        properties: dict[str, str],
        body: bytes,
        sys_flag: int,
        code: int,
    ) -> Outgoing:
        # A copy of the fields that a topic's messages share, in the order of the table's lines.
        fields = self._shared_fields(message.topic, code).copy()
        if is_retry_topic(message.topic):
            properties = dict(properties)
            fields["j"] = str(_number(properties.pop(Prop.RECONSUME_TIME, "0")))
            limit = properties.pop(Prop.MAX_RECONSUME_TIMES, None)
            if limit is not None:
                fields["l"] = str(_number(limit))
        fields["f"] = str(sys_flag)
        fields["g"] = str(wall_ms())
        fields["h"] = str(message.flag)
        fields["i"] = encoded_properties(message.topic, properties)
        return Outgoing(
            message=message,
            topic=message.topic,
            msg_id=msg_id,
            properties=properties,
            code=code,
            ext_fields=fields,
            body=body,
        )

    def _shared_fields(self, topic: str, code: int) -> dict[str, str]:
        """Return the header fields that all messages of a topic share, short names.

        Kept per topic and settings: the header class costs more than the rest of a header.
        """
        config = self.config
        key = (
            topic,
            code,
            config.create_topic_key,
            config.default_topic_queue_nums,
            config.unit_mode,
        )
        fields = self._shared.get(key)
        if fields is None:
            if len(self._shared) >= TOPICS_MAX:
                self._shared.clear()
            fields = self._shared[key] = send_fields(
                self.group,
                topic,
                default_topic=config.create_topic_key,
                default_topic_queue_nums=config.default_topic_queue_nums,
                unit_mode=config.unit_mode,
                batch=code == RequestCode.SEND_BATCH_MESSAGE,
            )
        return fields

    def queues(self, topic: str, timeout_ms: float | None = None) -> tuple[MessageQueue, ...]:
        """Return the writable queues; raises `NoRouteError`, `NameServerUnavailableError`."""
        return self.instance.routes.publish_info(
            topic,
            create_topic_key=self.config.create_topic_key,
            default_topic_queue_nums=self.config.default_topic_queue_nums,
            timeout_ms=timeout_ms,
            stop=self.stop,
        ).queues

    def route_turn_ms(self, queue: MessageQueue, since: float) -> float:
        """Return when the route may be asked for again; 0 when it has lost the queue already."""
        routes = self.instance.routes
        known = queue in routes.known_queues(queue.topic)
        return routes.turn_ms(queue.topic, since) if known else 0.0

    def queues_again(self, topic: str, since: float, timeout_ms: float) -> tuple[MessageQueue, ...]:
        """Return the writable queues now that a broker has contradicted the route ``since`` then.

        Those known before when no name server tells any; why it does not is logged.
        """
        routes = self.instance.routes
        try:
            routes.look_again(topic, since, timeout_ms, self.stop)
        except RocketMQError as error:
            if not self.stop.is_set():
                routes.log_failure(topic, error)
        return routes.known_queues(topic)

    def known_address(self, queue: MessageQueue) -> str | None:
        """Return the master's address without asking anybody, None when it is not known."""
        address = self.instance.routes.broker_address(queue.broker_name, only_this=True)
        return None if address is None else self.instance.routes.send_port(address)

    def address_of(self, queue: MessageQueue, timeout_ms: float | None = None) -> str:
        """Return the master's address; asks for the route again when it has vanished.

        Raises `MQClientException` (10003) when the broker has no master.
        """
        routes = self.instance.routes
        address = routes.require_address(
            queue.topic, queue.broker_name, only_this=True, timeout_ms=timeout_ms, stop=self.stop
        )
        return routes.send_port(address)

    def judge_delay(self, outgoing: Outgoing, address: str, timeout_ms: float) -> None:
        """Judge a timer by the version of the broker that gets it, which may be asked for that.

        Raises `DelayValueError` if the policy is strict and the broker too old, and what
        `BrokerVersions.of` does.
        """
        timer = outgoing.timer
        if timer is None:
            return
        try:
            version = self.instance.broker_versions.of(address, timeout_ms, self.stop)
        except RemotingException as error:
            error.request_left = False  # it was a question, and not the message
            raise
        policy, shown = self.config.delay_policy, partial(_shown, outgoing.message)
        if judge_broker(policy, outgoing.topic, timer, shown, address, version):
            outgoing.timer = None

    def request(self, outgoing: Outgoing, queue: MessageQueue) -> RemotingCommand:
        """Make the request of one attempt."""
        fields = outgoing.ext_fields.copy()
        fields["e"] = str(queue.queue_id)
        fields["n"] = queue.broker_name
        return RemotingCommand(outgoing.code, ext_fields=fields, body=outgoing.body)

    def ask(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        address: str,
        timeout_ms: float,
        wait: Wait | None,
    ) -> SendResult:
        """Make one attempt and wait; raises what `Remoting.invoke` and `result` do."""
        command = self.request(outgoing, queue)
        answer = self.instance.remoting.invoke(address, command, timeout_ms, wait, self.stop)
        return self.result(outgoing, queue, address, answer)

    # --- hooks -----------------------------------------------------------------------------

    def before(
        self, outgoing: Outgoing, queue: MessageQueue, address: str, mode: str
    ) -> SendMessageContext | None:
        """Show an attempt to the hooks; None when there are none.

        What a hook raises that forbids the attempt goes to the caller.
        """
        if not (self.send_hooks or self.forbidden_hooks or self.own_hooks):
            return None
        context = SendMessageContext(
            producer_group=self.group,
            message=outgoing.message,
            queue=queue,
            broker_address=address,
            mode=mode,
            properties={},
        )
        for forbidding in self.forbidden_hooks:
            forbidding.check(context)
        for hook in (*self.own_hooks, *self.send_hooks):
            try:
                outgoing.caller.run(hook.before, context)
            except Exception as error:  # noqa: BLE001 - a hook cannot break sends
                self.faults.tell("send hook", hook, error)
        if context.extra_properties != outgoing.extra:
            self._add(outgoing, context.extra_properties)
        return context

    def _add(self, outgoing: Outgoing, extra: Mapping[str, str]) -> None:
        """Let properties of hooks travel with the message, if they can: they never break a send."""
        message, topic = outgoing.message, outgoing.topic
        try:
            if not RESERVED.isdisjoint(extra):
                name = next(name for name in extra if name in RESERVED)
                raise ReservedPropertyError(name, "RocketMQ gives it a meaning")
            if isinstance(message, MessageBatch):
                for one in message:
                    encoded_properties(topic, {**extra, **one.properties})
                body = message.encode(extra)
                check_body(topic, body, self.config.max_message_size)
                outgoing.body = body
            else:
                properties = {**extra, **outgoing.properties}
                outgoing.ext_fields["i"] = encoded_properties(topic, properties)
        except RocketMQError as error:
            self.faults.tell("send hook", "extra_properties", error)
        else:
            outgoing.extra = dict(extra)

    def after(
        self,
        context: SendMessageContext | None,
        result: SendResult | None,
        error: Exception | None,
    ) -> None:
        """Show the outcome to the hooks, on the thread of the caller who waited for it."""
        if context is not None:
            self._ended(context, result, error)
            _tell_end(self.send_hooks, context, self.faults)

    def after_async(
        self, context: SendMessageContext, result: SendResult | None, error: Exception | None
    ) -> None:
        """Show the outcome to the hooks, those of the application on a callback thread."""
        self._ended(context, result, error)
        if self.send_hooks:
            self.instance.submit_callback(_tell_end, self.send_hooks, context, self.faults)

    def _ended(
        self, context: SendMessageContext, result: SendResult | None, error: Exception | None
    ) -> None:
        context.result, context.exception = result, error
        _tell_end(self.own_hooks, context, self.faults)

    # --- after -----------------------------------------------------------------------------

    def result(
        self, outgoing: Outgoing, queue: MessageQueue, address: str, answer: RemotingCommand
    ) -> SendResult:
        """Read the answer; raises `MQBrokerException` (or a subclass) when nothing is stored."""
        status = SendStatus.from_code(answer.code)
        if status is None:
            raise broker_error(
                answer, address, topic=outgoing.topic, properties=outgoing.properties
            )
        fields = answer.ext_fields
        try:
            header = SendMessageResponseHeader.from_ext(fields)
        except RemotingCommandException as error:
            raise MQClientException(
                f"{address} stored the message, but its answer cannot be read: {error}",
                response_code=ResponseCode.SYSTEM_ERROR,
                topic=outgoing.topic,
                address=address,
            ) from error
        if header.queue_id != queue.queue_id:
            queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
        return SendResult(
            send_status=status,
            msg_id=outgoing.msg_id,
            offset_msg_id=header.msg_id,
            message_queue=queue,
            queue_offset=header.queue_offset,
            transaction_id=header.transaction_id,
            region_id=fields.get(Prop.MSG_REGION) or DEFAULT_REGION,
            trace_on=fields.get(Prop.TRACE_ON) != "false",
            recall_handle=header.recall_handle,
        )


def _tell_end(
    hooks: Iterable[SendMessageHook], context: SendMessageContext, faults: ApplicationFaults
) -> None:
    for hook in hooks:
        try:
            hook.after(context)
        except Exception as error:  # noqa: BLE001 - a hook cannot break sends
            faults.tell("send hook", hook, error)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
