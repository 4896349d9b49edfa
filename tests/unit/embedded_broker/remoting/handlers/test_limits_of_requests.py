"""What a request may say of offsets, queues and sizes, and what the refusal tells."""

from __future__ import annotations

import re

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.store.pull import ANSWER_BYTES_MAX
from embedded_broker.tables.offsets.table import OFFSET_MAX
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode
from rocketmq_py.protocol.frame import FRAME_SIZE_MAX
from rocketmq_py.protocol.json_text import dumps
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer

TOPIC, GROUP = "Used", "consumers"
INVALID = 29


@pytest.fixture
def peer(start_broker: StartBroker, connect: Connect) -> WirePeer:
    """A connection to a broker with a topic and a group."""
    peer = connect(start_broker(topics=[TOPIC]).addr)
    assert peer.send(TOPIC).code == 0
    assert peer.ask(200, body=b'{"groupName":"consumers"}').code == 0
    return peer


def commit_fields(offset: int, queue_id: int = 0) -> dict[str, str]:
    return {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": str(queue_id),
        "commitOffset": str(offset),
    }


@pytest.mark.parametrize("offset", [-1, -(2**63)])
def test_an_offset_that_no_queue_has_is_not_committed(peer: WirePeer, offset: int) -> None:
    answer = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit_fields(offset))

    assert answer.code == INVALID
    assert answer.remark == f"commitOffset[{offset}] is illegal: 0 to {OFFSET_MAX}"
    asked = commit_fields(0) | {"setZeroIfNotFound": "false"}
    assert peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked).code == 22


@pytest.mark.parametrize("offset", [0, 1, 12_345, OFFSET_MAX])
def test_an_offset_that_a_queue_may_have_is_committed(peer: WirePeer, offset: int) -> None:
    assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit_fields(offset)).code == 0
    answer = peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, commit_fields(0))
    assert answer.ext_fields["offset"] == str(offset)


@pytest.mark.parametrize("queue_id", [-1, 65_536, 2**31 - 1])
def test_a_commit_for_a_queue_that_no_topic_has_is_refused(peer: WirePeer, queue_id: int) -> None:
    answer = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit_fields(1, queue_id))

    assert answer.code == INVALID
    assert answer.remark == f"queueId[{queue_id}] is illegal: 0 to 65535 (setting maxQueueNums)"


@pytest.mark.parametrize("offset", [-1, -(2**63)])
def test_a_pull_commits_no_offset_that_no_queue_has(peer: WirePeer, offset: int) -> None:
    flags = int(PullSysFlag.SUBSCRIPTION | PullSysFlag.COMMIT_OFFSET)
    answer = peer.pull(TOPIC, commitOffset=str(offset), sysFlag=str(flags))

    assert (answer.code, f"commitOffset[{offset}]" in (answer.remark or "")) == (INVALID, True)


def test_a_reset_of_a_queue_that_the_topic_has_not_is_refused(peer: WirePeer) -> None:
    fields = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
    answer = peer.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields | {"queueId": "2147483647"})

    assert answer.code == 1
    assert "queueId[2147483647] is illegal: topic Used has readQueueNums=4" in (answer.remark or "")


@pytest.mark.parametrize("number", [-1, 65_537, 2**31 - 1])
def test_a_group_with_retry_queues_that_nobody_means_is_refused(
    peer: WirePeer, number: int
) -> None:
    body = dumps({"groupName": "Greedy", "retryQueueNums": number})
    answer = peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    assert answer.code == INVALID
    assert re.search(rf"retryQueueNums\[{number}\].*0 to 65536.*maxQueueNums", answer.remark or "")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("[" * 500 + "]" * 500, "less than 64 levels"),
        ('{"type":"CUSTOMIZED"},"brokerId":1' + "0" * 30, "64-bit integer"),
    ],
)
def test_a_group_that_could_never_be_saved_is_refused(
    peer: WirePeer, policy: str, said: str
) -> None:
    shown = policy if policy.startswith("{") else f'{{"type":{policy}}}'
    body = f'{{"groupName":"Deep","groupRetryPolicy":{shown}}}'.encode()
    answer = peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    assert (answer.code, said in (answer.remark or "")) == (1, True)


