"""BatchCQ topics on the wire: what is stored of a batch, what a pull gives, what is refused.

Unless a test says otherwise, a real 5.3.3 broker answers the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from embedded_broker import VirtualClock
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.protocol.properties import encode_properties
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.core.transactions.prepared import COMMIT, end, send_half
from tests.unit.embedded_broker.remoting.handlers.pop.pop_requests import ack, handle, pop
from tests.unit.embedded_broker.wire_peer import (
    Connect,
    WirePeer,
    bodies,
    consumer,
    properties_text,
    pull_fields,
    records,
    topic_fields,
)

INNER = str(0x80 | 0x40)


def items(*texts: str) -> bytes:
    return encode_batch(
        (0, text.encode(), encode_properties({"UNIQ_KEY": f"I{text}", "KEYS": f"k{text}"}))
        for text in texts
    )


@pytest.fixture
def batches(peer: WirePeer) -> WirePeer:
    """A connection to a broker with the BatchCQ topic B."""
    peer.create_topic("B", attributes="+queue.type=BatchCQ")
    return peer


def send_batch(
    peer: WirePeer, *texts: str, topic: str = "B", key: str = "ID", f: str = "0", **outer: str
) -> RemotingCommand:
    properties = {"WAIT": "true"} | ({"UNIQ_KEY": key} if key else {}) | outer
    return peer.send(
        topic,
        items(*texts),
        code=RequestCode.SEND_BATCH_MESSAGE,
        m="true",
        i=properties_text(properties),
        f=f,
    )


def fill(peer: WirePeer) -> None:
    """Batches of three and two messages, one that is alone, and a batch of one."""
    answers = [
        send_batch(peer, "a0", "a1", "a2"),
        send_batch(peer, "b0", "b1", key="KEY", TAGS="tag", KEYS="word"),
        peer.send("B", b"alone", {"TAGS": "tag"}),
        send_batch(peer, "c0"),
    ]
    assert [one.code for one in answers] == [0, 0, 0, 0]
    assert [one.ext_fields["queueOffset"] for one in answers] == ["0", "3", "5", "6"]


def firsts(answer: RemotingCommand) -> list[int]:
    return [one.queue_offset for one in records(answer)]


def test_a_batch_is_one_record_and_its_answer_names_it(batches: WirePeer) -> None:
    answer = send_batch(batches, "a0", "a1", key="KEY")
    (record,) = records(batches.pull("B"))
    assert {name: answer.ext_fields[name] for name in ("batchUniqId", "transactionId")} == {
        "batchUniqId": "KEY",
        "transactionId": "KEY",
    }
    assert answer.ext_fields["msgId"] == record.offset_msg_id
    assert (record.body, hex(record.sys_flag)) == (items("a0", "a1"), "0xc0")
    assert record.properties == {
        "WAIT": "true",
        "UNIQ_KEY": "KEY",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
        "INNER_NUM": "2",
        "INNER_BASE": "0",
    }


def test_a_batch_without_an_id_comes_apart_as_in_any_topic(batches: WirePeer) -> None:
    """Clients before 5.x send none."""
    answer = send_batch(batches, "a0", "a1", key="")
    assert "batchUniqId" not in answer.ext_fields
    assert len(answer.ext_fields["msgId"].split(",")) == 2
    found = records(batches.pull("B"))
    assert [(one.queue_offset, one.sys_flag, one.body) for one in found] == [
        (0, 0, b"a0"),
        (1, 0, b"a1"),
    ]
    assert batches.pull("B", 1).ext_fields["nextBeginOffset"] == "2"


@pytest.mark.parametrize(
    ("offset", "most", "found", "goes_on_at"),
    [
        (0, 32, [0, 3, 5, 6], 7),
        (2, 32, [0, 3, 5, 6], 7),
        (4, 32, [3, 5, 6], 7),
        (0, 1, [0], 3),
        (1, 2, [0], 3),
        (0, 4, [0], 3),
        (0, 5, [0, 3], 5),
        (5, 1, [5], 6),
    ],
)
def test_a_pull_gives_whole_batches_from_the_one_that_holds_the_offset(
    batches: WirePeer, offset: int, most: int, found: Sequence[int], goes_on_at: int
) -> None:
    fill(batches)
    answer = batches.pull("B", offset, maxMsgNums=str(most))
    assert (answer.code, answer.remark, firsts(answer)) == (0, "FOUND", list(found))
    bounds = [answer.ext_fields[name] for name in ("nextBeginOffset", "minOffset", "maxOffset")]
    assert bounds == [str(goes_on_at), "0", "7"]


def test_tags_are_those_of_the_batch(batches: WirePeer) -> None:
    fill(batches)
    assert firsts(batches.pull("B", subscription="tag")) == [3, 5]
    nothing = batches.pull("B", subscription="other")
    assert (nothing.code, nothing.ext_fields["nextBeginOffset"]) == (20, "7")


def test_offsets_are_those_of_messages(batches: WirePeer) -> None:
    fill(batches)
    place = {"topic": "B", "queueId": "0"}
    asked = [
        batches.ask(RequestCode.GET_MAX_OFFSET, place),
        batches.ask(RequestCode.GET_MIN_OFFSET, place),
        batches.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, place | {"timestamp": "1"}),
        batches.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, place | {"timestamp": str(2**50)}),
    ]
    assert [one.ext_fields["offset"] for one in asked] == ["7", "0", "0", "6"]


def test_the_keys_of_the_batch_find_its_record(batches: WirePeer) -> None:
    fill(batches)
    found = {}
    for key in ("KEY", "word", "Ib0", "kb0"):
        fields = {"topic": "B", "key": key, "maxNum": "9", "beginTimestamp": "0"}
        answer = batches.ask(RequestCode.QUERY_MESSAGE, fields | {"endTimestamp": str(2**60)})
        found[key] = firsts(answer) if answer.body else answer.code
    assert found == {"KEY": [3], "word": [3], "Ib0": 22, "kb0": 22}


def test_a_batch_wakes_a_parked_pull(batches: WirePeer) -> None:
    fields = {"sysFlag": str(int(PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND))}
    opaque = batches.post(RequestCode.PULL_MESSAGE, pull_fields("B") | fields)
    batches.barrier()
    send_batch(batches, "a0", "a1")
    assert firsts(batches.answer(opaque)) == [0]


# -- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "sys_flag", "properties", "named"),
    [
        ("B", "0", {"INNER_NUM": "1"}, "sysFlag does not say"),
        ("T", "0", {"INNER_NUM": "1"}, "sysFlag does not say"),
        ("T", INNER, {"INNER_NUM": "2"}, "of queue type BatchCQ"),
        ("B", INNER, {}, "INNER_NUM is None"),
        ("B", INNER, {"INNER_NUM": "3"}, "holds 2 messages"),
    ],
)
def test_what_only_says_that_it_is_a_batch_is_refused(
    batches: WirePeer, topic: str, sys_flag: str, properties: dict[str, str], named: str
) -> None:
    """A real broker believes the last two, which no reader can take apart."""
    answer = batches.send(topic, items("a0", "a1"), properties, f=sys_flag)
    assert (answer.code, named in str(answer.remark)) == (ResponseCode.MESSAGE_ILLEGAL, True)


def test_a_batch_that_comes_wrapped_already_is_taken(batches: WirePeer) -> None:
    answer = batches.send("B", items("a0", "a1"), {"INNER_NUM": "2"}, f=INNER)
    assert (answer.code, answer.ext_fields["queueOffset"]) == (0, "0")
    assert batches.send("B").ext_fields["queueOffset"] == "2"


@pytest.mark.parametrize(
    ("outer", "f"),
    [({"DELAY": "1"}, "0"), ({"TIMER_DELAY_MS": "9"}, "0"), ({"TRAN_MSG": "true"}, "0"), ({}, "4")],
)
def test_a_batch_has_no_delay_and_is_no_transaction(
    batches: WirePeer, outer: dict[str, str], f: str
) -> None:
    """A real broker refuses delays and stores the others, the last where nobody finds it."""
    answer = send_batch(batches, "a0", f=f, **outer)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert batches.pull("B").ext_fields["maxOffset"] == "0"


def test_a_batch_cannot_be_sent_back(batches: WirePeer) -> None:
    """Its consumer then sends the single message to the retry topic."""
    fill(batches)
    batches.heartbeat("client", consumer("group", {"B": "*"}))
    codes = []
    for record in records(batches.pull("B"))[1:3]:
        fields = {"offset": str(record.commit_log_offset), "group": "group", "delayLevel": "0"}
        answer = batches.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        codes.append((answer.code, (answer.remark or "").partition(":")[0]))
    assert codes == [(1, "MESSAGE_ILLEGAL"), (0, "")]


@pytest.mark.parametrize("change", ["+queue.type=SimpleCQ", "-queue.type", "+queue.type=BatchCQ"])
def test_the_type_of_a_topic_never_changes(batches: WirePeer, change: str) -> None:
    fields = topic_fields("B") | {"attributes": change}
    answer = batches.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert (answer.code, "queue.type" in str(answer.remark)) == (1, True)
    assert send_batch(batches, "a0", "a1").ext_fields["batchUniqId"] == "ID"


def test_4_9_knows_no_attributes(start_broker: StartBroker, connect: Connect) -> None:
    peer = connect(start_broker(profile="rocketmq-4.9").addr)
    peer.create_topic("B", attributes="+queue.type=BatchCQ")
    answer = send_batch(peer, "a0", "a1")
    assert (answer.code, "batchUniqId" in answer.ext_fields) == (0, False)
    assert bodies(peer.pull("B")) == [b"a0", b"a1"]


# -- delays, transactions, life -------------------------------------------------------------


def test_what_is_delayed_comes_as_a_batch_of_one(
    start_broker: StartBroker, connect: Connect
) -> None:
    clock = VirtualClock()
    broker = start_broker(clock=clock)
    peer = connect(broker.addr)
    peer.create_topic("B", attributes="+queue.type=BatchCQ")
    send_batch(peer, "a0", "a1")
    for number in range(40):  # a slot of many is released by copies
        assert peer.send("B", b"%d" % number, {"TIMER_DELAY_MS": "5000"}).code == 0
    assert peer.send("B", b"level", {"DELAY": "1"}).code == 0
    clock.advance(timedelta(seconds=10))
    send_batch(peer, "b0")
    offsets, at = [], 0
    while at < 44:
        answer = peer.pull("B", at)
        offsets += firsts(answer)
        at = int(answer.ext_fields["nextBeginOffset"])
    assert offsets == [0, *range(2, 44)]


def test_a_committed_half_message_comes_as_a_batch_of_one(batches: WirePeer) -> None:
    send_batch(batches, "a0", "a1")
    half = send_half(batches, b"half", topic="B", e="0")
    assert end(batches, half, COMMIT).code == 0
    assert [one.body for one in records(batches.pull("B", 2))] == [b"half"]


def test_a_reopened_broker_knows_the_topic_and_its_offsets(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker()
    peer = connect(broker.addr)
    peer.create_topic("B", attributes="+queue.type=BatchCQ")
    fill(peer)
    broker.restart(crash=True)
    again = connect(broker.addr)
    assert firsts(again.pull("B", 4)) == [3, 5, 6]
    assert send_batch(again, "d0", "d1").ext_fields["queueOffset"] == "7"


def test_a_topic_that_is_in_no_file_is_a_batch_topic_again(
    start_broker: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    broker = start_broker(store=tmp_path)
    peer = connect(broker.addr)
    peer.create_topic("B", attributes="+queue.type=BatchCQ")
    fill(peer)
    broker.crash()
    for path in (tmp_path / "config").glob("topics.json*"):
        path.unlink()
    broker.restart()
    assert send_batch(connect(broker.addr), "d0", "d1").ext_fields["batchUniqId"] == "ID"


def test_a_snapshot_holds_its_queues_and_a_reset_forgets_them(
    start_broker: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    broker = start_broker()
    peer = connect(broker.addr)
    peer.create_topic("B", attributes="+queue.type=BatchCQ")
    fill(peer)
    broker.snapshot(tmp_path / "copy")
    broker.reset()
    assert send_batch(peer, "a0", "a1").ext_fields.get("batchUniqId") is None  # created by sending
    copy = connect(start_broker(store=tmp_path / "copy").addr)
    assert firsts(copy.pull("B")) == [0, 3, 5, 6]
    assert send_batch(copy, "d0", "d1").ext_fields["queueOffset"] == "7"


def test_the_broker_s_own_views_show_single_messages(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker()
    peer = connect(broker.addr)
    peer.create_topic("B", attributes="+queue.type=BatchCQ")
    fill(peer)
    found = broker.messages.in_topic("B")
    assert [one.body for one in found] == [b"a0", b"a1", b"a2", b"b0", b"b1", b"alone", b"c0"]
    assert [one.offset for one in found] == list(range(7))
    assert broker.topics["B"].count() == 7
    for size in (1, 2, 4):  # pages begin and end inside of batches
        pages = [broker.messages.page("B", skip=skip, limit=size) for skip in range(0, 8, size)]
        assert [one.count for one in pages] == [7] * len(pages)
        assert [one for page in pages for one in page.messages] == found


def test_what_a_group_has_not_read_is_counted_in_messages(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker()
    peer = connect(broker.addr)
    peer.create_topic("B", attributes="+queue.type=BatchCQ")
    fill(peer)
    peer.heartbeat("client", consumer("group", {"B": "tag"}))
    fields = {"consumerGroup": "group", "topic": "B", "queueId": "0", "commitOffset": "4"}
    peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    assert broker.groups["group"].unread() == 2  # b1 and the one that came alone


def test_a_topic_that_was_deleted_may_come_back_with_batches(
    start_broker: StartBroker, connect: Connect
) -> None:
    """Its offsets go on, and nothing of the old one is found."""
    broker = start_broker()
    peer = connect(broker.addr)
    peer.create_topic("B")
    assert [peer.send("B").code for _ in range(3)] == [0, 0, 0]
    assert peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "B"}).code == 0
    peer.create_topic("B", attributes="+queue.type=BatchCQ")
    assert send_batch(peer, "a0", "a1").ext_fields["queueOffset"] == "3"
    assert peer.pull("B").ext_fields["nextBeginOffset"] == "3"
    broker.restart()
    again = connect(broker.addr)
    assert send_batch(again, "b0").ext_fields["queueOffset"] == "5"
    answer = again.pull("B", 3)
    assert (firsts(answer), answer.ext_fields["minOffset"]) == ([3, 5], "3")
    again.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "B"})
    again.create_topic("B")
    assert "batchUniqId" not in send_batch(again, "c0", "c1").ext_fields
    assert bodies(again.pull("B", 6)) == [b"c0", b"c1"]


def test_every_message_of_a_batch_that_was_popped_and_not_acked_comes_back(
    start_broker: StartBroker, connect: Connect
) -> None:
    """By itself: a real broker, whose retry topics take no batches, tries in vain for ever."""
    clock = VirtualClock()
    broker = start_broker(clock=clock)
    peer = connect(broker.addr)
    peer.create_topic("B", attributes="+queue.type=BatchCQ")
    fill(peer)
    popped = pop(peer, topic="B")
    assert firsts(popped) == [0, 3, 5, 6]
    assert ack(peer, handle(popped, 3), 3, topic="B").code == 0
    clock.advance(timedelta(minutes=2))
    assert sorted(bodies(pop(peer, topic="B"))) == [b"a0", b"a1", b"a2", b"alone", b"c0"]
