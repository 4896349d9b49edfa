"""Request 222: a group continues at another place, and its members hear of it."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import ResetOffsetBody
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, consumer, pull_fields

GROUP = "consumers"


def reset(peer: WirePeer, timestamp: int = -1, **fields: str) -> RemotingCommand:
    ext = {"topic": "T", "group": GROUP, "timestamp": str(timestamp), "isForce": "true"}
    return peer.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext | fields)


def table(answer: RemotingCommand) -> dict[int, int]:
    found = ResetOffsetBody.decode(answer.body).offset_table
    return {queue.queue_id: offset for queue, offset in found.items()}


def commit(peer: WirePeer, offset: int) -> RemotingCommand:
    ext = {"consumerGroup": GROUP, "topic": "T", "queueId": "0", "commitOffset": str(offset)}
    return peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


def committed(peer: WirePeer) -> str:
    ext = {"consumerGroup": GROUP, "topic": "T", "queueId": "0"}
    return peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext).ext_fields["offset"]


def with_messages(peer: WirePeer, count: int = 3) -> None:
    peer.create_topic("T")
    for _ in range(count):
        peer.send("T")
    peer.heartbeat("c1", consumer(GROUP, {"T": "*"}))


@pytest.mark.case("W107")
def test_the_next_pull_is_answered_with_the_new_offset_and_commits_before_it_change_nothing(
    peer: WirePeer,
) -> None:
    with_messages(peer)
    peer.pull("T")
    commit(peer, 3)
    answer = reset(peer, 0)
    assert (answer.code, table(answer)) == (0, {0: 0})

    assert committed(peer) == "0"
    stale = commit(peer, 3)
    assert (stale.code, stale.remark) == (0, "Offset has been previously reset")
    assert committed(peer) == "0"

    flags = str(int(PullSysFlag.SUBSCRIPTION | PullSysFlag.COMMIT_OFFSET))
    told = peer.pull("T", 3, sysFlag=flags, commitOffset="3")
    assert told.code == ResponseCode.PULL_OFFSET_MOVED
    assert told.remark == "OFFSET_RESET"
    assert told.ext_fields["nextBeginOffset"] == "0"
    assert committed(peer) == "0"
    assert peer.pull("T", 0).code == 0
    assert commit(peer, 1).code == 0


@pytest.mark.case("W107")
def test_a_queue_is_reset_again_before_anybody_has_pulled(peer: WirePeer) -> None:
    """As mqadmin's resetOffset of a queue does it: a commit, then the reset."""
    with_messages(peer)
    for offset in (2, 1, 3):
        assert commit(peer, offset).code == 0
        answer = reset(peer, queueId="0", offset=str(offset))
        assert (answer.code, table(answer)) == (0, {0: offset})
        assert committed(peer) == str(offset)
    told = peer.pull("T", 0)
    assert (told.remark, told.ext_fields["nextBeginOffset"]) == ("OFFSET_RESET", "3")
    answer = commit(peer, 1)
    assert (answer.code, answer.remark) == (0, None)


@pytest.mark.case("W107")
def test_a_group_that_is_away_finds_the_new_offset_when_it_comes(peer: WirePeer) -> None:
    peer.create_topic("T")
    for _ in range(3):
        peer.send("T")
    peer.pull("T")
    assert table(reset(peer)) == {0: 3}
    assert committed(peer) == "3"
    assert peer.pull("T", 0).remark == "OFFSET_RESET"


def test_a_pull_that_waits_is_answered_at_once(
    broker: EmbeddedBroker, peer: WirePeer, connect: Connect
) -> None:
    with_messages(peer)
    other = connect(broker.addr)
    flags = str(int(PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND))
    mine = peer.post(RequestCode.PULL_MESSAGE, pull_fields("T", 3, sysFlag=flags))
    another = other.post(
        RequestCode.PULL_MESSAGE, pull_fields("T", 3, sysFlag=flags, consumerGroup="another")
    )
    assert not peer.has_answer(mine)

    assert reset(peer, 0).code == 0

    assert peer.answer(mine).ext_fields["nextBeginOffset"] == "0"
    assert not other.has_answer(another)


def test_a_time_chooses_the_first_message_stored_then_or_later(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    with_messages(peer, 1)
    broker.clock.advance(10)
    peer.send("T")
    moment = broker.clock.now_ms
    broker.clock.advance(10)
    peer.send("T")
    assert table(reset(peer, moment)) == {0: 1}


def test_one_queue_can_be_set_to_an_offset_that_it_holds(peer: WirePeer) -> None:
    peer.create_topic("T", queues=2)
    peer.heartbeat("c1", consumer(GROUP, {"T": "*"}))
    for _ in range(3):
        peer.send("T", e="1")
    assert table(reset(peer, queueId="1", offset="2")) == {1: 2}
    assert table(reset(peer, queueId="1")) == {1: 3}
    refused = reset(peer, queueId="1", offset="5")
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == "Target offset 5 not in consume queue range [0-3]"


def test_what_does_not_exist_is_refused(peer: WirePeer) -> None:
    with_messages(peer)
    assert reset(peer, topic="U").code == ResponseCode.TOPIC_NOT_EXIST
    assert reset(peer, group="H").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.case("W107")
def test_before_5_3_every_member_is_sent_the_offsets(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(profile="rocketmq-4.9")
    peer, member = connect(broker.addr), connect(broker.addr)
    peer.create_topic("T")
    for _ in range(3):
        peer.send("T")
    assert reset(peer).code == ResponseCode.SYSTEM_ERROR
    commit(peer, 1)
    assert reset(peer).code == ResponseCode.CONSUMER_NOT_ONLINE
    member.heartbeat("c1", consumer(GROUP, {"T": "*"}))
    member.barrier()
    member.pushed.clear()

    kept = reset(peer, isForce="false")
    answer = reset(peer)

    assert (table(kept), table(answer)) == ({0: 1}, {0: 3})
    member.barrier()
    told = member.pushed[-1]
    assert told.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    assert (told.flag, told.ext_fields["topic"], told.ext_fields["group"]) == (2, "T", GROUP)
    assert ResetOffsetBody.decode(told.body).offset_table == {
        MessageQueueKey("T", broker.broker_name, 0): 3
    }
    assert told.body.startswith(b'{"offsetTable":{{"brokerName":')
    assert peer.pull("T", 1).code == 0