def test_a_pull_answers_what_a_frame_carries_whatever_is_set(
    start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {
        "maxTransferBytesOnMessageInMemory": 100_000_000,
        "maxTransferCountOnMessageInMemory": 1000,
    }
    broker = start_broker(config=settings)
    peer = connect(broker.addr)
    broker.topics.create(TOPIC, queues=1)
    for _ in range(6):
        assert peer.send(TOPIC, body=bytes(4_000_000)).code == 0

    answer = peer.pull(TOPIC, maxMsgNums="1000")

    assert answer.code == 0, answer.remark
    assert answer.ext_fields["nextBeginOffset"] == "4"
    assert len(answer.body) <= ANSWER_BYTES_MAX < FRAME_SIZE_MAX
    assert f"counts as {ANSWER_BYTES_MAX}" in caplog.text


def test_a_query_answers_what_a_frame_carries(peer: WirePeer) -> None:
    for _ in range(6):
        assert peer.send(TOPIC, bytes(4_000_000), {"KEYS": "large"}).code == 0
    fields = {
        "topic": TOPIC,
        "key": "large",
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": str(2**63 - 1),
    }
    answer = peer.ask(RequestCode.QUERY_MESSAGE, fields)

    assert answer.code == 0, answer.remark
    assert answer.body.count(b"KEYS\x01large") == 4


def test_a_remark_is_short_whatever_name_stands_in_it() -> None:
    with EmbeddedBroker(clock=VirtualClock()) as broker, WirePeer(broker.addr) as peer:
        answer = peer.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "x" * 100_000})
        assert (answer.code, len(answer.remark or "") < 5000) == (17, True)


def test_a_header_that_is_longer_than_any_real_one_closes_the_connection() -> None:
    with EmbeddedBroker(clock=VirtualClock()) as broker, WirePeer(broker.addr) as peer:
        peer.post(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "x" * 1_100_000})
        assert peer.wait_closed()


def test_a_client_is_in_so_many_groups_at_most(
    peer: WirePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embedded_broker.core.administration.clients.GROUPS_MAX", 3)
    assert peer.heartbeat("c", producers=["a", "b", "c"]).code == 0
    assert peer.heartbeat("c", producers=["c", "b", "a"]).code == 0
    answer = peer.heartbeat("c", producers=["d"])

    assert answer.code == 1
    assert "in 3 producer groups, at most 3 are possible" in (answer.remark or "")


def test_locks_are_bounded_and_those_that_nobody_renews_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from embedded_broker.tables.consumers import registry
    from rocketmq_py.protocol.bodies.document import MessageQueueKey

    monkeypatch.setattr(registry, "LOCKS_MAX", 2)
    locks = registry.QueueLocks()
    first, second, third = (MessageQueueKey("T", "b", number) for number in range(3))

    assert locks.lock("g", [first, second, third], "x", now_ms=1000) == [first, second]
    assert locks.lock("h", [third], "y", now_ms=1500) == []
    assert locks.lock("g", [first], "x", now_ms=40_000) == [first]
    later = 1000 + registry.LOCK_LEASE_MS
    assert locks.lock("h", [third], "y", now_ms=later) == [third]
    assert locks.lock("h", [second], "y", now_ms=later) == []


def test_a_batch_of_more_messages_than_allowed_is_refused(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = connect(start_broker(topics=[TOPIC], config={"maxMessagesInBatch": 2}).addr)
    item = b"\x00\x00\x00\x17" + bytes(12) + b"\x00\x00\x00\x01b\x00\x00"
    code = RequestCode.SEND_BATCH_MESSAGE

    assert peer.send(TOPIC, item * 2, code=code, m="true").code == 0
    answer = peer.send(TOPIC, item * 3, code=code, m="true")
    assert answer.code == 13
    assert "more messages than 2" in (answer.remark or "")


def test_a_batch_of_more_properties_than_anybody_needs_is_refused(peer: WirePeer) -> None:
    text = b"k\x01\x02" * 1000
    item = (22 + 1 + len(text)).to_bytes(4) + bytes(12) + b"\x00\x00\x00\x01b"
    body = (item + len(text).to_bytes(2) + text) * 70

    answer = peer.send(TOPIC, body, code=RequestCode.SEND_BATCH_MESSAGE, m="true")
    assert answer.code == 13
    assert "70000 properties, at most 65536" in (answer.remark or "")
