"""A store in memory near its budget: what is consumed goes, what waits stays."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from threading import Event

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, VirtualClock
from embedded_broker.core.consume import Pull
from embedded_broker.core.send_values import Incoming
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.store import memory_budget
from embedded_broker.store.memory_budget import EACH_MIN
from embedded_broker.tables.offsets.deliveries import DELIVERIES_KEPT
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.errors import ConfigError, MQBrokerException
from rocketmq_py.protocol.properties import encode_properties
from tests.unit.embedded_broker.peers import Peer

FILE = 64 * 1024
SMALL = {
    "mappedFileSizeCommitLog": FILE,
    "mappedFileSizeConsumeQueue": 2000,
    "memoryStoreMaxBytes": 16 * FILE,
}
BODY = b"x" * 4000


def parts_of(broker: EmbeddedBroker) -> BrokerParts:
    return broker._parts()


def used(broker: EmbeddedBroker) -> int:
    return parts_of(broker).store.budget.used


def commit(broker: EmbeddedBroker, topic: str, group: str = "G") -> None:
    """Commit everything that is there."""
    parts = parts_of(broker)
    with parts.door:
        for (name, queue_id), queue in parts.store.queues.items():
            if name == topic:
                parts.tables.offsets.commit(group, topic, queue_id, queue.max_offset)


def settle(broker: EmbeddedBroker) -> None:
    """Wait for what is done in background."""
    broker._node()._flusher.wait_other()


def make_room(broker: EmbeddedBroker) -> None:
    """Let the broker look for room now, however short ago it looked."""
    settle(broker)
    node = broker._node()
    node._aging._rests_until_ns = 0
    node._aging.make_room()
    settle(broker)


def fill(broker: EmbeddedBroker, topic: str = "T", most: int = 10_000) -> int:
    """Send until the broker refuses; give how many were stored."""
    for count in range(most):
        try:
            broker.send(topic, BODY, queue=0)
        except MQBrokerException:
            return count
    raise AssertionError(f"none of {most} messages was refused")


def test_what_every_group_has_consumed_goes_and_a_producer_is_never_refused() -> None:
    with EmbeddedBroker(tcp=False, topics=["T"], config=SMALL) as broker:
        for _ in range(40):
            for _ in range(20):
                broker.send("T", BODY, queue=0)
            commit(broker, "T")
            make_room(broker)
        assert parts_of(broker).store.log.max_offset > 40 * FILE
        assert used(broker) < 6 * FILE
        low = parts_of(broker).store.queues["T", 0].min_offset
        assert low > 700


def test_what_one_of_two_groups_has_not_consumed_stays_and_sends_are_refused() -> None:
    with EmbeddedBroker(tcp=False, topics=["T"], config=SMALL) as broker:
        broker.send("T", BODY, queue=0)
        commit(broker, "T", "slow")
        stored = fill(broker)
        commit(broker, "T", "fast")
        make_room(broker)

        with pytest.raises(MQBrokerException, match=r"memoryStoreMaxBytes") as raised:
            broker.send("T", BODY, queue=0)
        assert raised.value.response_code == 14
        assert str(16 * FILE) in str(raised.value)
        assert parts_of(broker).store.queues["T", 0].min_offset <= 1
        assert used(broker) <= 17 * FILE

        commit(broker, "T", "slow")
        make_room(broker)
        assert used(broker) < 6 * FILE
        broker.send("T", BODY, queue=0)
        assert stored > 200


def test_what_no_group_reads_goes_last_and_only_when_room_is_short() -> None:
    with EmbeddedBroker(tcp=False, topics=["T", "U"], config=SMALL) as broker:
        for _ in range(150):  # 600 KB of the 12 files that are three quarters
            broker.send("U", BODY, queue=0)
        make_room(broker)
        assert parts_of(broker).store.queues["U", 0].min_offset == 0
        for _ in range(400):
            broker.send("U", BODY, queue=0)
            if used(broker) > 13 * FILE:
                make_room(broker)
        assert parts_of(broker).store.queues["U", 0].min_offset > 0
        assert used(broker) <= 14 * FILE


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_timers_that_wait_are_kept_and_delivered_when_the_store_was_full(engine: str) -> None:
    clock = VirtualClock()
    config = {**SMALL, "mappedFileSizeTimerLog": 5200, "mappedFileSizeDCommitLog": FILE}
    with EmbeddedBroker(
        tcp=False,
        topics=["T", "D"],
        clock=clock,
        engine=engine,  # type: ignore[arg-type]
        config={**config, "memoryStoreMaxBytes": 64 * FILE},
    ) as broker:
        for number in range(20):
            broker.send("D", b"timer %d" % number, delay=timedelta(seconds=60 + number))
        broker.send("T", BODY, queue=0)
        commit(broker, "T")
        fill(broker)
        commit(broker, "T")
        make_room(broker)
        clock.advance(seconds=100)

        assert len(broker.messages.in_topic("D")) == 20


def test_messages_of_delay_levels_wait_too() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(tcp=False, topics=["T", "D"], clock=clock, config=SMALL) as broker:
        broker.send("D", b"level", delay_level=18)
        broker.send("T", BODY, queue=0)
        commit(broker, "T")
        fill(broker)
        commit(broker, "T")
        make_room(broker)
        assert parts_of(broker).store.log.min_offset == 0
        clock.advance(hours=2)
        assert [one.body for one in broker.messages.in_topic("D")] == [b"level"]
        commit(broker, "T")
        make_room(broker)
        assert parts_of(broker).store.log.min_offset > 0


def test_open_transactions_wait_and_ended_ones_do_not() -> None:
    with EmbeddedBroker(tcp=False, topics=["T", "H"], config=SMALL) as broker:
        parts = parts_of(broker)
        text = encode_properties({"TRAN_MSG": "true", "PGROUP": "g"}).decode()
        with parts.door:
            (half,) = parts.send.produce([Incoming("H", b"x", text)], Peer())
        broker.send("T", BODY, queue=0)
        commit(broker, "T")
        fill(broker)
        commit(broker, "T")
        make_room(broker)
        assert parts.store.log.min_offset == 0

        with parts.door:
            parts.transactions.remove(half.queue_offset)
        make_room(broker)
        assert parts.store.log.min_offset > 0


def test_nothing_but_the_store_grows_with_what_was_consumed() -> None:
    """The log of deliveries is a ring: once it is full, it stays as large as it is."""
    with EmbeddedBroker(tcp=False, topics=["T"], config=SMALL) as broker:
        parts = parts_of(broker)
        (peer, store) = (Peer(), parts.store)
        message = Incoming("T", b"x" * 20, "UNIQ_KEY\x01A0\x02")

        def consume(count: int) -> None:
            for _ in range(count):
                with parts.door:
                    (outcome,) = parts.send.produce([message], peer)
                    queue_id, offset = outcome.queue_id, outcome.queue_offset
                    pull = Pull(peer, "G", "T", queue_id, offset, 1, "*", commit_offset=offset + 1)
                    assert parts.consume.pull(pull, lambda _: None) is not None

        consume(DELIVERIES_KEPT + 2_000)
        tracemalloc.start()
        try:
            consume(2_000)  # rings that are full move their rows now and then
            before, _ = tracemalloc.get_traced_memory()
            consume(3_000)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (after - before) / 3_000 < 20
        assert store.budget.used < 6 * FILE


def _wait(event: Event) -> None:
    event.wait(60)


def test_a_put_makes_room_itself_when_the_thread_for_it_is_behind() -> None:
    released = Event()
    with EmbeddedBroker(tcp=False, topics=["T"], config=SMALL) as broker:
        parts = parts_of(broker)
        parts.in_background(partial(_wait, released))
        try:
            for _ in range(40):
                for _ in range(20):
                    broker.send("T", BODY, queue=0)
                commit(broker, "T")
            assert parts.store.log.max_offset > 40 * FILE
            assert used(broker) <= 17 * FILE
        finally:
            released.set()
        settle(broker)
        assert parts.store.queues["T", 0].min_offset > 500


def test_a_look_that_found_room_is_not_followed_by_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker(tcp=False, topics=["T"], config=SMALL) as broker:
        aging = broker._node()._aging
        let_go = aging._let_go

        def let_go_while_others_send(end: int) -> None:
            let_go(end)
            for _ in range(60):
                broker.send("T", BODY, queue=0)

        monkeypatch.setattr(aging, "_let_go", let_go_while_others_send)
        for _ in range(80):
            broker.send("T", BODY, queue=0)
        commit(broker, "T")
        make_room(broker)
        assert parts_of(broker).store.log.min_offset > 0
        assert aging._rests_until_ns <= monotonic_ns()


def test_a_budget_below_four_files_is_refused_with_the_reason() -> None:
    config = {**SMALL, "memoryStoreMaxBytes": 3 * FILE}
    with pytest.raises(ConfigError, match="mappedFileSizeCommitLog"):
        EmbeddedBroker(tcp=False, config=config).start()


def test_a_broker_says_what_it_keeps() -> None:
    with EmbeddedBroker(tcp=False, config=SMALL) as broker:
        assert f"at most {16 * FILE} bytes (memoryStoreMaxBytes)" in broker.retention
        assert "72 hours" in broker.retention
    with EmbeddedBroker(tcp=False) as broker:
        assert parts_of(broker).store.budget.bytes_max >= 256 * 1024 * 1024


def test_a_changed_budget_counts_at_once() -> None:
    with EmbeddedBroker(tcp=False, topics=["T"], config=SMALL) as broker:
        broker.send("T", BODY, queue=0)
        commit(broker, "T")
        fill(broker)
        broker.config.update(memoryStoreMaxBytes=32 * FILE)
        before = parts_of(broker).store.queues["T", 0].max_offset
        broker.send("T", BODY, queue=0)
        assert parts_of(broker).store.queues["T", 0].max_offset == before + 1


# -- the default share ---------------------------------------------------------------------------

GIB = 1 << 30


def budgets(cluster: EmbeddedCluster) -> list[int]:
    return [parts_of(one).store.budget.bytes_max for one in cluster.brokers]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let so many bytes of memory be available."""
    return lambda size: monkeypatch.setattr(memory_budget, "_available", lambda: size)


