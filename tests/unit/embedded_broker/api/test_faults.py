"""A disk that a test lets fail, under a running broker."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from embedded_broker import EmbeddedBroker, FaultNotUsedError, RecallOutcome, VirtualClock
from embedded_broker.clocks.instants import instant
from rocketmq_py import DefaultMQProducer, Message, MQBrokerException, SendStatus
from rocketmq_py.errors import ConfigError, RocketMQError
from tests.short_form import short_form

GUARD_S = 30.0
SLOW_FLUSH = {"flushIntervalCommitLog": 3_600_000, "timerFlushIntervalMs": 3_600_000}


def bodies(broker: EmbeddedBroker) -> list[bytes]:
    return [message.body for message in broker.messages.in_topic("T")]


@pytest.mark.parametrize("in_directory", [False, True])
@pytest.mark.parametrize("after_the_crash", [False, True])
def test_unsynced_bytes_are_lost_by_a_crash_only_when_a_test_says_so(
    tmp_path: Path, in_directory: bool, after_the_crash: bool
) -> None:
    store = tmp_path if in_directory else None
    with EmbeddedBroker(store=store, tcp=False, topics=["T"], config=SLOW_FLUSH) as broker:
        broker.send("T", b"first")
        broker.crash()
        broker.restart()
        assert bodies(broker) == [b"first"]  # recovery has synced it

        broker.send("T", b"second")
        if not after_the_crash:
            broker.faults.disk.lose_unsynced()
        broker.crash()
        if after_the_crash:
            broker.faults.disk.lose_unsynced()
        report = broker.restart()

        assert bodies(broker) == [b"first"]
        assert report.records_read == 1
        broker.send("T", b"third")
        broker.crash()
        broker.restart()
        assert bodies(broker) == [b"first", b"third"]
        broker.faults.disk.lose_unsynced()
        broker.restart()
        assert bodies(broker) == [b"first", b"third"]


def test_under_synchronous_flush_an_answer_waits_for_a_sync_that_works() -> None:
    config = {"flushDiskType": "SYNC_FLUSH"}
    with (
        EmbeddedBroker(tcp=False, topics=["T"], config=config) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        fault = broker.faults.disk.fail_next_flush(times=1, path="commitlog")
        assert producer.send(Message("T", b"x")).send_status is SendStatus.SEND_OK
        assert fault.hits == 1
        broker.faults.assert_all_used()


def test_a_sync_that_keeps_failing_is_told_the_sender() -> None:
    config = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": 50}
    with (
        EmbeddedBroker(tcp=False, topics=["T"], config=config) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        broker.faults.disk.fail_next_flush(times=1000)
        result = producer.send(Message("T", b"x"))
        assert result.send_status is SendStatus.FLUSH_DISK_TIMEOUT
        broker.faults.clear()
        broker.config.update(syncFlushTimeout=20_000)
        assert producer.send(Message("T", b"y")).send_status is SendStatus.SEND_OK


@pytest.mark.parametrize("at", [0, 1, 17, 60])
def test_a_torn_message_is_refused_and_recovery_cuts_it_off(at: int) -> None:
    with EmbeddedBroker(tcp=False, topics=["T"]) as broker:
        broker.send("T", b"whole")
        fault = broker.faults.disk.tear_next_write(at)

        with pytest.raises(MQBrokerException, match="torn"):
            broker.send("T", b"torn", properties={"p": "v" * 100})
        assert fault.hits == 1

        broker.crash()
        report = broker.restart()
        assert (report.truncated_bytes > 0) == (at > 1)  # the first byte of a size is zero
        assert bodies(broker) == [b"whole"]
        broker.send("T", b"after")
        broker.crash()
        assert broker.restart().truncated_bytes == 0
        assert bodies(broker) == [b"whole", b"after"]


def test_a_full_disk_refuses_sends_until_there_is_room() -> None:
    with EmbeddedBroker(tcp=False, topics=["T"]) as broker:
        fault = broker.faults.disk.fill_after(bytes=2000)
        sent: list[bytes] = []

        def send_until_refused() -> None:
            for number in range(100):
                broker.send("T", b"%d" % number)
                sent.append(b"%d" % number)

        with pytest.raises(MQBrokerException, match="no space left"):
            send_until_refused()
        assert 0 < len(sent) < 20
        assert fault.hits == 1
        broker.faults.disk.clear()
        broker.send("T", b"room again")
        assert sorted(bodies(broker)) == sorted([*sent, b"room again"])


def test_a_fault_that_never_happened_is_named() -> None:
    broker = EmbeddedBroker(tcp=False)
    broker.faults.disk.tear_next_write(at=17)
    with pytest.raises(FaultNotUsedError, match=r"torn.*commitlog.*room=17"):
        broker.faults.assert_all_used()
    broker.faults.clear()
    broker.faults.assert_all_used()


def test_impossible_faults_are_refused() -> None:
    disk = EmbeddedBroker(tcp=False).faults.disk
    asks: list[Callable[[], object]] = [
        lambda: disk.fail_next_flush(times=0),
        lambda: disk.tear_next_write(-1),
        lambda: disk.fill_after(bytes=-1),
    ]
    for ask in asks:
        with pytest.raises(ConfigError):
            ask()


LIVES = 20


@pytest.mark.case("C23")
@pytest.mark.parametrize("engine", ["wheel", "sliced"])
@pytest.mark.parametrize("seed", short_form(range(10), lambda seed: seed < 3))
def test_after_power_losses_every_acknowledged_timer_is_delivered_once_and_none_early(
    seed: int, engine: Literal["wheel", "sliced"]
) -> None:
    """Two hundred power losses an engine, in the long form.

    Each file keeps a random first part of what was not synced.
    """
    random = Random(seed)
    clock = VirtualClock()
    config: dict[str, int | str] = {
        "flushDiskType": "SYNC_FLUSH",
        "mappedFileSizeCommitLog": 8192,
        "mappedFileSizeConsumeQueue": 400,
        "timerMaxDelaySec": 3_456_000,
    }
    if engine == "wheel":
        window = random.choice((30, 172_800))
        config |= {"mappedFileSizeTimerLog": 512, "timerRollWindowSlot": window}
    due: dict[bytes, int] = {}
    ids: dict[bytes, str] = {}
    recalled: set[bytes] = set()
    moves = 0
    with EmbeddedBroker(
        tcp=False, clock=clock, topics=["T"], config=config, seed=seed, engine=engine
    ) as broker:
        for life in range(LIVES):
            for number in range(random.randint(1, 6)):
                body = f"{life}/{number}".encode()
                delay_ms = random.choice((1, 800, 5000, 90_000, 200_000)) + random.randrange(999)
                due[body] = clock.now_ms + delay_ms
                ids[body] = broker.send("T", body, delay=delay_ms / 1000).msg_id
            ahead = [body for body, at_ms in due.items() if at_ms > clock.now_ms]
            for body in random.sample(ahead, min(3, len(ahead))):
                if body in recalled:
                    continue
                if random.random() < 0.3:
                    assert broker.timers.recall(ids[body]) is RecallOutcome.RECALLED
                    recalled.add(body)
                    continue
                due[body] = clock.now_ms + random.choice((0, 700, 20_000, 120_000))
                broker.timers.reschedule(ids[body], deliver_at=instant(due[body]))
                moves += 1
            clock.advance(random.choice((0, 0.5, 3, 40)))
            if random.random() < 0.3:
                broker._node()._flush_all()
            broker.faults.disk.lose_unsynced(random_prefix=True)
            broker.crash()
            broker.restart()
            for message in broker.messages.in_topic("T"):
                assert message.stored_at.timestamp() * 1000 >= due[message.body] - 0.5
        clock.advance(hours=1)
        delivered = bodies(broker)
        assert broker._parts().timers.lost == {}
        assert broker.timers.count() == 0

    assert recalled
    assert moves
    assert sorted(delivered) == sorted(set(due) - recalled)


def test_a_foreign_file_system_object_is_used_as_it_is() -> None:
    with EmbeddedBroker(tcp=False) as broker:
        fs = broker._slot.file_system
        with EmbeddedBroker(tcp=False) as other:
            assert other._slot.file_system is not fs
        with pytest.raises(RocketMQError, match="in use by"):
            EmbeddedBroker(tcp=False, fs=fs).start()
