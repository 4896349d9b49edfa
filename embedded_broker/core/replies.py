"""Replies to requests between clients: how one reaches who asked.

RocketMQ's ReplyMessageProcessor behind its headers. A reply is a message for the topic
``<cluster>_REPLY_TOPIC`` that names the client which waits for it. It is pushed to the connection
of that client, and stored when the client has answered, or did not. Whether it was taken is what
the replier hears; where the reply lies, too. It is stored as it came: the broker adds nothing. Must
not know: headers, codes. Read on: ``client_calls.py``.
"""

from collections.abc import Callable

from attrs import define, evolve

from embedded_broker.core.client_calls import CLIENT_WAIT_MS, Answer, ClientCalls, End, PushReply
from embedded_broker.core.environment import Environment
from embedded_broker.core.produce import Produce
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.send_gate import SendGate
from embedded_broker.core.send_values import Incoming, Outcome
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.tables.consumers.registry import ProducerRegistry
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.properties import Prop, decode_properties, encode_properties

OnReplied = Callable[[Outcome], None]


@define(eq=False, kw_only=True)
class Replies:
    """Hands replies over. Used under the door."""

    _env: Environment
    _producers: ProducerRegistry
    _gate: SendGate
    _produce: Produce
    _calls: ClientCalls

    def reply(self, message: Incoming, group: str, peer: Peer, on_replied: OnReplied) -> None:
        """Push a reply of ``peer`` to who asked; ``on_replied`` is told once what became of it.

        Refuses what no message may be, and a call too many.
        """
        topic = self._gate.topic_for(message)
        queue_id = self._gate.queue_for(message, topic)
        if "\0" in message.properties:
            raise Refused(
                Reason.MESSAGE_ILLEGAL, "the properties hold U+0000, which cannot be stored"
            )
        properties = decode_properties(message.properties)
        asker = properties.get(Prop.REPLY_TO_CLIENT)

        def end(problem: str | None) -> None:
            stored = self._store(message, queue_id, peer)
            if problem is not None:
                stored = Outcome(Reason.FAILED, problem)
            on_replied(stored)

        if asker is None:
            end(f"reply message properties[{Prop.REPLY_TO_CLIENT}] is null")
            return
        waiting = self._producers.find(asker)
        if waiting is None:
            end(f"push reply message fail, channel of <{asker}> not found.")
            return

        def answered(how: End, answer: Answer | None) -> None:
            taken = how is End.ANSWERED and answer is not None and answer.accepted
            end(None if taken else f"push reply message to {asker}fail.")

        now_ms = self._env.clock.now_ms
        pushed = encode_properties({**properties, Prop.PUSH_REPLY_TIME: str(now_ms)}).decode()
        call = PushReply(
            message=evolve(message, properties=pushed),
            producer_group=group,
            born_host="{}:{}".format(*peer.remote[:2]),
            store_host=self._env.address,
            stored_ms=now_ms,
        )
        self._calls.ask(waiting, call, on_end=answered, wait_ms=CLIENT_WAIT_MS)

    def _store(self, message: Incoming, queue_id: int, peer: Peer) -> Outcome:
        """Keep a reply, unless storeReplyMessageEnable is off; what fails is not told."""
        nowhere = Outcome(None, queue_id=queue_id)
        if not self._env.config.flag("storeReplyMessageEnable"):
            return nowhere
        outcome = self._produce.copy(
            InnerMessage(
                message.topic,
                queue_id,
                message.body,
                decode_properties(message.properties),
                message.terms.flag,
                message.terms.sys_flag,
                message.born_timestamp,
                peer.packed_remote,
                message.terms.reconsume_times,
                properties_bytes=message.properties.encode(),
            )
        )
        return outcome if outcome.is_stored else nowhere
