"""A store directory goes from a real 5.3.3 broker to ours and back, with everything that waits.

What a real broker leaves, stopped or killed, our broker delivers exactly once; what ours leaves, a
real one delivers at least once (it may repeat the slot that was in progress). Nobody delivers
early. On the way the inspector must find the same messages in the files.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.cli.asking import ask_brokers
from embedded_broker.inspector.reader import StoreFiles
from embedded_broker.inspector.report import Report, report_of_store
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    SystemClock,
)
from tests.interop.java_tools import ROOT
from tests.interop.real_broker import RealCluster, real_cluster
from tests.waiting import HANG_S, until

CLOCK = SystemClock()
TOPIC = "Exchange"
TIMERS = 24
LEVELS_MS = {3: 10_000, 5: 60_000}
# A hang guard, not a figure: under load the real broker needs a while to start.
LATE_MS = 60_000
SIZES = {
    "mappedFileSizeCommitLog": 67_108_864,
    "mappedFileSizeConsumeQueue": 600_000,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
    "mappedFileSizeTimerLog": 1_048_576,
}
SERVE = [sys.executable, "-c", "from embedded_broker.cli import main; main()", "serve"]


def fill(namesrv_addr: str, first_delay_ms: int, step_ms: int, level: int) -> dict[str, int]:
    """Send timers, a recalled one and messages at a level; gives due times by message id."""
    due: dict[str, int] = {}
    with DefaultMQProducer("P_exchange", namesrv_addr=namesrv_addr) as producer:
        for number in range(TIMERS):
            due_ms = CLOCK.now_ms + first_delay_ms + number * step_ms
            message = Message(TOPIC, b"%d" % number).set_deliver_time_ms(due_ms)
            due[producer.send(message).msg_id] = due_ms
        for _ in range(3):
            message = Message(TOPIC, b"level").set_delay_time_level(level)
            began_ms = CLOCK.now_ms
            due[producer.send(message).msg_id] = began_ms + LEVELS_MS[level]
        recalled = Message(TOPIC, b"recalled").set_delay_time_ms(first_delay_ms + 20_000)
        handle = producer.send(recalled).recall_handle
        assert handle is not None
        producer.recall_message(TOPIC, handle)
    return due


def look(store: Path) -> Report:
    with StoreFiles.open(store) as files:
        return report_of_store(files, now_ms=CLOCK.now_ms, limit=1000)


# --- from a real broker to ours --------------------------------------------------------------


@pytest.fixture(params=["stopped", pytest.param("killed", marks=pytest.mark.smoke)])
def left_by_real(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[RealCluster, dict[str, int]]:
    """A store that a real broker left, and what waits in it."""
    with real_cluster(tmp_path) as real:
        due = fill(real.namesrv_addr, first_delay_ms=40_000, step_ms=1_370, level=5)
        wait_until_enqueued(real.broker_addr, TIMERS + 2)
        check_beside_the_running_broker(real)
        if request.param == "killed":
            os.kill(real.broker_pid, signal.SIGKILL)
    return real, due


def check_beside_the_running_broker(real: RealCluster) -> None:
    """The directory can be read while the broker has it, and says who has it."""
    report = look(real.store)
    assert f"process {real.broker_pid}" in report.warnings[0]
    assert report.total == TIMERS + 3
    assert report.integrity is not None
    assert not report.integrity.is_damaged, report.integrity.findings


def wait_until_enqueued(address: str, messages: int) -> None:
    """Return when the broker has written a check point behind so many messages."""
    deadline_ms = CLOCK.now_ms + HANG_S * 1000
    while CLOCK.now_ms < deadline_ms:
        (report,) = ask_brokers(address, now_ms=CLOCK.now_ms)
        done = 0 if report.checkpoint is None else report.checkpoint.last_timer_queue_offset
        if done >= messages:
            counts = {line.topic: line.count for line in report.topics}
            assert counts == {TOPIC: TIMERS}
            return
    raise AssertionError(f"only {done} of {messages} messages entered the wheel")


def test_what_a_real_broker_left_ours_delivers_once_and_in_time(
    left_by_real: tuple[RealCluster, dict[str, int]],
) -> None:
    real, due = left_by_real
    report = look(real.store)
    assert report.integrity is not None
    assert not report.integrity.is_damaged, report.integrity.findings
    assert report.recalled == 1
    found = {one.pending.msg_id: one.pending.due_ms for one in report.listed}
    assert found.keys() == due.keys()
    clock = VirtualClock()
    with EmbeddedBroker(store=real.store, clock=clock) as broker:
        opened_ms = clock.now_ms
        assert broker.timers.count(topic=TOPIC) <= len(due)
        clock.advance(200)
        delivered = broker.messages.in_topic(TOPIC)
    ids = Counter(one.properties["UNIQ_KEY"] for one in delivered)
    assert ids == Counter(list(due))
    for one in delivered:
        stored_ms = round(one.stored_at.timestamp() * 1000)
        key = one.properties["UNIQ_KEY"]
        assert due[key] <= found[key] <= stored_ms
        assert stored_ms == found[key] or found[key] < opened_ms


# --- from ours to a real broker ----------------------------------------------------------------


@contextlib.contextmanager
def ours_in(store: Path, *, how_it_ends: signal.Signals) -> Iterator[str]:
    """Our broker as a process over a directory; yields the name server's address."""
    settings = [f"--set={name}={value}" for name, value in SIZES.items()]
    ports = ["--namesrv-port=0", "--broker-port=0", f"--store={store}", "--topic", TOPIC]
    with subprocess.Popen(
        [*SERVE, *ports, *settings], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            assert line.startswith("ready "), f"serve printed {line!r}"
            wait_until_saved(store / "config" / "topics.json")
            yield dict(word.split("=", 1) for word in line.split()[1:])["namesrv"]
        finally:
            process.send_signal(how_it_ends)
            process.wait(30)


def wait_until_saved(topics: Path) -> None:
    """Return when the new topic is in the table's file: a kill before that forgets it."""
    until(lambda: topics.exists() and TOPIC in topics.read_text(encoding="utf-8"), HANG_S)


class Inbox:
    """A listener that keeps what arrived and when."""

    def __init__(self) -> None:
        self.arrived: queue.Queue[tuple[str, int]] = queue.Queue()

    def __call__(
        self, messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            self.arrived.put((message.msg_id, CLOCK.now_ms))
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def wait_for(self, ids: set[str]) -> dict[str, int]:
        """When each of the ids came first, and what came beside them."""
        first: dict[str, int] = {}
        while not ids <= first.keys():
            try:
                message_id, at_ms = self.arrived.get(timeout=HANG_S)
            except queue.Empty:
                missing = ids - first.keys()
                raise AssertionError(f"{len(missing)} of {len(ids)} never came") from None
            first.setdefault(message_id, at_ms)
        return first


@pytest.mark.parametrize("how_it_ends", [signal.SIGTERM, signal.SIGKILL])
def test_what_ours_left_a_real_broker_delivers_and_never_early(
    tmp_path: Path, how_it_ends: signal.Signals
) -> None:
    store = tmp_path / "store"
    with ours_in(store, how_it_ends=how_it_ends) as namesrv_addr:
        due = fill(namesrv_addr, first_delay_ms=15_000, step_ms=830, level=3)
    report = look(store)
    assert report.integrity is not None
    assert not report.integrity.is_damaged, report.integrity.findings
    assert {one.pending.msg_id for one in report.listed} == due.keys()
    inbox = Inbox()
    with real_cluster(tmp_path) as real:
        started_ms = CLOCK.now_ms
        consumer = DefaultMQPushConsumer("G_exchange", namesrv_addr=real.namesrv_addr)
        consumer.consume_from_where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer.subscribe(TOPIC, "*")
        consumer.register_message_listener(inbox)
        with consumer:
            first = inbox.wait_for(set(due))
    assert first.keys() == due.keys()  # the recalled one never comes
    for message_id, at_ms in first.items():
        assert due[message_id] <= at_ms
        assert at_ms <= max(due[message_id], started_ms) + LATE_MS
