"""SendMessage, EndTransaction and RecallMessage: messages come in, end, and are taken back.

After the proxy's SendMessageActivity, EndTransactionActivity and RecallMessageActivity. A client
says which broker it means only by its message group: the queue is chosen here. Must not know:
properties, how a message is stored.
"""

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final

from attrs import define, field

from embedded_broker.core.guards import Action, topic_resource
from embedded_broker.core.refusals import Reason
from embedded_broker.core.send_values import Incoming, Outcome, Terms
from embedded_broker.core.transactions.ending import NOT_FOUND, Ending
from embedded_broker.grpc.broker_services import BrokerServices
from embedded_broker.grpc.call import Asked, Call
from embedded_broker.grpc.calls.routes import create_topic
from embedded_broker.grpc.checks import check_delivery
from embedded_broker.grpc.endpoint import GrpcEndpoint
from embedded_broker.grpc.incoming import Names, Sent, sent_message
from embedded_broker.grpc.schema import TransactionResolution, TransactionSource
from embedded_broker.grpc.status import BAD_VALUE, UNKNOWN_TOPIC, Rejected
from embedded_broker.tables.topics.message_types import (
    ATTRIBUTE,
    DELAY,
    MIXED,
    NORMAL,
    type_problem,
)
from rocketmq_py.errors import RemotingCommandException
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.message_codec import MessageRecord, encode_batch
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.properties import encode_properties
from rocketmq_py.protocol.rpc import Rpc, RpcStatus
from rocketmq_py.protocol.tag_hash import java_hash

MESSAGES_MAX: Final = 1024
"""Most messages of one call."""
REMEMBERED_MS: Final = 30_000
"""So long after a send or a check RocketMQ's proxy can end a transaction."""
_WORD: Final = (1 << 64) - 1
_MULTIPLIER: Final = 2_862_933_555_777_941_757


def queue_of_group(group: str, queues: int) -> int:
    """Give the queue that all messages of a group go to: jump consistent hash, as the proxy has it.

    >>> [queue_of_group("A", queues) for queues in (4, 8, 16)]
    [0, 0, 11]
    """
    state = java_hash(group) & _WORD
    chosen, candidate = -1, 0
    while candidate < queues:
        chosen = candidate
        state = (_MULTIPLIER * state + 1) & _WORD
        candidate = int((chosen + 1) / (((state >> 33) + 1) / (1 << 31)))
    return chosen


