"""A slave that acts as master: what is due leaves for another broker while the master is away."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from threading import Thread

import pytest

from embedded_broker.ha import registration, request_line
from rocketmq_py.protocol.bodies.replication import GetBrokerMemberGroupResponseBody
from rocketmq_py.protocol.bodies.topics import MASTER_ID, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.ha.acting_group import ACTING, QUICK, START, Group, Groups, forget
from tests.unit.embedded_broker.wire_peer import Connect


def test_what_is_due_while_the_master_is_away_leaves_for_another_broker(
    start_group: Groups,
) -> None:
    group = start_group()
    group.send(b"early", seconds=5)
    group.pass_time(10)
    assert [one.body for one in group.master.messages.in_topic("T")] == [b"early"]
    group.send(b"due", b"due too", seconds=30)
    group.send(b"later", seconds=3600)
    group.send(b"level", level=4)
    group.lose_master()
    group.pass_time(29.999)
    assert group.elsewhere() == []
    group.pass_time(0.001)
    assert group.elsewhere() == [b"due", b"due too", b"level"]
    assert group.slave.timers.count() == 1
    assert [one.body for one in group.slave.messages.in_topic("T")] == [b"early"]


def test_a_master_that_comes_back_goes_on_where_its_slave_has_come(start_group: Groups) -> None:
    group = start_group()
    for second in range(1, 7):
        group.send(b"%d" % second, seconds=second * 10 + 0.4)
    group.send(b"level", level=4)
    group.pass_time(15)
    group.lose_master()
    group.pass_time(20)
    assert group.elsewhere() == [b"2", b"3", b"level"]
    group.return_master()
    assert not group.acts()
    group.pass_time(100)
    group.follow()
    assert set(group.delivered().values()) == {1}
    assert sorted(group.delivered()) == [b"1", b"2", b"3", b"4", b"5", b"6", b"level"]
    assert group.elsewhere() == [b"2", b"3", b"level"]


def test_within_one_slot_nothing_comes_twice_and_nothing_is_lost(start_group: Groups) -> None:
    group = start_group()
    for number in range(10):
        group.send(b"%d" % number, seconds=30 + number / 20)
    group.lose_master()
    group.pass_time(30.22)
    assert len(group.elsewhere()) == 5
    group.return_master()
    group.pass_time(60)
    assert group.delivered() == Counter({b"%d" % number: 1 for number in range(10)})
    assert len(group.elsewhere()) == 5


def test_what_the_slave_did_is_remembered_by_a_master_that_crashes_without_it(
    start_group: Groups,
) -> None:
    group = start_group()
    group.send(b"a", b"b", seconds=30.1)
    group.send(b"c", seconds=30.5)
    group.lose_master()
    group.pass_time(30.2)
    group.return_master()
    group.master._parts().flush_everything()
    group.slave.close()
    group.master.restart(crash=True)
    group.master.wait_for(lambda _: group.timers_of(group.master).should_running_dequeue)
    group.master.clock.advance(60)
    assert group.delivered() == Counter({b"a": 1, b"b": 1, b"c": 1})


def test_a_slave_acts_again_and_again_and_leaves_out_what_the_master_delivered(
    start_group: Groups,
) -> None:
    group = start_group()
    for second in range(1, 10):
        group.send(b"%d" % second, seconds=second * 10)
    for _ in range(2):
        group.pass_time(20)
        group.follow()
        group.lose_master()
        group.pass_time(20)
        group.return_master()
    group.pass_time(60)
    assert group.delivered() == Counter({b"%d" % second: 1 for second in range(1, 10)})


def test_a_recalled_timer_stays_recalled_and_a_long_delay_hops_in_memory(
    start_group: Groups,
) -> None:
    group = start_group(timerRollWindowSlot=60)
    group.send(b"recalled", b"far", seconds=150)
    found = {one.body: one for one in group.master.timers.pending()}
    assert group.master.timers.recall(found[b"recalled"].msg_id)
    group.follow()
    group.lose_master()
    for _ in range(149):
        group.pass_time(1)
    assert group.elsewhere() == []
    group.pass_time(1)
    assert group.elsewhere() == [b"far"]
    group.return_master()
    group.pass_time(200)
    assert group.delivered() == Counter({b"far": 1})


def test_without_enableRemoteEscape_nothing_leaves(  # noqa: N802
    start_group: Groups, connect: Connect
) -> None:
    group = start_group(enableRemoteEscape=False)
    group.send(b"due", seconds=5)
    group.master.crash()
    namesrv = connect(group.other.namesrv_addr)
    route = namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert route.code == ResponseCode.SUCCESS
    group.pass_time(60)
    assert group.elsewhere() == []
    assert group.slave.timers.count() == 1


def test_supportActingMaster_shows_the_slave_in_its_masters_place(  # noqa: N802
    start_group: Groups, connect: Connect
) -> None:
    group = start_group()
    namesrv = connect(group.other.namesrv_addr)
    group.lose_master()
    shown: list[tuple[dict[int, str], int]] = []
    for value in (b"false", b"true"):
        option = b"supportActingMaster=" + value
        namesrv.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=option)
        answer = namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        route = TopicRouteData.decode(answer.body)
        (broker,) = [one for one in route.broker_datas if one.broker_name == "broker-a"]
        (queues,) = [one for one in route.queue_datas if one.broker_name == "broker-a"]
        shown.append((broker.broker_addrs, queues.perm))
    assert shown == [({1: group.slave.addr}, 4), ({0: group.slave.addr}, 4)]


def test_a_second_slave_acts_only_when_the_first_is_away_too(
    start_group: Groups, start_broker: StartBroker
) -> None:
    group = start_group()
    config = {"namesrvAddr": group.other.namesrv_addr, **QUICK, **ACTING}
    second = start_broker(config={**config, "brokerRole": "SLAVE", "brokerId": 2})
    second.wait_for(lambda _: "T" in second._parts().tables.topics)
    group.send(b"due", seconds=5)
    group.lose_master()
    assert not group.timers_of(second).should_running_dequeue
    group.slave.close()
    second.wait_for(lambda _: group.timers_of(second).should_running_dequeue)


def test_what_a_slave_has_not_is_released_late_by_the_master(start_group: Groups) -> None:
    group = start_group()
    group.send(b"a", seconds=10)
    group.slave.close()
    group.master.send("T", b"unseen", delay=timedelta(seconds=10))
    group.master.crash()
    group.slave.restart()
    group.slave.wait_for(lambda _: group.acts())
    group.pass_time(20)
    assert group.elsewhere() == [b"a"]
    group.return_master()
    group.pass_time(1)
    assert group.delivered() == Counter({b"a": 1, b"unseen": 1})
    assert group.elsewhere() == [b"a"]


@pytest.mark.parametrize("crash", [False, True])
def test_a_slave_that_is_restarted_while_it_acts_goes_on_where_it_was(
    start_group: Groups, crash: bool
) -> None:
    group = start_group()
    for number in range(10):
        group.send(b"%d" % number, seconds=30 + number / 20)
    group.send(b"level", level=4)
    group.lose_master()
    group.pass_time(30.22)
    assert len(group.elsewhere()) == 6
    group.slave._parts().flush_everything()
    with group.slave._parts().door:
        work = group.slave._parts().levels.begin_flush()
    work.run()
    group.slave.restart(crash=crash)
    group.slave.wait_for(lambda _: group.acts())
    group.pass_time(0.1)
    group.return_master()
    group.pass_time(60)
    assert group.delivered() == Counter([*(b"%d" % number for number in range(10)), b"level"])
    assert len(group.elsewhere()) == 8


def test_a_slave_that_did_not_act_in_this_life_tells_what_it_did_in_the_last_one(
    start_group: Groups,
) -> None:
    group = start_group()
    for number in range(10):
        group.send(b"%d" % number, seconds=30 + number / 20)
    group.lose_master()
    group.pass_time(30.22)
    group.slave.close()
    group.other.close()  # no name server: the slave does not know that it may act
    group.slave.restart()
    assert not group.acts()
    make_way = group.slave._parts().durability.replication.make_way
    assert make_way is not None
    with group.slave._parts().door:
        told = make_way()
    assert told is not None
    start_ms = int(START.timestamp() * 1000)
    assert (told.until_ms, told.queue_offset) == (start_ms + 30_220, 10)


def test_a_master_waits_for_the_answer_to_the_last_message_of_its_slave(
    start_group: Groups,
) -> None:
    group = start_group()
    group.send(b"first", b"second", seconds=30)
    group.send(b"level", level=4)
    group.lose_master()
    held = group.other.faults.on(RequestCode.SEND_MESSAGE_V2, topic="T").delay(1.5)
    passing = Thread(target=group.pass_time, args=(30,))  # until the last answer is there
    passing.start()
    group.other.wait_for(lambda _: held.hits == 1)
    group.return_master()
    assert group.elsewhere()
    passing.join()
    group.pass_time(60)
    assert group.delivered() == Counter([b"first", b"second", b"level"])


def test_a_master_that_a_name_server_has_forgotten_is_asked_whether_it_lives(
    start_group: Groups, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    group = start_group()
    forget(group.master, connect(group.other.namesrv_addr))
    group.master.wait_for(lambda _: MASTER_ID in members(group, connect))
    assert "slave_acts_as_master" not in caplog.text
    group.send(b"due", seconds=5)
    group.pass_time(5)
    assert group.delivered() == Counter({b"due": 1})
    assert group.elsewhere() == []


def test_a_slow_master_takes_over_what_its_slave_did_meanwhile(
    start_group: Groups, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "TURN_S", 3600)
    monkeypatch.setattr(request_line, "WAIT_S", 0.3)
    group = start_group()
    group.send(b"a", b"b", seconds=10)
    group.send(b"level", level=3)
    group.send(b"c", seconds=20)
    group.master.pause()
    forget(group.master, connect(group.other.namesrv_addr))
    group.slave.wait_for(lambda _: group.acts())
    group.slave.clock.advance(15)
    assert group.elsewhere() == [b"a", b"b", b"level"]
    group.master.resume()
    connect(group.master.addr).create_topic("Wakes", queues=1)
    group.slave.wait_for(lambda _: not group.acts())
    group.master.wait_for(lambda _: MASTER_ID in members(group, connect))
    group.pass_time(30)
    assert group.delivered() == Counter([b"a", b"b", b"c", b"level"])
    assert group.elsewhere() == [b"a", b"b", b"level"]


def members(group: Group, connect: Connect) -> dict[int, str]:
    fields = {"brokerName": "broker-a", "clusterName": "DefaultCluster"}
    answer = connect(group.other.namesrv_addr).ask(RequestCode.GET_BROKER_MEMBER_GROUP, fields)
    body = GetBrokerMemberGroupResponseBody.decode(answer.body)
    return dict(body.broker_member_group.broker_addrs)


def test_a_name_server_that_starts_again_makes_no_slave_act(
    start_group: Groups, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    group = start_group()
    group.send(b"due", seconds=5)
    group.other.restart()
    group.master.wait_for(lambda _: members(group, connect).keys() == {MASTER_ID, 1})
    assert "slave_acts_as_master" not in caplog.text
    group.pass_time(5)
    group.master.wait_for(lambda _: not group.timers_of(group.master).count())
    assert group.elsewhere() == []
    assert group.delivered() == Counter({b"due": 1})


def test_a_master_that_comes_back_delivers_nothing_before_a_name_server_answers(
    start_group: Groups, connect: Connect
) -> None:
    group = start_group()
    group.send(b"due", b"due too", seconds=5)
    group.send(b"level", level=2)
    group.slave.close()
    group.master.crash()
    group.other.close()
    group.master.restart()
    group.master.clock.advance(60)
    assert group.master.messages.in_topic("T") == []
    group.other.restart()
    group.master.wait_for(lambda _: MASTER_ID in members(group, connect))
    group.master.clock.advance(1)
    assert group.delivered() == Counter([b"due", b"due too", b"level"])
    assert group.elsewhere() == []
