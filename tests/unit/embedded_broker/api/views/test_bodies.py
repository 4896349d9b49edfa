"""Compressed bodies in views: which are decompressed, where, and how much they may become."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.api.views import Bodies
from embedded_broker.api.views.bodies import SETTING
from embedded_broker.store.put_values import InnerMessage
from rocketmq_py.errors import BodyTooLargeError
from rocketmq_py.protocol import message_codec
from rocketmq_py.protocol.compression import decompress
from rocketmq_py.protocol.sysflag import COMPRESSED
from tests.unit.embedded_broker.api.views.manual_consumer import ManualConsumer

MIB = 1 << 20
SIZE = 400_000
"""Of a body; two fit in the limit of these tests, three do not."""


@pytest.fixture
def broker(clock: VirtualClock) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], config={SETTING: MIB}) as broker:
        ManualConsumer(broker).join()
        broker.topics.create("%DLQ%G")
        yield broker


def store(broker: EmbeddedBroker, topic: str, count: int = 3, **properties: str) -> None:
    """Store messages whose few bytes become many."""
    parts = broker._parts()
    for number in range(count):
        body = zlib.compress(bytes([97 + number]) * SIZE)
        with parts.door:
            message = InnerMessage(topic, 0, body, {"KEYS": "K", **properties})
            message.sys_flag = COMPRESSED
            parts.store.put(message)


@pytest.fixture
def unpacked(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether somebody was inside the door, of each body that was decompressed."""
    seen: list[bool] = []
    door = broker._parts().door

    def note(body: bytes, sys_flag: int, size_max: int, setting: str) -> bytes:
        seen.append(door.held)
        return decompress(body, sys_flag, size_max, setting)

    monkeypatch.setattr(message_codec, "decompress", note)
    return seen


@pytest.mark.parametrize("key", [None, "K"])
def test_only_the_bodies_of_a_page_are_decompressed(
    broker: EmbeddedBroker, unpacked: list[bool], key: str | None
) -> None:
    store(broker, "T", 6)
    page = broker.messages.page("T", key=key, skip=4, limit=1)
    assert page.count == 6
    assert [one.body[:1] for one in page.messages] == [b"e"]
    assert unpacked == [False]
    assert broker.messages.page("T", key=key, skip=6).messages == ()
    assert [one.offset for one in broker.messages.page("T", key=key, skip=5).messages] == [5]
    assert len(unpacked) == 2


LOOKS: list[tuple[str, Callable[[EmbeddedBroker], object]]] = [
    ("T", lambda broker: broker.messages.in_topic("T")),
    ("T", lambda broker: broker.messages.by_key("T", "K")),
    ("T", lambda broker: broker.messages.page("T")),
    ("%DLQ%G", lambda broker: broker.groups["G"].dead_letters()),
    ("%RETRY%G", lambda broker: broker.groups["G"].retries()),
]


@pytest.mark.parametrize(("topic", "look"), LOOKS)
def test_what_one_look_decompresses_has_a_limit_that_its_error_names(
    broker: EmbeddedBroker,
    unpacked: list[bool],
    topic: str,
    look: Callable[[EmbeddedBroker], object],
) -> None:
    store(broker, topic, 2)
    for _ in range(3):  # each look begins anew
        look(broker)
    assert unpacked == [False] * 6
    store(broker, topic, 30)
    with pytest.raises(BodyTooLargeError, match=f"{MIB} bytes of {SETTING}"):
        look(broker)
    assert unpacked == [False] * 9


def test_the_caller_may_name_another_limit(broker: EmbeddedBroker) -> None:
    store(broker, "T")
    assert len(broker.messages.in_topic("T", bodies=Bodies(3 * SIZE, "mine"))) == 3
    with pytest.raises(BodyTooLargeError, match=f"{3 * SIZE - 1} bytes of mine"):
        broker.messages.in_topic("T", bodies=Bodies(3 * SIZE - 1, "mine"))


def test_bodies_that_are_not_compressed_do_not_count(broker: EmbeddedBroker) -> None:
    for _ in range(4):
        broker.send("T", bytes(SIZE))
    assert len(broker.messages.in_topic("T")) == 4
