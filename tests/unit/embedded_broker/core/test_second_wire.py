"""Another wire beside the remoting protocol: it needs the calls of the core and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from embedded_broker import EmbeddedBroker
from embedded_broker.core.consume import Pull, Pulled
from embedded_broker.core.guards import Action, Asked, Resource, ResourceKind
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.send_values import Incoming, Terms
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.message_codec import decode_records
from rocketmq_py.protocol.properties import encode_properties
from tests.unit.embedded_broker.wire_peer import WirePeer, bodies


class Line(Peer):
    """A peer that is told lines of text. All of this wire is below."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(("127.0.0.1", 7), ("127.0.0.1", 8))
        self.parts = broker._parts()
        self.told: list[str] = []

    def close(self) -> None:
        self.closed = True

    def hear(self, line: str) -> None:
        """SEND topic body [delay_ms], PULL group topic queue offset, ACK group topic queue next."""
        verb, *words = line.split()
        action = Action.PUB if verb == "SEND" else Action.SUB
        topic = words[0] if verb == "SEND" else words[1]
        with self.parts.door:
            try:
                refused = self.parts.guards.check(
                    self, action, [Resource(ResourceKind.TOPIC, topic)]
                )
                if refused is not None:
                    raise refused
                acts: dict[str, Callable[..., None]] = {
                    "SEND": self._send,
                    "PULL": self._pull,
                    "ACK": self._ack,
                }
                acts[verb](*words)
            except Refused as error:
                self.told.append(f"NO {error.reason.name} {error.remark}")

    def _send(self, topic: str, body: str, delay_ms: str = "") -> None:
        asked = {"TIMER_DELAY_MS": delay_ms} if delay_ms else {}
        text = encode_properties(asked).decode()
        message = Incoming(topic, body.encode(), text, terms=Terms(queue_id=0))
        (outcome,) = self.parts.send.produce([message], self)
        if outcome.reason is not None:
            raise Refused(outcome.reason, outcome.remark or "")
        self.told.append(f"STORED {outcome.queue_offset}")

    def _pull(self, group: str, topic: str, queue: str, offset: str) -> None:
        pull = Pull(self, group, topic, int(queue), int(offset), 32, "*", wait_ms=10_000)
        pulled = self.parts.consume.pull(pull, self._tell)
        if pulled is not None:
            self._tell(pulled)

    def _tell(self, pulled: Pulled | Refused) -> None:
        if isinstance(pulled, Refused):
            self.told.append(f"NO {pulled.reason.name} {pulled.remark}")
            return
        records = decode_records(b"".join(pulled.found.buffers))
        bodies = [record.body.decode() for record in records]
        self.told.append(f"GOT {' '.join(bodies)} NEXT {pulled.found.next_begin_offset}")

    def _ack(self, group: str, topic: str, queue: str, offset: str) -> None:
        self.parts.administration.offsets.commit(group, topic, int(queue), int(offset))
        self.told.append("OK")


@define
class Closed:
    """A guard that lets nobody send to one topic."""

    topic: str
    asked: list[Action] = field(factory=list)

    def check(self, asked: Asked) -> Refused | None:
        self.asked.append(asked.action)
        names = [one.name for one in asked.resources]
        if asked.action is Action.PUB and self.topic in names:
            return Refused(Reason.NO_PERMISSION, "closed")
        return None


def test_it_sends_pulls_and_acknowledges(broker: EmbeddedBroker) -> None:
    broker.topics.create("T", queues=1)
    line = Line(broker)

    line.hear("SEND T one")
    line.hear("SEND T two")
    line.hear("PULL G T 0 0")
    line.hear("ACK G T 0 2")

    assert line.told == ["STORED 0", "STORED 1", "GOT one two NEXT 2", "OK"]
    assert broker.groups["G"].lag() == 0


def test_a_pull_over_it_waits_for_a_timer(broker: EmbeddedBroker) -> None:
    broker.topics.create("T", queues=1)
    line = Line(broker)

    line.hear("PULL G T 0 0")
    line.hear("SEND T later 5000")
    assert line.told == ["STORED 0"]
    broker.clock.advance(5)

    assert line.told == ["STORED 0", "GOT later NEXT 1"]


def test_guards_and_refusals_hold_for_it_too(broker: EmbeddedBroker) -> None:
    broker.topics.create("T", queues=1)
    guard = Closed("T")
    broker._parts().guards.append(guard)
    line = Line(broker)

    line.hear("SEND T no")
    line.hear("SEND SCHEDULE_TOPIC_XXXX no")
    line.hear("PULL G T 7 0")

    assert line.told[0] == "NO NO_PERMISSION closed"
    assert line.told[1].startswith("NO NO_PERMISSION Sending message to topic[SCHEDULE_TOPIC_XXXX]")
    assert line.told[2].startswith("NO ")
    assert guard.asked == [Action.PUB, Action.PUB, Action.SUB]
    assert broker.topics["T"].count() == 0


def test_the_remoting_wire_has_what_was_sent_over_it(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    broker.topics.create("T", queues=1)
    line = Line(broker)

    line.hear("PULL G T 0 0")
    peer.send("T", b"over there")
    line.hear("SEND T over_here")

    peer.barrier()
    assert line.told == ["GOT over there NEXT 1", "STORED 1"]
    assert bodies(peer.pull("T")) == [b"over there", b"over_here"]
