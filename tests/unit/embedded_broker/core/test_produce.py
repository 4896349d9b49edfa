"""Messages come in by values: whoever stores one needs no frame, no header and no connection."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.core.refusals import Reason
from embedded_broker.core.send_values import Incoming, Outcome, Terms
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.store.put_values import InnerMessage, PutRefusal, PutStatus
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop, encode_properties


class Guest(Peer):
    """A peer of no wire at all."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def core(broker: EmbeddedBroker) -> BrokerParts:
    broker.topics.create("T", queues=4)
    return broker._parts()


def message(
    body: bytes = b"x", *, topic: str = "T", terms: Terms | None = None, **properties: str
) -> Incoming:
    text = encode_properties({Prop.UNIQ_KEY: "AB", **properties}).decode()
    return Incoming(topic, body, text, 7, Terms(1) if terms is None else terms)


def produced(core: BrokerParts, *messages: Incoming) -> list[Outcome]:
    with core.door:
        return core.send.produce(messages, Guest(("10.0.0.9", 50_000), ("127.0.0.1", 10_911)))


def stored(core: BrokerParts, topic: str = "T", queue_id: int = 1) -> list[bytes]:
    queue = core.store.queues.get((topic, queue_id))
    found = [] if queue is None else [core.store.record(one[0]) for _, one in queue.iterate(0)]
    return [record.body for record in found if record is not None]


def test_a_message_lies_where_its_outcome_says(core: BrokerParts) -> None:
    (outcome,) = produced(core, message(b"hello", TAGS="a"))
    assert outcome.reason is None
    assert (outcome.queue_id, outcome.queue_offset, outcome.unique_key) == (1, 0, b"AB")
    record = core.store.record(outcome.commit_log_offset)
    assert record is not None
    assert (record.topic, record.body, record.born_timestamp) == ("T", b"hello", 7)
    assert record.born_host == b"\x0a\x00\x00\x09\x00\x00\xc3\x50"


def test_each_of_many_has_an_outcome_of_its_own(core: BrokerParts) -> None:
    outcomes = produced(
        core,
        message(b"plain"),
        message(b"timed", TIMER_DELAY_MS="5000"),
        message(b"by level", DELAY="3"),
        message(b"nowhere", terms=Terms(99)),
        message(b"half", TRAN_MSG="true", PGROUP="P"),
        message(b"last"),
    )
    reasons = [one.reason for one in outcomes]
    assert reasons == [None, None, None, Reason.INVALID_PARAMETER, None, None]
    assert [one.is_stored for one in outcomes] == [True] * 3 + [False] + [True] * 2
    assert "request queueId[99] is illegal" in (outcomes[3].remark or "")
    assert [one.recall_handle is not None for one in outcomes] == [False, True] + [False] * 4
    assert stored(core) == [b"plain", b"last"]
    assert stored(core, TIMER_TOPIC, 0) == [b"timed"]
    assert stored(core, SCHEDULE_TOPIC, 2) == [b"by level"]
    assert stored(core, HALF_TOPIC, 0) == [b"half"]


def test_nothing_is_announced_twice(core: BrokerParts) -> None:
    told: list[tuple[str, int, int]] = []
    core.store.on_arrival.append(
        lambda one: told.append((one.topic, one.queue_offset, len(one.entries)))
    )
    produced(core, *[message(b"%d" % number) for number in range(5)])
    produced(core, *[message(TIMER_DELAY_SEC=str(number + 1)) for number in range(3)])
    produced(core, message(DELAY="1"))
    assert told == [("T", 0, 5), (TIMER_TOPIC, 0, 3), (SCHEDULE_TOPIC, 0, 1)]


def test_a_batch_is_one_message_to_accept_and_many_to_store(core: BrokerParts) -> None:
    body = encode_batch([(0, b"one", b""), (0, b"two", b"")])
    (outcome,) = produced(core, message(body, terms=Terms(1, is_batch=True)))
    assert [core.store.record(offset) is not None for offset in outcome.offsets] == [True, True]
    assert stored(core) == [b"one", b"two"]
    (outcome,) = produced(core, message(b"junk", terms=Terms(1, is_batch=True)))
    assert outcome.reason is Reason.MESSAGE_ILLEGAL


def test_an_unknown_topic_is_made_after_its_template(core: BrokerParts) -> None:
    terms = Terms(template="TBW102", template_queues=2)
    (outcome,) = produced(core, message(topic="New", terms=terms))
    assert outcome.is_stored
    (outcome,) = produced(core, message(topic="Newer"))
    assert outcome.reason is Reason.TOPIC_NOT_EXIST


def test_a_failing_message_does_not_take_the_others_along(core: BrokerParts) -> None:
    class Broken:
        name = "broken"

        def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
            del now_ms
            if msg.body == b"bad":
                raise RuntimeError("no such thing")
            return None

    core.store.hooks.listed.append(Broken())
    first, bad, last = produced(core, message(b"first"), message(b"bad"), message(b"last"))
    assert first.is_stored
    assert (bad.reason, bad.remark) == (Reason.FAILED, "RuntimeError: no such thing")
    assert last.is_stored


def test_the_brokers_own_copy_passes_no_gate_but_the_stores(core: BrokerParts) -> None:
    copy = InnerMessage("Not_there", 0, b"copy", {"K": "v"})
    with core.door:
        outcome = core.send.produce.copy(copy)
    assert outcome.is_stored
    assert outcome.unique_key is None
    record = core.store.record(outcome.commit_log_offset)
    assert record is not None
    assert record.properties == {"K": "v"}
    core.store.close()
    refused = core.send.produce.copy(copy)
    assert (refused.reason, refused.status) == (
        Reason.SERVICE_NOT_AVAILABLE,
        PutStatus.SERVICE_NOT_AVAILABLE,
    )
