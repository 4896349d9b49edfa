"""Which queue a message group goes to: numbers that a JVM with a proxy's own Guava has given."""

from __future__ import annotations

import pytest

from compat.v5.fifo import queue_number, selector
from rocketmq_py import Message, MessageQueue


@pytest.mark.parametrize(
    ("group", "proxy", "sip"), [("g1", 6, 4), ("abc", 7, 5), ("order-1", 3, 7)]
)
def test_the_numbers_are_those_of_a_proxy_and_of_the_java_client(
    group: str, proxy: int, sip: int
) -> None:
    assert (queue_number(group, 8), queue_number(group, 8, "sip")) == (proxy, sip)


@pytest.mark.parametrize("group", ["", "中文", "😀", "x" * 1000])
def test_any_text_has_a_queue(group: str) -> None:
    for queues in (1, 3, 8):
        assert 0 <= queue_number(group, queues) < queues
        assert 0 <= queue_number(group, queues, "sip") < queues


def test_queues_are_numbered_by_broker_and_number() -> None:
    queues = [MessageQueue("T", name, number) for number in range(4) for name in ("b", "a")]
    chosen = selector("proxy")(queues, Message("T", b"x"), "g1")
    assert chosen == MessageQueue("T", "b", 2)
