"""How a message is accepted: requests 310, 10 and 320.

RocketMQ's SendMessageProcessor and AbstractSendMessageProcessor.msgCheck. Every send passes the
same gate (`topic_for`), then it is one message (`_send_one`) or a batch (`_send_many`). Delay is
not known here: the put hook of `timer/admission.py` reads it from the properties during the put.
Every answer, refusals included, carries MSG_REGION and TRACE_ON. Request 36 and the way of retries
to the dead letters are in `send_back.py`, store refusals in `put_status.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.core.transactions.half import asks_for_transaction, into_half
from embedded_broker.remoting.endpoint import Request, RequestError
from embedded_broker.remoting.handlers.send.batch_properties import joined_texts
from embedded_broker.remoting.handlers.send.put_status import STORED, outcome_of
from embedded_broker.remoting.handlers.send.send_back import RetryRoutes
from embedded_broker.store.inner import InnerMessage, PutResult, PutStatus
from embedded_broker.store.run import Run, tags_codes
from embedded_broker.tables.topics.message_types import type_problem
from embedded_broker.timer.admission import strip_client_properties
from rocketmq_py.errors import HeaderError, RecordError
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import PERM_WRITE, RequestCode, ResponseCode, TopicSysFlag
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.delay import has_delay
from rocketmq_py.protocol.handles import RecallHandle, UniqIdGenerator
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.protocol.message_codec import decode_batch
from rocketmq_py.protocol.names import (
    NOT_SENDABLE_TOPICS,
    RETRY_PREFIX,
    SLICE_TIMER_TOPIC,
    TIMER_TOPIC,
    TOPIC_LENGTH_MAX,
    topic_problem,
)
from rocketmq_py.protocol.properties import Prop, decode_properties, encode_properties
from rocketmq_py.protocol.sysflag import MULTI_TAGS, TRANSACTION_MASK, TRANSACTION_PREPARED

_FORBIDDEN_TOPICS: Final = NOT_SENDABLE_TOPICS | {TIMER_TOPIC, SLICE_TIMER_TOPIC}


class SendMessageProcessor:
    """Accepts messages: checks them, gives them to the store, and tells where they lie."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._store = core.store
        self._topics = core.topics
        self._habits = core.profile
        self._retries = RetryRoutes(core)
        self.host_digits = core.store.store_host.hex().upper()
        """The store host as every offset id begins."""
        self._new_uniq_key = UniqIdGenerator(
            core.store.store_host[:-4], now_ms=lambda: core.clock.now_ms
        ).next
        self._marks: dict[str, str] = {}
        self._stamps: dict[str, str] = {}
        self._stamp_text = ""
        self._added_names: frozenset[str] = frozenset()
        self._broker_perm = 0
        self._keeps_delete_keys = False
        self.checks_types = False
        """Whether a message must be of its topic's message.type."""
        self._read_settings(frozenset())
        core.config.on_change(self._read_settings)

    def register(self) -> None:
        """Take over the requests of this module."""
        register = self._core.endpoint.register
        register(RequestCode.SEND_MESSAGE_V2, self.send_short_names)
        register(RequestCode.SEND_MESSAGE, self.send_long_names)
        register(RequestCode.SEND_BATCH_MESSAGE, self.send_short_names)

    def send_short_names(self, request: Request) -> RemotingCommand | None:
        """310 and 320: a message or a batch, header fields `a` to `n`."""
        return self._send(request, SendMessageRequestHeader.from_ext_v2)

    def send_long_names(self, request: Request) -> RemotingCommand | None:
        """10: the same with the long field names, as Go and C++ clients send it."""
        return self._send(request, SendMessageRequestHeader.from_ext)

    def _send(
        self,
        request: Request,
        read: Callable[[Mapping[str, str]], SendMessageRequestHeader],
    ) -> RemotingCommand | None:
        command = request.command
        try:
            header = read(command.ext_fields)
        except HeaderError as error:
            raise self._refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        topic = self.topic_for(header)
        if not command.body and not self._core.profile.empty_body_allowed:
            raise self._refusal(ResponseCode.SYSTEM_ERROR, "the message has no body")
        if header.batch or command.code == RequestCode.SEND_BATCH_MESSAGE:
            return self._send_many(request, header, topic)
        return self._send_one(request, header, topic)

    # -- the gate ---------------------------------------------------------------------------

    def topic_for(self, header: SendMessageRequestHeader) -> TopicConfig:
        """Give the topic to write to, created if need be, or refuse the message.

        In the order of AbstractSendMessageProcessor.msgCheck; a topic that exists has a legal
        name. Refused: a broker or topic without write permission (16), a bad name (1 or 29 by
        profile), a topic no client may send to (16), an unknown one that cannot be created (17),
        a queue beyond the topic's (1 or 29).
        """
        name = header.topic
        if not self._broker_perm & PERM_WRITE:
            raise self._refusal(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._core.address}] sending message is forbidden: "
                f"brokerPermission={self._broker_perm} has no write bit (2)",
            )
        if name in _FORBIDDEN_TOPICS:
            raise self._refusal(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden."
            )
        topic = self._topics.get(name)
        if topic is None:
            topic = self._create_topic(header)
        if not topic.perm & PERM_WRITE:
            raise self._refusal(
                ResponseCode.NO_PERMISSION,
                f"the topic[{name}] sending message is forbidden: "
                f"its perm={topic.perm} has no write bit (2)",
            )
        queues = max(topic.write_queue_nums, topic.read_queue_nums)
        if header.queue_id >= queues or (header.queue_id < 0 and not topic.write_queue_nums):
            raise self._refusal(
                self._core.profile.invalid_parameter,
                f"request queueId[{header.queue_id}] is illegal, topic[{name}] has "
                f"writeQueueNums={topic.write_queue_nums} readQueueNums={topic.read_queue_nums}",
            )
        return topic

    def _create_topic(self, header: SendMessageRequestHeader) -> TopicConfig:
        name = header.topic
        profile = self._core.profile
        problem = topic_problem(
            name,
            length_max=profile.topic_length_max,
            retry_length_max=profile.system_topic_length_max,
        )
        if problem is not None:
            raise self._refusal(profile.invalid_parameter, problem)
        is_retry = name.startswith(RETRY_PREFIX)
        sys_flag = 0
        if header.unit_mode:
            sys_flag = TopicSysFlag.UNIT_SUB if is_retry else TopicSysFlag.UNIT
        topic = self._topics.create_for_send(
            name, header.default_topic, header.default_topic_queue_nums, sys_flag=sys_flag
        )
        if topic is None and is_retry:
            topic, _ = self._topics.ensure(name, 1, sys_flag=sys_flag)
        if topic is None:
            raise self._refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name}] not exist, apply first please! Its template "
                f"defaultTopic[{header.default_topic}] is missing or not inheritable; "
                "autoCreateTopicEnable="
                f"{str(self._core.config.flag('autoCreateTopicEnable')).lower()}",
            )
        return topic

    # -- one message ------------------------------------------------------------------------

    def _send_one(
        self, request: Request, header: SendMessageRequestHeader, topic: TopicConfig
    ) -> RemotingCommand | None:
        name = header.topic
        text = header.properties or ""
        properties = self._client_properties(text, name, keep_delete_key=self._keeps_delete_keys)
        self._check_type(topic, properties)
        queue_id = self._queue_id(header, topic)
        if name.startswith(RETRY_PREFIX):
            routed = self._retries.of_client_send(header, request.command, properties)
            text = ""  # the properties may be others now
            if routed is not None:
                name, queue_id = routed
        prepared = self._is_prepared(header, properties)
        encoded = self._complete(properties, text)
        msg = InnerMessage(
            name,
            queue_id,
            request.command.body,
            properties,
            header.flag,
            self.sys_flag(header, topic),
            header.born_timestamp,
            request.connection.packed_remote,
            header.reconsume_times or 0,
            0,
            encoded,
        )
        if prepared:
            into_half(msg)
        result = self._store.put(msg)
        answer = self._accepted(result)
        answer["msgId"] = f"{self.host_digits}{result.commit_log_offset:016X}"
        answer["queueId"] = str(queue_id)
        answer["queueOffset"] = str(result.queue_offset)
        if self._habits.names_stored_messages:
            answer["transactionId"] = properties[Prop.UNIQ_KEY]
            if msg.topic == self._core.timers.topic and Prop.TIMER_OUT_MS in properties:
                self._attach_recall_handle(answer, properties)
        return self._answer(request, result, answer, properties)

    @property
    def names_stored_messages(self) -> bool:
        """Whether answers and stored messages carry what 5.x brokers add to them."""
        return self._habits.names_stored_messages and self._habits.marks_stored_messages

    def marks(self) -> dict[str, str]:
        """Give the fields that every answer begins with."""
        return self._marks.copy()

    def stored_properties(self, properties: dict[str, str], text: str) -> bytes:
        """Give what is stored for properties that were read from `text`; they are completed."""
        return self._complete(properties, text) or encode_properties(properties)

    def _complete(self, properties: dict[str, str], text: str) -> bytes | None:
        """Add what the broker adds; give the stored form if it is cheap or not all of them.

        ``text`` is what the properties were read from. Where it still says exactly what they
        say, the stored form is made from it instead of being written anew.
        """
        wait = properties.get(Prop.WAIT)
        if self._core.profile.wait_property_kept:
            wait = None
        unchanged = (
            text.count("\1") == len(properties) == text.count("\2")
            and text[-1:] == "\2"
            and self._added_names.isdisjoint(properties)
        )
        if self._habits.marks_stored_messages:
            properties.pop(Prop.POP_CK, None)
            if Prop.UNIQ_KEY not in properties:
                unchanged = False
                properties[Prop.UNIQ_KEY] = self._new_uniq_key()
        properties.update(self._stamps)
        if unchanged:
            if wait is None:
                return (text + self._stamp_text).encode()
            before, item, behind = text.partition(f"{Prop.WAIT}\1{wait}\2")
            if item and before[-1:] in {"\2", ""}:
                return f"{before}{behind}{self._stamp_text}".encode()
        if wait is None:
            return None
        kept = properties.copy()
        del kept[Prop.WAIT]
        return encode_properties(kept)

    def _attach_recall_handle(self, answer: dict[str, str], properties: Mapping[str, str]) -> None:
        """Give the handle of a timer that admission accepted (attachRecallHandle).

        One more than the slot, so that rounding at the recall finds the slot again. A message
        to a retry topic gets none: its timer has run already.
        """
        real_topic = properties[Prop.REAL_TOPIC]
        if not real_topic.startswith(RETRY_PREFIX):
            answer["recallHandle"] = RecallHandle(
                real_topic,
                self._core.broker_name,
                int(properties[Prop.TIMER_OUT_MS]) + 1,
                properties[Prop.UNIQ_KEY],
            ).encode()

    # -- a batch ----------------------------------------------------------------------------

    def _send_many(
        self, request: Request, header: SendMessageRequestHeader, topic: TopicConfig
    ) -> RemotingCommand | None:
        """Store the messages of a batch one behind the other.

        Refused with 13: a retry topic, an undecodable body, one over maxMessageSize as a whole,
        and any delay, asked for outside or inside (a real broker stores inner requests and
        ignores them).
        """
        name = header.topic
        if name.startswith(RETRY_PREFIX):
            raise self._illegal(f"batch request does not support retry group {name}")
        if len(name) > TOPIC_LENGTH_MAX:
            raise self._illegal(
                f"message topic length too long {len(name)}, at most {TOPIC_LENGTH_MAX}"
            )
        size, size_max = len(request.command.body), self._core.config.int("maxMessageSize")
        if size > size_max:
            raise self._illegal(
                f"the batch has {size} bytes, at most {size_max} are allowed (maxMessageSize)"
            )
        outer = self._client_properties(header.properties or "", name)
        self._check_type(topic, outer)
        if self._is_prepared(header, outer):
            raise self._illegal("a batch cannot be a transaction: send half messages one by one")
        try:
            items = decode_batch(request.command.body)
        except RecordError as error:
            raise self._illegal(f"the batch body cannot be decoded: {error}") from error
        if not items:
            raise self._illegal("the batch holds no message")
        if self._habits.marks_stored_messages:
            outer.pop(Prop.POP_CK, None)
        queue_id = self._queue_id(header, topic)
        sys_flag = self.sys_flag(header, topic)
        born_timestamp = header.born_timestamp
        texts = self._item_texts([one[2] for one in items], outer, name)
        run = Run(
            name,
            queue_id,
            [
                (flag, born_timestamp, body, text, code)
                for (flag, body, _), text, code in zip(items, texts, tags_codes(texts), strict=True)
            ],
            sys_flag,
            request.connection.packed_remote,
            header.reconsume_times or 0,
        )
        whole = self._store.put(run)
        answer = self._accepted(whole)
        offsets = tuple(whole.offsets)
        answer["msgId"] = (f",{self.host_digits}%016X" * len(offsets) % offsets)[1:]
        answer["queueId"] = str(queue_id)
        answer["queueOffset"] = str(whole.queue_offset)
        if self._habits.names_stored_messages and Prop.UNIQ_KEY in outer:
            answer["transactionId"] = outer[Prop.UNIQ_KEY]
        return self._answer(request, whole, answer, outer)

    def _item_texts(
        self, texts: Sequence[bytes], outer: Mapping[str, str], topic: str
    ) -> list[bytes]:
        """Give the properties that each message of a batch is stored with, or refuse a delay.

        With batchItemsKeepUniqKey what the message says itself stands; a real broker lets the
        batch's UNIQ_KEY win.
        """
        items_win = self._core.config.flag("batchItemsKeepUniqKey")
        self._refuse_delay(outer)
        joined = joined_texts(texts, outer, self._stamps, items_win=items_win)
        if joined is not None:
            return joined
        read = []
        for text in texts:
            inner = self._client_properties(text.decode("utf-8", "replace"), topic)
            self._refuse_delay(inner)
            both = {**outer, **inner} if items_win else {**inner, **outer}
            read.append(encode_properties(both | self._stamps))
        return read

    def _refuse_delay(self, properties: Mapping[str, str]) -> None:
        if self._asks_for_delay(properties):
            raise self._illegal(
                "a batch cannot be delayed: DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, "
                "TIMER_DELIVER_MS and __STARTDELIVERTIME must be sent one by one"
            )

    def _asks_for_delay(self, properties: Mapping[str, str]) -> bool:
        if not has_delay(properties):
            return False
        if self._core.config.flag("startDeliverTimeEnable"):
            return True
        # Without the alias __STARTDELIVERTIME is a user's property like any other.
        return has_delay({k: v for k, v in properties.items() if k != Prop.START_DELIVER_TIME})

    # -- shared -----------------------------------------------------------------------------

    def _client_properties(
        self, text: str, topic: str, *, keep_delete_key: bool = False
    ) -> dict[str, str]:
        """Read what a client wrote, without what only the timer may write.

        U+0000 is refused: recovery takes a zero byte in properties for a torn record.
        """
        if "\0" in text:
            raise self._illegal("the properties hold U+0000, which cannot be stored")
        properties = decode_properties(text)
        strip_client_properties(properties, topic, keep_delete_key=keep_delete_key)
        return properties

    def _queue_id(self, header: SendMessageRequestHeader, topic: TopicConfig) -> int:
        if header.queue_id >= 0:
            return header.queue_id
        return self._core.random.randrange(topic.write_queue_nums)

    @staticmethod
    def sys_flag(header: SendMessageRequestHeader, topic: TopicConfig) -> int:
        """Give the sysFlag to store: topics of several tags add theirs."""
        if topic.topic_filter_type == "MULTI_TAG":
            return header.sys_flag | MULTI_TAGS
        return header.sys_flag

    def _is_prepared(self, header: SendMessageRequestHeader, properties: Mapping[str, str]) -> bool:
        """Say whether this is the first half of a transaction; 16 when those are refused.

        TRAN_MSG decides, as on a real broker. That one stores a message which only has the bits
        in its sysFlag where nobody ever finds it; here it is 13.
        """
        if asks_for_transaction(properties, header.reconsume_times or 0):
            if self._core.config.flag("rejectTransactionMessage"):
                raise self._refusal(
                    ResponseCode.NO_PERMISSION,
                    f"the broker[{self._core.address}] sending transaction message is forbidden: "
                    "rejectTransactionMessage=true",
                )
            return True
        if header.sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED:
            raise self._illegal("sysFlag 4 says half message, but TRAN_MSG is not true")
        return False

    def _check_type(self, topic: TopicConfig, properties: Mapping[str, str]) -> None:
        """Refuse (13) what is not of the topic's message.type, where that is enforced."""
        if not self.checks_types:
            return
        aliased = self._core.config.flag("startDeliverTimeEnable")
        problem = type_problem(topic, properties, start_deliver=aliased)
        if problem is not None:
            raise self._illegal(problem)

    def _accepted(self, result: PutResult) -> dict[str, str]:
        """Start the header of an answer to a stored message, or refuse with the store's reason."""
        if result.status is not PutStatus.PUT_OK and result.status not in STORED:
            raise self._refusal(*outcome_of(result, self._core.config))
        return self._marks.copy()

    def _answer(
        self,
        request: Request,
        result: PutResult,
        answer: dict[str, str],
        properties: Mapping[str, str],
    ) -> RemotingCommand | None:
        code, remark = ResponseCode.SUCCESS, None
        if result.status is not PutStatus.PUT_OK:
            code, remark = outcome_of(result, self._core.config)
        response = request.command.answer(code, remark, answer)
        if self._core.durability.is_awaited and properties.get(Prop.WAIT) != "false":
            log_end = result.commit_log_offset + result.size
            return self._core.endpoint.answer_when_durable(request, response, log_end)
        return response

    def _refusal(self, code: int, remark: str | None) -> RequestError:
        return RequestError(code, remark or "", self._marks.copy())

    def _illegal(self, remark: str) -> RequestError:
        return self._refusal(ResponseCode.MESSAGE_ILLEGAL, remark)

    def _read_settings(self, _changed: frozenset[str]) -> None:
        """Keep what every send needs; called again when a setting changes."""
        config = self._core.config
        self._broker_perm = config.int("brokerPermission")
        self._keeps_delete_keys = config.flag("timerBareDeleteKey")
        self.checks_types = self._core.profile.topic_attributes and (
            config.flag("enforceTopicMessageType")
            or (self._core.limits.checks_types and config.flag("enableTopicMessageTypeCheck"))
        )
        self._marks = {
            Prop.MSG_REGION: config.text("regionId"),
            Prop.TRACE_ON: str(config.flag("traceOn")).lower(),
        }
        self._stamps = {Prop.CLUSTER: self._core.cluster_name}
        if self._habits.marks_stored_messages:
            self._stamps = self._marks | self._stamps
        self._stamp_text = encode_properties(self._stamps).decode()
        self._added_names = frozenset({*self._stamps, Prop.POP_CK})
