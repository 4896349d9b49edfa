"""28, 45, 60, 61 and 315: what a broker tells about itself, as any client sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.clocks.timeline import Deadline
from rocketmq_py.protocol.bodies.consumption import BrokerStatsData
from rocketmq_py.protocol.bodies.groups import ConsumeStats
from rocketmq_py.protocol.bodies.timers import (
    DelayOffsets,
    RuntimeInfo,
    TimerCheckpoint,
    TimerCounts,
)
from rocketmq_py.protocol.bodies.topics import TopicStatsTable
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer

INFO = RequestCode.GET_BROKER_RUNTIME_INFO
TIMER_NAMES = {
    "timerReadBehind",
    "timerOffsetBehind",
    "timerCongestNum",
    "timerEnqueueTps",
    "timerDequeueTps",
}
MQADMIN_NAMES = {
    # mqadmin fails or prints blanks without these
    "brokerVersionDesc",
    "brokerVersion",
    "putTps",
    "getTransferredTps",
    "getTransferedTps",
    "sendThreadPoolQueueSize",
    "pullThreadPoolQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "pageCacheLockTimeMills",
    "earliestMessageTimeStamp",
    "commitLogDiskRatio",
    "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "bootTimestamp",
    "runtime",
    "dispatchBehindBytes",
    "commitLogMinOffset",
    "commitLogMaxOffset",
    "EndTransactionQueueSize",
    "brokerActive",
}


def table(peer: WirePeer) -> dict[str, str]:
    answer = peer.ask(INFO)
    assert answer.code == ResponseCode.SUCCESS
    return RuntimeInfo.decode(answer.body).table


def send(peer: WirePeer, topic: str, **properties: str) -> None:
    answer = peer.send(topic, properties=properties)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def test_the_runtime_table_has_what_mqadmin_reads(peer: WirePeer) -> None:
    assert table(peer).keys() >= MQADMIN_NAMES | TIMER_NAMES


def test_a_4_9_broker_says_what_4_9_says(start_broker: StartBroker, connect: Connect) -> None:
    peer = connect(start_broker(profile="rocketmq-4.9").addr)
    names = table(peer)
    assert names.keys().isdisjoint(TIMER_NAMES | {"brokerActive", "getTransferredTps"})
    assert names["brokerVersionDesc"] == "V4_9_4"
    assert names["getTransferedTps"] == "0.0 0.0 0.0"
    assert b"dataVersion" not in peer.ask(RequestCode.GET_ALL_DELAY_OFFSET).body
    for code in (RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS):
        assert peer.ask(code).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_messages_in_and_out_are_counted(broker: EmbeddedBroker, peer: WirePeer) -> None:
    for _ in range(3):
        send(peer, "T")
    send(peer, "T", TIMER_DELAY_SEC="60")
    names = table(peer)
    assert names["putMessageTimesTotal"] == "4"
    assert names["msgPutTotalTodayNow"] == "3"  # system topics do not count
    assert int(names["putMessageSizeTotal"]) == int(names["commitLogMaxOffset"]) > 0
    assert int(names["earliestMessageTimeStamp"]) == broker.clock.now_ms


def test_what_pulls_bring_is_counted_by_message(peer: WirePeer) -> None:
    for _ in range(3):
        send(peer, "T")
    assert peer.pull("T", 1).code == ResponseCode.SUCCESS
    assert peer.pull("T", 3).code != ResponseCode.SUCCESS
    assert table(peer)["msgGetTotalTodayNow"] == "2"


def test_rates_are_told_once_their_window_is_full(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    peer = connect(start_broker(session_clock=session).addr)
    for _ in range(30):
        send(peer, "T", TIMER_DELAY_SEC="60")
    assert table(peer)["putTps"] == "0.0 0.0 0.0"
    session.advance(10)
    names = table(peer)
    assert names["putTps"] == "3.0 0.0 0.0"
    assert (names["timerEnqueueTps"], names["timerDequeueTps"]) == ("3.0", "0.0")


def test_timers_that_wait_and_are_late_are_told(broker: EmbeddedBroker, peer: WirePeer) -> None:
    send(peer, "T", TIMER_DELAY_SEC="60")
    send(peer, "T", TIMER_DELAY_SEC="61")
    names = table(peer)
    assert (names["timerCongestNum"], names["timerReadBehind"]) == ("2", "0")
    broker.config.update(timerStopDequeue=True)
    broker.clock.advance(65)
    assert table(peer)["timerCongestNum"] == "2"
    assert int(table(peer)["timerReadBehind"]) >= 4
    broker.config.update(timerStopDequeue=False)
    broker.clock.advance(1)
    names = table(peer)
    assert (names["timerCongestNum"], names["timerReadBehind"]) == ("0", "0")


def test_an_idle_broker_is_not_behind_however_long_ago_its_last_timer_was(
    broker: EmbeddedBroker, peer: WirePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(peer, "T", TIMER_DELAY_SEC="5")
    broker.clock.advance(5)
    timers = broker._parts().timers
    assert timers.next_deadline() is None
    broker.clock.advance(days=3)
    assert table(peer)["timerReadBehind"] == "0"
    late = Deadline(broker.clock.now_ms - 7_500, "timer")
    monkeypatch.setattr(timers, "next_deadline", lambda: late)
    assert table(peer)["timerReadBehind"] == "7"


def test_messages_that_the_first_service_has_not_read_are_told(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    broker.config.update(timerStopEnqueue=True)
    send(peer, "T", TIMER_DELAY_SEC="60")
    assert table(peer)["timerOffsetBehind"] == "1"


def test_a_broker_without_a_wheel_refuses_60_and_61(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = connect(start_broker(config={"timerWheelEnable": False}).addr)
    for code in (RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS):
        answer = peer.ask(code)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "timerWheelEnable" in (answer.remark or "")
    names = table(peer)
    assert {names[name] for name in TIMER_NAMES} == {"0", "0.0"}


def test_the_check_point_is_the_one_that_flushes_write(
    start_broker: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    broker = start_broker(store=tmp_path)
    peer = connect(broker.addr)
    send(peer, "T", TIMER_DELAY_SEC="60")
    file = tmp_path / "config" / "timercheck"

    def is_written(_: EmbeddedBroker) -> bool:
        return (
            file.exists() and TimerCheckpoint.decode(file.read_bytes()).last_timer_queue_offset == 1
        )

    broker.wait_for(is_written, timeout=30)
    answer = peer.ask(RequestCode.GET_TIMER_CHECK_POINT)
    assert answer.body == file.read_bytes()[:56]
    one = TimerCheckpoint.decode(answer.body)
    assert one.last_timer_log_flush_pos == 52
    assert one.last_read_time_ms % 1000 == 0


def test_counts_and_level_offsets_are_told_by_topic_and_level(peer: WirePeer) -> None:
    send(peer, "T", TIMER_DELAY_SEC="60")
    send(peer, "U", TIMER_DELAY_SEC="60")
    send(peer, "U", TIMER_DELAY_SEC="61")
    send(peer, "U", DELAY="4")
    answer = peer.ask(RequestCode.GET_TIMER_METRICS)
    counts = TimerCounts.decode(answer.body).timing_count
    assert {topic: one.count for topic, one in counts.items()} == {"T": 1, "U": 2}
    answer = peer.ask(RequestCode.GET_ALL_DELAY_OFFSET)
    assert answer.body.endswith(b'"offsetTable":{4:0}}')
    assert DelayOffsets.decode(answer.body).offset_table == {4: 0}
    assert table(peer)["scheduleMessageOffset_4"] == "0,1"


def test_figures_of_topics_and_groups_grow_with_what_comes_and_goes(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    peer = connect(start_broker(session_clock=session).addr)
    peer.create_topic("T")

    def figure(name: str, key: str) -> tuple[int, float]:
        answer = peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
        assert answer.code == 0, answer.remark
        told = BrokerStatsData.decode(answer.body)
        return told.stats_minute.sum, told.stats_minute.tps

    unknown = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}
    assert peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, unknown).code == 1
    for _ in range(20):
        peer.send("T", b"hello")
    size = len(peer.pull("T", maxMsgNums="5").body)
    session.advance(10)
    assert figure("TOPIC_PUT_NUMS", "T") == (20, 2.0)
    assert figure("BROKER_PUT_NUMS", "DefaultCluster") == (20, 2.0)
    assert figure("GROUP_GET_NUMS", "T@consumers") == (5, 0.5)
    assert figure("BROKER_GET_NUMS", "DefaultCluster") == (5, 0.5)
    assert figure("GROUP_GET_SIZE", "T@consumers") == (size, size / 10)
    stats = TopicStatsTable.decode(peer.ask(202, {"topic": "T"}).body)
    assert stats.topic_put_tps == 2.0
    asked = {"consumerGroup": "consumers", "topic": "T"}
    assert ConsumeStats.decode(peer.ask(208, asked).body).consume_tps == 0.5
    for _ in range(6):
        session.advance(10)
    assert figure("TOPIC_PUT_NUMS", "T") == (0, 0.0)
