"""What is read quickly says the same as what is read in full."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker.timer.request import parse_request, root_offset, topic_hash
from embedded_broker.timer.wheel.plain_timer import NEVER_ROLLED, Destinations, plain_due_ms
from rocketmq_py.protocol.delay import release_due_ms
from rocketmq_py.protocol.properties import decode_properties

STORED_MS = 1_700_000_000_123
OFFSET = 4711
TAIL = b"TIMER_OUT_MS\x01%d\x02REAL_TOPIC\x01T\x02REAL_QID\x013\x02"
ROLLED = (
    b"TIMER_DUE_MS\x01%d\x02TIMER_ROLL_TIMES\x012\x02TIMER_ENQUEUE_MS\x011\x02"
    b"TIMER_DEQUEUE_MS\x012\x02TIMER_SRC_OFFSET\x013\x02TIMER_ROOT_OFFSET\x0199\x02"
)


@pytest.mark.parametrize("step_ms", [1, 250, 1000])
@pytest.mark.parametrize("seed", range(20))
def test_a_plain_timer_is_due_when_its_properties_say(seed: int, step_ms: int) -> None:
    chance = Random(seed)
    destinations = Destinations()
    for _ in range(100):
        out_ms = STORED_MS // 1000 * 1000 + chance.randrange(100) * 1000
        asked_ms = out_ms + chance.choice([-1, 0, 1, 500, 999, 1000, 1001, chance.randrange(3000)])
        request = chance.choice(
            [
                b"TIMER_DELIVER_MS\x01%d\x02" % asked_ms,
                b"TIMER_DELAY_MS\x01%d\x02" % max(0, asked_ms - STORED_MS),
                b"TIMER_DELAY_SEC\x01%d\x02" % max(0, (asked_ms - STORED_MS) // 1000),
            ]
        )
        head = chance.choice(
            [b"", b"UNIQ_KEY\x01K\x02", b"A\x01b\x01TAGS\x01\x02", b"\x02TAGS\x01t\x02"]
        )
        rolled = ROLLED % asked_ms if chance.random() < 0.4 else b""
        text = head + request + chance.choice([b"", b"WAIT\x01true\x02"]) + TAIL % out_ms + rolled
        properties = decode_properties(text)
        asked = parse_request(properties)
        plain = destinations.read(text, STORED_MS, OFFSET)
        assert asked is not None
        assert plain is not None
        place, slot_ms, _, root, rolls = plain
        assert asked[:3] == (slot_ms, place.topic, place.queue_id)
        assert topic_hash(asked.real_topic) == place.hash
        assert root_offset(properties, OFFSET) == root
        assert (rolls == NEVER_ROLLED) is (not rolled)
        assert release_due_ms(properties, STORED_MS, out_ms, 1000, step_ms) == (
            plain_due_ms(plain, 1000, step_ms)
        )


@pytest.mark.parametrize(
    "text",
    [
        b"",
        TAIL % 5000,
        b"TIMER_DELIVER_MS\x015500\x02",
        b"TIMER_DELIVER_MS\x015500\x02" + TAIL[:-1] % 5000,
        b"TIMER_DELIVER_MS\x01+5500\x02" + TAIL % 5000,
        b"TIMER_DELIVER_MS\x01\x02" + TAIL % 5000,
        b"TIMER_DELIVER_MS\x015500\x02TIMER_DELAY_SEC\x015\x02" + TAIL % 5000,
        b"TIMER_DELIVER_MS\x015500\x02DELAY\x013\x02" + TAIL % 5000,
        b"TIMER_DEL_UNIQKEY\x01T+K\x02" + TAIL % 5000,
        b"TIMER_DEL_UNIQKEY\x01T+K\x02" + TAIL % 5000 + ROLLED % 5500,
        b"A\x01TIMER_DELIVER_MS\x015500\x02" + TAIL % 5000,
        b"XTIMER_DELIVER_MS\x015500\x02" + TAIL % 5000,
        b"TIMER_DELIVER_MS\x015500\x02" + (TAIL % 5000).replace(b"\x01T\x02", b"\x01\x02"),
        b"TIMER_DELIVER_MS\x015500\x02"
        + (TAIL % 5000).replace(b"\x013\x02", b"\x019999999999\x02"),
        b"TIMER_DELIVER_MS\x015500\x02" + TAIL % 5000 + b"WAIT\x01true\x02",
        b"TIMER_DELIVER_MS\x015500\x02" + TAIL % 5000 + b"TIMER_DUE_MS\x015500\x02",
        b"TIMER_DELIVER_MS\x015500\x02"
        + (TAIL % 5000).replace(b"\x01T\x02", b"\x01rmq_sys_wheel_timer\x02"),
        b"TIMER_DELIVER_MS\x015500\x02"
        + (TAIL % 5000).replace(b"\x01T\x02", b"\x01%b\x02" % (b"T" * 40)),
    ],
)
def test_what_is_not_plain_is_left_to_others(text: bytes) -> None:
    assert Destinations().read(text, STORED_MS, OFFSET) is None


def test_places_are_remembered_but_not_for_ever() -> None:
    destinations = Destinations()
    for number in range(3000):
        text = b"TIMER_DELAY_MS\x015\x02" + (TAIL % 5000).replace(
            b"\x01T\x02", b"\x01T%d\x02" % number
        )
        plain = destinations.read(text, STORED_MS, OFFSET)
        assert plain is not None
        assert plain[0].topic == f"T{number}"
    assert 0 < len(destinations._known) <= 1024