@pytest.mark.parametrize("brokers", [1, 2, 4])
def test_the_brokers_of_a_cluster_share_a_quarter_of_the_memory(
    machine: Callable[[int], None], brokers: int
) -> None:
    machine(64 * GIB)
    with EmbeddedCluster(brokers=brokers, tcp=False) as cluster:
        assert budgets(cluster) == [16 * GIB // brokers] * brokers
        assert f"at most {16 * GIB // brokers} bytes" in cluster.brokers[0].retention


def test_who_joins_a_cluster_shares_what_the_others_have(machine: Callable[[int], None]) -> None:
    machine(64 * GIB)
    with EmbeddedCluster(brokers=1, tcp=False) as cluster:
        machine(8 * GIB)  # what is taken meanwhile by the cluster itself is not taken off again
        cluster.add()
        assert budgets(cluster) == [8 * GIB] * 2
        cluster.brokers[0].config.update(diskMaxUsedSpaceRatio=50)
        cluster.stop("broker-b")
        cluster.start("broker-b")
        assert budgets(cluster) == [8 * GIB] * 2


def test_an_option_is_the_budget_of_each_broker() -> None:
    config = {"memoryStoreMaxBytes": 512 << 20}
    with EmbeddedCluster(brokers=3, tcp=False, config=config) as cluster:
        assert budgets(cluster) == [512 << 20] * 3


def test_on_a_small_machine_each_broker_has_room_for_its_files(
    machine: Callable[[int], None],
) -> None:
    machine(0)
    with EmbeddedCluster(brokers=1, tcp=False) as cluster:
        assert budgets(cluster) == [256 << 20]
        while len(cluster.brokers) < 16:
            cluster.add()
        for broker in cluster.brokers:
            broker.topics.create("T")
            broker.send("T", b"x")
        cluster.brokers[0].restart()  # whose files are as large as one broker alone may have them
        cluster.brokers[15].restart()
        assert budgets(cluster)[1:] == [EACH_MIN] * 15
        assert budgets(cluster)[0] >= EACH_MIN
