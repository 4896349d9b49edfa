"""Sends: how a message is accepted, whatever wire it came over, or of the broker's own.

RocketMQ's SendMessageProcessor behind its headers. Each message passes the same gate
(``send_gate.py``), its properties are completed (``stored_properties.py``), and it is put, or a
batch of them. Delay is not known here: the put hook of ``timer/admission.py`` reads it from the
properties during the put. Messages of known shapes that come together are put together
(``send_shapes.py``). Must not know: headers, response codes, how an answer travels.

Read on: ``send_values.py`` for the values, ``retries.py`` for the way to the dead letters,
``put_reasons.py`` for what the store refuses.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import define

from embedded_broker.core.batch_properties import joined_texts
from embedded_broker.core.durability import Durability
from embedded_broker.core.environment import Environment
from embedded_broker.core.put_reasons import reason_of
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.retries import Retries
from embedded_broker.core.send_gate import SendGate, stored_sys_flag
from embedded_broker.core.send_shapes import SendShapes, Shaped
from embedded_broker.core.send_values import Incoming, Outcome
from embedded_broker.core.stored_properties import StoredProperties
from embedded_broker.core.transactions.half import into_half
from embedded_broker.store.message_run import MessageRun, tags_codes
from embedded_broker.store.put_values import InnerMessage, PutResult, PutStatus
from embedded_broker.tables.peer import Peer
from embedded_broker.tables.topics.attributes import takes_batches
from embedded_broker.timer.request import recall_handle_of, recall_time_ms
from rocketmq_py.errors import RecordError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.inner_batch import BATCH_MAX
from rocketmq_py.protocol.message_codec import decode_batch_columns
from rocketmq_py.protocol.message_columns import MessageColumns
from rocketmq_py.protocol.names import RETRY_PREFIX, TOPIC_LENGTH_MAX
from rocketmq_py.protocol.properties import Prop, encode_properties
from rocketmq_py.protocol.sysflag import INNER_BATCH, NEED_UNWRAP

logger = get_logger(__name__)

_PROPERTIES_IN_BATCH_MAX: Final = 65_536
"""Properties of all messages of a batch together; each may have to be looked at."""


@define(eq=False, kw_only=True)
class Produce:
    """Accepts messages and tells where they lie, or why they are refused. Used under the door."""

    _env: Environment
    _timer_topic: str
    _durability: Durability
    _gate: SendGate
    _stored_properties: StoredProperties
    _retries: Retries
    _shapes: SendShapes

    def __call__(self, messages: Sequence[Incoming], peer: Peer) -> list[Outcome]:
        """Store messages in their order, and give the outcome of each.

        Those of known shapes go together, and with them first what asks for a time.
        """
        if not self._puts_together:
            return [self._one(message, peer) for message in messages]
        outcomes: list[Outcome | None] = [None] * len(messages)
        find = self._shapes.find
        run: list[Shaped] = []
        for index, message in enumerate(messages):
            shaped = find(index, message)
            if shaped is not None:
                run.append(shaped)
                continue
            if run:
                self._put(run, peer, outcomes)
                run = []
            outcomes[index] = self._one(message, peer)
        if run:
            self._put(run, peer, outcomes)
        return outcomes  # type: ignore[return-value] # each has its own by now

    def copy(self, message: InnerMessage) -> Outcome:
        """Store a message that the broker makes of one it has: as it is, wherever it is to go."""
        queue_id = message.queue_id
        return self._outcome(self._env.store.put(message), queue_id, message.properties)

    @property
    def _puts_together(self) -> bool:
        """Whether messages are answered at once, and no hook wants to see every one of them."""
        return (
            self._env.profile.names_stored_messages
            and not self._durability.is_awaited
            and not self._gate.checks_types
            and self._env.store.hooks.ignore_plain
            and not self._env.store.budget.is_full
        )

    def _put(self, run: list[Shaped], peer: Peer, outcomes: list[Outcome | None]) -> None:
        for at, message, *_ in self._shapes.put(run, peer, outcomes):
            outcomes[at] = self._one(message, peer)

    def _one(self, message: Incoming, peer: Peer) -> Outcome:
        """Store one message, or one batch, by itself."""
        budget = self._env.store.budget
        if not budget.has_room():
            return Outcome(Reason.SERVICE_NOT_AVAILABLE, budget.refusal())
        try:
            topic = self._gate.topic_for(message)
            if message.terms.is_batch:
                return self._batch(message, topic, peer)
            return self._single(message, topic, peer)
        except Refused as refused:
            return Outcome(refused.reason, refused.remark)
        except Exception as error:
            # The others that came along have their outcomes, too.
            logger.exception("a message for %s failed", message.topic)
            return Outcome(Reason.FAILED, f"{type(error).__name__}: {error}")

    # -- one message ------------------------------------------------------------------------

    def _single(self, message: Incoming, topic: TopicConfig, peer: Peer) -> Outcome:
        name, text = message.topic, message.properties
        properties = self._stored_properties.read(text, name, is_escaped=message.terms.is_escaped)
        if Prop.INNER_NUM in properties or message.terms.sys_flag & INNER_BATCH:
            self._gate.check_inner_batch(message, topic, properties)
        self._gate.check_type(topic, properties)
        queue_id = self._gate.queue_for(message, topic)
        if name.startswith(RETRY_PREFIX):
            routed = self._retries.of_client_send(message, properties)
            text = ""  # the properties may be others now
            if routed is not None:
                name, queue_id = routed
        is_half = self._gate.is_half(message, properties)
        encoded = self._stored_properties.complete(properties, text)
        inner = InnerMessage(
            name,
            queue_id,
            message.body,
            properties,
            message.terms.flag,
            stored_sys_flag(message.terms.sys_flag, topic),
            message.born_timestamp,
            peer.packed_remote,
            message.terms.reconsume_times,
            0,
            encoded,
        )
        if is_half:
            into_half(inner)
        if self._durability.is_awaited:
            self._check_replicas(properties)
        result = self._env.store.put(inner)
        outcome = self._outcome(result, queue_id, properties)
        if not self._env.profile.names_stored_messages or not outcome.is_stored:
            return outcome
        time_ms = recall_time_ms(properties) if inner.topic == self._timer_topic else None
        unique_key = properties[Prop.UNIQ_KEY]
        outcome.unique_key = unique_key.encode()
        if time_ms is not None:
            real_topic = properties[Prop.REAL_TOPIC]
            outcome.recall_handle = recall_handle_of(
                real_topic, self._env.broker_name, time_ms, unique_key
            )
        return outcome

    def _outcome(self, result: PutResult, queue_id: int, properties: Mapping[str, str]) -> Outcome:
        """Say what became of a put; a message that is not stored has no place."""
        reason: Reason | None = None
        remark = None
        if result.status is not PutStatus.PUT_OK:
            reason, remark = reason_of(result, self._env.config)
            if not result.status.is_stored:
                return Outcome(reason, remark, status=result.status)
        log_end = 0
        if self._durability.is_awaited and properties.get(Prop.WAIT) != "false":
            log_end = result.commit_log_offset + result.size
        place = (result.commit_log_offset, queue_id, result.queue_offset)
        return Outcome(reason, remark, *place, synced_at=log_end, status=result.status)

    def _check_replicas(self, properties: Mapping[str, str]) -> None:
        """Refuse what waits for more slaves than there are (IN_SYNC_REPLICAS_NOT_ENOUGH)."""
        replication = self._durability.replication
        waits = properties.get(Prop.WAIT) != "false"
        if waits and replication.lacks_replicas(self._env.store.log.max_offset):
            raise Refused(Reason.FAILED, "in-sync replicas not enough")

    # -- a batch ----------------------------------------------------------------------------

    def _batch(self, message: Incoming, topic: TopicConfig, peer: Peer) -> Outcome:
        """Store the messages of a batch one behind the other.

        Refused: a retry topic, an undecodable body, one over maxMessageSize as a whole, more than
        maxMessagesInBatch messages, and any delay, asked for outside or inside (a real broker
        stores inner requests and ignores them).
        """
        name, size, size_max = message.topic, len(message.body), self._env.store.body_size_max
        if name.startswith(RETRY_PREFIX):
            raise _illegal(f"batch request does not support retry group {name}")
        if len(name) > TOPIC_LENGTH_MAX:
            raise _illegal(f"message topic length too long {len(name)}, at most {TOPIC_LENGTH_MAX}")
        if size > size_max:
            raise _illegal(
                f"the batch has {size} bytes, at most {size_max} are allowed (maxMessageSize)"
            )
        outer = self._stored_properties.read(message.properties, name, in_batch=True)
        self._gate.check_type(topic, outer)
        if self._gate.is_half(message, outer):
            raise _illegal("a batch cannot be a transaction: send half messages one by one")
        most = self._env.config.int("maxMessagesInBatch")
        try:
            flags, bodies, inner = decode_batch_columns(message.body, most)
        except RecordError as error:
            raise _illegal(f"the batch body cannot be decoded: {error}") from error
        if not bodies:
            raise _illegal("the batch holds no message")
        if len(bodies) > most:
            raise _illegal(
                f"the batch holds more messages than {most}, the most allowed (maxMessagesInBatch)"
            )
        if size > 3 * _PROPERTIES_IN_BATCH_MAX:
            count = b"".join(inner).count(2)
            if count > _PROPERTIES_IN_BATCH_MAX:
                raise _illegal(
                    f"the messages of the batch have {count} properties, at most "
                    f"{_PROPERTIES_IN_BATCH_MAX} are allowed"
                )
        self._stored_properties.drop_pop(outer)
        queue_id = self._gate.queue_for(message, topic)
        texts = self._item_texts(inner, outer, name)
        if takes_batches(topic) and Prop.UNIQ_KEY in outer:
            return self._inner_batch(message, topic, queue_id, outer, len(bodies), peer)
        run = MessageRun(
            name,
            queue_id,
            MessageColumns(flags, message.born_timestamp, bodies, texts, tags_codes(texts)),
            stored_sys_flag(message.terms.sys_flag, topic),
            peer.packed_remote,
            message.terms.reconsume_times,
        )
        if self._durability.is_awaited:
            self._check_replicas(outer)
        result = self._env.store.put(run)
        outcome = self._outcome(result, queue_id, outer)
        if self._env.profile.names_stored_messages and Prop.UNIQ_KEY in outer:
            outcome.unique_key = outer[Prop.UNIQ_KEY].encode()
        outcome.offsets = result.offsets
        return outcome

    def _inner_batch(
        self,
        message: Incoming,
        topic: TopicConfig,
        queue_id: int,
        properties: dict[str, str],
        count: int,
        peer: Peer,
    ) -> Outcome:
        """Store a batch as one record, as the original does in a BatchCQ topic.

        Only of batches that have a UNIQ_KEY: those of clients before 5.x come apart there, too.
        """
        if count > BATCH_MAX:
            raise _illegal(f"the batch holds {count} messages, a BatchCQ topic takes {BATCH_MAX}")
        terms, key = message.terms, properties[Prop.UNIQ_KEY].encode()
        properties.update(self._stored_properties.added)
        properties[Prop.INNER_NUM] = str(count)
        inner = InnerMessage(
            message.topic,
            queue_id,
            message.body,
            properties,
            terms.flag,
            stored_sys_flag(terms.sys_flag, topic) | NEED_UNWRAP | INNER_BATCH,
            message.born_timestamp,
            peer.packed_remote,
            terms.reconsume_times,
        )
        outcome = self._outcome(self._env.store.put(inner), queue_id, properties)
        outcome.unique_key = outcome.batch_key = key
        return outcome

    def _item_texts(
        self, texts: Sequence[bytes], outer: Mapping[str, str], topic: str
    ) -> Sequence[bytes]:
        """Give the properties that each message of a batch is stored with, or refuse a delay.

        With batchItemsKeepUniqKey what the message says itself stands; a real broker lets the
        batch's UNIQ_KEY win.
        """
        items_win, added = (
            self._env.config.flag("batchItemsKeepUniqKey"),
            self._stored_properties.added,
        )
        self._gate.check_no_delay(outer)
        joined = joined_texts(texts, outer, added, items_win=items_win)
        if joined is not None:
            return joined
        read = []
        for text in texts:
            inner = self._stored_properties.read(
                text.decode("utf-8", "replace"), topic, in_batch=True
            )
            self._gate.check_no_delay(inner)
            both = {**outer, **inner} if items_win else {**inner, **outer}
            read.append(encode_properties({**both, **added}))
        return read


def _illegal(remark: str) -> Refused:
    return Refused(Reason.MESSAGE_ILLEGAL, remark)
