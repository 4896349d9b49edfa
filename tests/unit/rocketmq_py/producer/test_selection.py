"""Which queue comes next."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from rocketmq_py.message import Message
from rocketmq_py.producer.fault import BrokerFaults, FaultTable
from rocketmq_py.producer.selection import (
    TOPICS_MAX,
    QueueSelection,
    select_message_queue_by_hash,
    select_message_queue_by_random,
)
from rocketmq_py.send_result import MessageQueue

QUEUES = tuple(MessageQueue("T", name, n) for name in ("a", "b") for n in range(4))
EIGHT = tuple(MessageQueue("T", "a", n) for n in range(8))
MESSAGE = Message("T", b"x")


def selection(
    *, enabled: bool = False, detecting: bool = False
) -> tuple[QueueSelection, BrokerFaults]:
    faults = BrokerFaults(
        enabled=enabled, detecting=detecting, table=FaultTable.V5, detect_interval_ms=2_000
    )
    return QueueSelection(faults), faults


def test_queues_take_turns() -> None:
    chooser, _ = selection()
    drawn = Counter(chooser.select("T", QUEUES, None) for _ in range(80))
    assert set(drawn.values()) == {10}


def test_each_thread_and_topic_counts_for_itself() -> None:
    chooser, _ = selection()
    chosen = [chooser.select("T", QUEUES, None)]
    chooser.select("U", QUEUES, None)
    thread = threading.Thread(target=lambda: chooser.select("T", QUEUES, None))
    thread.start()
    thread.join()
    chosen.append(chooser.select("T", QUEUES, None))
    first, second = (QUEUES.index(queue) for queue in chosen)
    assert second == (first + 1) % 8


def test_a_retry_leaves_the_last_broker_unless_it_is_the_only_one() -> None:
    chooser, _ = selection()
    assert {chooser.select("T", QUEUES, "a").broker_name for _ in range(20)} == {"b"}
    assert chooser.select("T", EIGHT, "a").broker_name == "a"


@pytest.mark.parametrize(
    ("silent", "connected", "last", "expected"),
    [
        ("", "ab", None, "ab"),
        ("b", "ab", None, "a"),  # it is asked, and has not answered yet
        ("b", "b", "a", "b"),  # the other one refuses: it may be away for long
        ("b", "ab", "a", "a"),  # the other one has answered, if only with a refusal
        ("b", "", "a", "a"),  # a host that takes no connect is the worst
    ],
)
def test_a_slow_broker_is_better_than_one_that_refuses_and_both_than_one_that_is_silent(
    silent: str, connected: str, last: str | None, expected: str
) -> None:
    _, faults = selection()
    chooser = QueueSelection(faults, lambda: silent, lambda: connected)
    drawn = {chooser.select("T", QUEUES, last).broker_name for _ in range(20)}
    assert drawn == set(expected)


def test_an_avoided_broker_is_skipped_on_the_first_attempt_already() -> None:
    chooser, faults = selection(enabled=True)
    faults.record("a", 5, isolated=True)
    assert {chooser.select("T", QUEUES, None).broker_name for _ in range(20)} == {"b"}


def test_when_all_are_avoided_a_reachable_one_is_taken_and_then_any() -> None:
    chooser, faults = selection(enabled=True, detecting=True)
    faults.record("a", 5, isolated=True, reachable=False)
    faults.record("b", 5, isolated=True, reachable=True)
    assert {chooser.select("T", QUEUES, None).broker_name for _ in range(20)} == {"b"}
    faults.record("b", 5, isolated=True, reachable=False)
    assert chooser.select("T", QUEUES, None) in QUEUES


def test_counters_of_many_topics_are_bounded() -> None:
    chooser, _ = selection()
    for number in range(TOPICS_MAX + 5):
        chooser.select(str(number), QUEUES, None)
    assert len(chooser._counters.of_topics) <= TOPICS_MAX + 1


@pytest.mark.case("T23")
@pytest.mark.parametrize(
    ("arg", "queue"),
    [("g1", 2), ("abc", 2), ("order-1", 6), (3, 3), (-1, 1), (2**31, 0), (2**40 + 3, 3)],
)
def test_the_hash_selector_agrees_with_java(arg: object, queue: int) -> None:
    # Long.hashCode(2^31) is Integer.MIN_VALUE, Long.hashCode(2^40 + 3) is 0x103.
    assert select_message_queue_by_hash(EIGHT, MESSAGE, arg).queue_id == queue


@pytest.mark.parametrize("arg", [None, 1.5, True, 2**63, b"abc"])
def test_the_hash_selector_refuses_what_has_no_agreed_hash(arg: object) -> None:
    with pytest.raises(TypeError, match="str or a 64-bit int"):
        select_message_queue_by_hash(EIGHT, MESSAGE, arg)


def test_the_random_selector_takes_any_queue() -> None:
    assert select_message_queue_by_random(EIGHT, MESSAGE, None) in EIGHT