@define(eq=False, kw_only=True)
class SendCalls:
    """Stores messages, ends transactions, recalls timers."""

    _endpoint: GrpcEndpoint
    _names: Names
    _auto_create: bool
    _turns: "count[int]" = field(factory=count, init=False)

    def register(self) -> None:
        """Take over the calls of this module."""
        readers = self._endpoint.readers
        readers[Rpc.SEND_MESSAGE] = self.send
        readers[Rpc.END_TRANSACTION] = self.end_transaction
        readers[Rpc.RECALL_MESSAGE] = self.recall

    # -- sends --------------------------------------------------------------------------------

    def send(self, call: Call) -> Asked:
        """Store a message, or several that make one batch."""
        messages = call.request.messages
        if not messages:
            raise Rejected(RpcStatus.MESSAGE_CORRUPTED, "no message to send")
        if len(messages) > MESSAGES_MAX:
            told = f"a call has {len(messages)} messages, at most {MESSAGES_MAX} are possible"
            raise Rejected(RpcStatus.BAD_REQUEST, told)
        topic = self._names.topic(messages[0].topic)
        if any(one.topic != messages[0].topic for one in messages):
            told = "the messages of one call are of different topics"
            raise Rejected(RpcStatus.MESSAGE_CORRUPTED, told)
        host = "{}:{}".format(*call.client.remote)
        is_strict = self._endpoint.codes.is_strict
        sent = [sent_message(one, topic, host, is_strict=is_strict) for one in messages]
        action = Action.SUB if is_retry_topic(topic) else Action.PUB
        return Asked(partial(self._send, call, topic, sent), action, (topic_resource(topic),))

    def _send(self, call: Call, topic: str, sent: Sequence[Sent]) -> Any:
        services, queue_id = self._choose(topic, sent)
        config = services.tables.topics.get(topic)
        for one in sent:
            if one.deliver_at_ms is not None:
                longest_ms = services.env.config.int("maxDelayTimeMills")
                check_delivery(one.deliver_at_ms, services.env.clock.now_ms, longest_ms)
            problem = config and type_problem(config, one.properties, start_deliver=True)
            if problem is not None:
                raise Rejected(RpcStatus.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, str(problem))
        is_batch = len(sent) > 1
        incoming = _batch(topic, queue_id, sent) if is_batch else sent[0].incoming(queue_id)
        (outcome,) = services.send.produce([incoming], call.client)
        if not outcome.is_stored:
            raise Rejected(
                self._endpoint.codes.of_outcome(outcome),
                outcome.remark or "the message is not stored",
            )
        finish = partial(self._stored, sent, outcome)
        return self._endpoint.answer_when_durable(
            call, services.durability, outcome.synced_at, finish
        )

    def _choose(self, topic: str, sent: Sequence[Sent]) -> tuple[BrokerServices, int]:
        """Give broker and queue for messages; refuses where none takes them."""
        brokers = self._endpoint.brokers
        if not any(brokers.with_topic(topic)):
            if not self._auto_create:
                told = f"No topic route info in name server for the topic: {topic}"
                raise Rejected(UNKNOWN_TOPIC, told)
            create_topic(brokers, topic)
        queues = brokers.writable_queues(topic)
        if not queues:
            raise Rejected(RpcStatus.FORBIDDEN, f"no queue of topic[{topic}] may be written to")
        group = sent[0].message_group
        if len(sent) == 1 and group:
            return queues[queue_of_group(group, len(queues))]
        return queues[next(self._turns) % len(queues)]

    def _stored(self, sent: Sequence[Sent], outcome: Outcome, late: Reason | None) -> Any:
        """Tell where messages are, or that their promise is not kept although they are stored."""
        v2, out = self._endpoint.v2, self._endpoint.out
        codes = self._endpoint.codes
        reason = late or outcome.reason
        code = RpcStatus.OK if reason is None else codes.of_reason(reason)
        answer = v2.SendMessageResponse(status=out.status(code))
        for number, one in enumerate(sent[:1] if codes.is_strict else sent):
            entry = answer.entries.add(status=out.status(code))
            if reason is None:
                entry.message_id = entry.transaction_id = one.message_id
                entry.offset = outcome.queue_offset + number
                if outcome.recall_handle is not None:
                    entry.recall_handle = outcome.recall_handle.decode()
        return answer

    # -- transactions -------------------------------------------------------------------------

    def end_transaction(self, call: Call) -> Asked:
        """Commit or roll back a half message, which is named by the id of its transaction."""
        request = call.request
        topic = self._names.topic(request.topic)
        if not request.transaction_id.strip():
            raise Rejected(RpcStatus.INVALID_TRANSACTION_ID, "transaction id cannot be blank")
        return Asked(partial(self._end, call, topic), Action.PUB, (topic_resource(topic),))

    def _end(self, call: Call, topic: str) -> Any:
        request = call.request
        answer = self._endpoint.v2.EndTransactionResponse(status=self._endpoint.out.ok())
        resolutions = (TransactionResolution.COMMIT, TransactionResolution.ROLLBACK)
        if request.resolution not in resolutions:
            return answer  # not known yet: the broker asks again
        for services in self._endpoint.brokers.values():
            half = services.transactions.find_open(request.transaction_id)
            if half is None or self._is_forgotten(services, half):
                continue
            services.send.endings.check_role()
            ending = Ending(
                topic,
                half.commit_log_offset,
                half.queue_offset,
                commits=request.resolution == TransactionResolution.COMMIT,
                was_asked=request.source == TransactionSource.SOURCE_SERVER_CHECK,
            )
            services.send.endings.end(ending, self._endpoint.caller(call))
            return answer
        told = f"{NOT_FOUND}: transaction {request.transaction_id} of topic[{topic}] is not open"
        raise Rejected(RpcStatus.INTERNAL_SERVER_ERROR, told)

    def _is_forgotten(self, services: BrokerServices, half: MessageRecord) -> bool:
        """Say whether RocketMQ's proxy 5.3.3 would know no more of a half message."""
        age_ms = services.env.clock.now_ms - half.store_timestamp
        return self._endpoint.codes.is_strict and age_ms > REMEMBERED_MS

    # -- recall -------------------------------------------------------------------------------

    def recall(self, call: Call) -> Asked:
        """Take a timer back."""
        topic = self._names.topic(call.request.topic)
        try:
            handle = RecallHandle.decode(call.request.recall_handle)
        except RemotingCommandException as error:
            raise Rejected(BAD_VALUE, str(error)) from error
        handle_it = partial(self._recall, call, topic, handle)
        return Asked(handle_it, Action.PUB, (topic_resource(topic),))

    def _recall(self, call: Call, topic: str, handle: RecallHandle) -> Any:
        services = self._endpoint.brokers.get(handle.broker_name)
        config = None if services is None else services.tables.topics.get(topic)
        if services is None or config is None:
            told = f"topic[{topic}] of broker[{handle.broker_name}] is not here"
            raise Rejected(UNKNOWN_TOPIC, told)
        kind = (config.attributes or {}).get(ATTRIBUTE, NORMAL)
        if kind not in {DELAY, MIXED}:
            told = f"a message of topic[{topic}] cannot be recalled: its {ATTRIBUTE} is {kind}"
            raise Rejected(RpcStatus.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, told)
        text = call.request.recall_handle
        recalled = services.send.recalls.recall(topic, text, topic, call.client)

        def finish(late: Reason | None) -> Any:
            code = RpcStatus.OK if late is None else self._endpoint.codes.of_reason(late)
            status = self._endpoint.out.status(code)
            v2 = self._endpoint.v2
            return v2.RecallMessageResponse(status=status, message_id=recalled.unique_key)

        return self._endpoint.answer_when_durable(
            call, services.durability, recalled.synced_at, finish
        )


def _batch(topic: str, queue_id: int, sent: Sequence[Sent]) -> Incoming:
    """Make one message of several, which are stored behind each other or not at all."""
    if any(one.is_half or one.sys_flag for one in sent):
        told = "messages of a transaction and compressed ones are sent one by one"
        raise Rejected(RpcStatus.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, told)
    body = encode_batch((0, one.body, encode_properties(one.properties)) for one in sent)
    terms = Terms(queue_id=queue_id, is_batch=True)
    return Incoming(topic, body, "", sent[0].born_ms, terms)
