"""A run is what its messages are, put together."""

from __future__ import annotations

import pytest

from embedded_broker.store.message_run import Arrivals, MessageRun, tags_codes
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage, PutResult, PutStatus
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX, encode_properties
from rocketmq_py.protocol.tag_hash import tags_code
from tests.unit.embedded_broker.store.store_tools import FullDisk, bodies, new_store

HOST = b"\x0a\x00\x00\x09\x00\x00\xc3\x50"


def run(count: int = 3, *, topic: str = "T", text: bytes = b"", sys_flag: int = 0) -> MessageRun:
    items = []
    for number in range(count):
        properties = text or encode_properties({"TAGS": f"t{number % 2}"})
        body = f"body {number}".encode()
        items.append((number, 17 + number, body, properties, tags_codes([properties])[0]))
    return MessageRun(topic, 1, items, sys_flag, HOST, 2)


class _Hook:
    """Sees every message, unless it ignores plain ones."""

    name = "hook"

    def __init__(self, *, ignores_plain: bool) -> None:
        self.ignores_plain = ignores_plain
        self.seen: list[bytes] = []

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutResult | None:
        del now_ms
        self.seen.append(msg.body)
        return None


def log_bytes(store: MessageStore) -> bytes:
    return bytes(store.log.files.read_file_from(0))


def test_a_run_leaves_the_same_bytes_as_its_messages_one_by_one() -> None:
    short, long = new_store(), new_store()
    whole = short.put(run())
    assert whole == long.put(*run().messages())
    assert log_bytes(long) == log_bytes(short)
    assert whole.size == short.log.max_offset
    entries = [store.consume_queue("T", 1) for store in (short, long)]
    first, second = (list(queue.iterate(0)) if queue else [] for queue in entries)
    assert first == second
    assert [code for _, (_, _, code) in first] == [tags_code(f"t{n % 2}") for n in range(3)]


def test_a_run_is_told_once_when_all_of_it_is_visible() -> None:
    store = new_store()
    seen: list[tuple[Arrivals, int]] = []
    store.on_arrival.append(lambda told: seen.append((told, store.max_offset("T", 1))))
    store.put(run(1))
    offsets = store.put(run(4)).offsets
    (_, (told, visible)) = seen
    assert (told.queue_offset, visible) == (1, 5)
    assert [one.commit_log_offset for one in told.each()] == offsets
    assert [one.queue_offset for one in told.each()] == [1, 2, 3, 4]
    assert told.at(3).properties == {"TAGS": "t1"}


@pytest.mark.parametrize(
    ("from_offset", "tags", "found"),
    [
        (0, None, True),
        (0, ["t1"], True),
        (7, ["t1"], True),
        (8, ["t1"], False),
        (7, ["t2"], False),
        (7, None, True),
        (8, None, False),
    ],
)
def test_arrivals_are_asked_for_a_code_from_an_offset_on(
    from_offset: int, tags: list[str] | None, found: bool
) -> None:
    entries = [(0, 9, tags_code("t0")), (9, 9, tags_code("t0")), (18, 9, tags_code("t1"))]
    arrivals = Arrivals("T", 0, 5, entries, 0)
    codes = None if tags is None else frozenset(map(tags_code, tags))
    assert arrivals.has(from_offset, codes) is found


@pytest.mark.parametrize("ignores", [True, False])
def test_only_hooks_that_ignore_plain_messages_are_not_asked(ignores: bool) -> None:
    store = new_store()
    hook = _Hook(ignores_plain=ignores)
    store.hooks.listed.append(hook)
    assert store.put(run()).ok
    assert hook.seen == ([] if ignores else [b"body 0", b"body 1", b"body 2"])
    assert bodies(store, queue_id=1) == ["body 0", "body 1", "body 2"]


def test_a_run_that_does_not_fit_goes_into_the_next_file_as_a_whole() -> None:
    store = new_store()
    for _ in range(3):
        store.put(run())
    offsets = store.put(run()).offsets
    assert offsets[0] == 1024
    assert len(bodies(store, queue_id=1)) == 12


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        (run(text=b"a" * (PROPERTIES_SIZE_MAX + 1)), PutStatus.PROPERTIES_SIZE_EXCEEDED),
        (run(topic="t" * 128), PutStatus.MESSAGE_ILLEGAL),
        (run(100), PutStatus.MESSAGE_ILLEGAL),
    ],
)
def test_what_no_message_may_have_a_run_may_not_have_either(
    changed: MessageRun, status: PutStatus
) -> None:
    store = new_store()
    whole = store.put(changed)
    assert whole.status is status
    assert whole.remark
    assert list(whole.offsets) == []
    assert store.log.max_offset == 0


def test_a_full_disk_refuses_a_run_and_leaves_no_trace() -> None:
    fs = FullDisk()
    store = new_store(fs)
    store.put(run(1))
    for left in (0, 1):
        fs.left = left
        assert store.put(run()).status is PutStatus.CREATE_MAPPED_FILE_FAILED
    fs.left = None
    assert store.put(run(2)).queue_offset == 1
    assert bodies(store, queue_id=1) == ["body 0", "body 0", "body 1"]


def test_puts_to_the_topics_of_delayed_messages_are_counted() -> None:
    store = new_store()
    store.put(InnerMessage("T", 0, b"x"))
    store.put(run())
    assert store.delayed_puts == 0
    store.put(InnerMessage(TIMER_TOPIC, 0, b"x"))
    store.put(InnerMessage(SCHEDULE_TOPIC, 1, b"x"), InnerMessage("T", 0, b"x"))
    store.put(run(1, topic=TIMER_TOPIC))
    assert store.delayed_puts == 3
