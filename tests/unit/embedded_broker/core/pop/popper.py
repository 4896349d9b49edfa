"""A consumer that pops by values, without any wire."""

from __future__ import annotations

from typing import NamedTuple

from attrs import define, field

from embedded_broker import EmbeddedBroker
from embedded_broker.core.pop.acks import Acks, Hidden, HiddenUntil
from embedded_broker.core.pop.pop_values import Pop, Popped
from embedded_broker.core.refusals import Refused
from rocketmq_py.protocol.message_codec import MessageRecord, decode_records
from rocketmq_py.protocol.pop_handles import PopHandle, retry_flag
from rocketmq_py.protocol.properties import Prop
from tests.unit.embedded_broker.peers import Peer


class Got(NamedTuple):
    """One message of a pop, with what names it."""

    record: MessageRecord
    hidden: Hidden

    @property
    def body(self) -> bytes:
        return self.record.body


@define(eq=False)
class Popper:
    """One consumer of group G in topic T."""

    broker: EmbeddedBroker
    group: str = "G"
    topic: str = "T"
    peer: Peer = field(factory=Peer)
    heard: list[Popped | Refused] = field(factory=list)

    def ask(self, **changed: object) -> Popped | None:
        """Pop and give the answer; None: it waits, and `heard` gets it."""
        parts = self.broker._parts()
        asked = {
            "peer": self.peer,
            "group": self.group,
            "topic": self.topic,
            "queue_id": -1,
            "max_count": 32,
            "invisible_ms": 60_000,
        } | changed
        with parts.door:
            return parts.pop.service.pop(Pop(**asked), self.heard.append)  # type: ignore[arg-type]

    def pop(self, **changed: object) -> list[Got]:
        """Pop without waiting; give the messages."""
        popped = self.ask(**changed)
        assert popped is not None
        return self.messages(popped)

    def bodies(self, **changed: object) -> list[bytes]:
        """Pop without waiting; give the bodies, sorted: queues are walked from any of them."""
        return sorted(one.body for one in self.pop(**changed))

    def messages(self, popped: Popped | Refused) -> list[Got]:
        """Give the messages of an answer with their handles, as a client makes them."""
        assert isinstance(popped, Popped)
        records = iter(decode_records(b"".join(popped.buffers)))
        return [
            Got(record, self._hidden(popped, portion.topic, portion.start_offset, record))
            for portion in popped.portions
            for record, _ in zip(records, portion.offsets, strict=False)
        ]

    def _hidden(self, popped: Popped, topic: str, start: int, record: MessageRecord) -> Hidden:
        handle = PopHandle(
            start,
            popped.pop_time_ms,
            popped.invisible_ms,
            popped.revive_queue,
            retry_flag(topic),
            self.broker._parts().broker_name,
            record.queue_id,
            record.queue_offset,
        )
        given = record.properties.get(Prop.POP_CK)
        assert given in {None, handle.text()}
        place = (topic, record.queue_id, record.queue_offset)
        return Hidden(self.peer, self.group, *place, handle)

    @property
    def acks(self) -> Acks:
        """What takes the acks of this consumer's broker."""
        return self.broker._parts().pop.acks

    def ack(self, *messages: Got) -> None:
        """Say that messages are done."""
        for one in messages:
            with self.broker._parts().door:
                self.acks.ack(one.hidden)

    def hide_longer(self, one: Got, invisible_ms: int) -> HiddenUntil | None:
        """Hide a message for so long from now."""
        with self.broker._parts().door:
            return self.acks.hide_longer(one.hidden, invisible_ms)

    def hidden(self) -> list[tuple[str, int, int]]:
        """Give topic, queue and offset of what is hidden from the group."""
        parts = self.broker._parts()
        with parts.door.quiet:
            found = [
                (topic, queue_id, offset)
                for _, topic, queue_id, offset, _ in parts.pop.revive.hidden(self.group)
            ]
        return sorted(found)

    def committed(self, queue_id: int = 0, topic: str = "T") -> int:
        """Give the group's offset."""
        return self.broker._parts().tables.offsets.query(self.group, topic, queue_id)


def save(broker: EmbeddedBroker) -> None:
    """Let the tables reach their files, as they do every few seconds."""
    parts = broker._parts()
    with parts.door:
        parts.table_files.save()
    parts.flush_everything()


def fill(broker: EmbeddedBroker, count: int, topic: str = "T", **properties: str) -> None:
    """Send messages m0, m1 ... to queue 0."""
    for number in range(count):
        broker.send(topic, b"m%d" % number, properties=properties, queue=0)
