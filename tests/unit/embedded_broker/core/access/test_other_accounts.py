"""Nobody gets a message of another account: requests of every code, and what the broker pushes.

Ann owns the topic `Aa` and the group `GA`, Bob the topic `BB` and the group `GB`. Both write to one
broker. Ann asks with her own names, with none, and with places of Bob's messages in the log; then
time passes, and whatever came to her and to her topics is searched for Bob's bodies.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, Final

import pytest

from embedded_broker import (
    AuthPolicy,
    AuthUser,
    EmbeddedBroker,
    PlainAccount,
    PlainAcl,
    UserAcl,
    VirtualClock,
)
from rocketmq_py.protocol.bodies.pop import Ack, CheckPoint
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.protocol.handles import encode_offset_id
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import HOLDING_TOPICS
from tests.short_form import short_form
from tests.unit.embedded_broker import peers
from tests.unit.embedded_broker.core.access.signed import ALL_FORMS, GUARD_S, SECRET, signed
from tests.unit.embedded_broker.wire_peer import consumer, pull_fields, send_fields

ANN, BOB, ROOT = "ann-account", "bob-account", "root-account"
HERS, HIS = "Aa", "BB"
"""Two topics whose names have the same hash, so that the index finds both by one key."""
OF_HIS_GROUP: Final = ("%RETRY%GB", "%RETRY%GB_BB", "%RETRY%GB+BB", "%DLQ%GB")
MARK: Final = b"only for bob"
KEY: Final = "order"
HALF: Final = {"TRAN_MSG": "true", "PGROUP": "PB"}

PLAIN = PlainAcl(
    accounts=[
        PlainAccount(
            access_key=ANN,
            secret_key=SECRET,
            topic_perms={HERS: "PUB|SUB"},
            group_perms={"GA": "SUB"},
        ),
        PlainAccount(
            access_key=BOB,
            secret_key=SECRET,
            topic_perms={HIS: "PUB|SUB", "DefaultCluster_REPLY_TOPIC": "PUB"},
            group_perms={"GB": "SUB"},
        ),
        PlainAccount(access_key=ROOT, secret_key=SECRET, admin=True),
    ]
)
OPEN_BUT_ONE = PlainAcl(
    accounts=[
        PlainAccount(
            access_key=ANN,
            secret_key=SECRET,
            default_topic_perm="PUB|SUB",
            default_group_perm="SUB",
            topic_perms={HIS: "DENY", "%DLQ%GB": "DENY"},
            group_perms={"GB": "DENY"},
        ),
        *PLAIN.accounts[1:],
    ]
)
"""Ann may use everything but what is Bob's."""
EVERYTHING = ["Pub", "Sub", "Create", "Update", "Delete", "Get", "List"]
USERS = UserAcl(
    users=[
        AuthUser(username=ANN, password=SECRET),
        AuthUser(username=BOB, password=SECRET),
        AuthUser(username=ROOT, password=SECRET, superuser=True),
    ],
    policies=[
        AuthPolicy(username=ANN, resources=[f"Topic:{HERS}", "Group:GA"], actions=EVERYTHING),
        AuthPolicy(
            username=BOB,
            resources=[f"Topic:{HIS}", "Topic:DefaultCluster_REPLY_TOPIC", "Group:GB"],
            actions=EVERYTHING,
        ),
    ],
)
USERS_OPEN_BUT_ONE = UserAcl(
    users=USERS.users,
    policies=[
        AuthPolicy(username=ANN, resources=["Topic:*", "Group:*"], actions=["Pub", "Sub"]),
        AuthPolicy(
            username=ANN,
            resources=[f"Topic:{HIS}", "Topic:%DLQ%GB", "Group:GB"],
            actions=EVERYTHING,
            decision="Deny",
        ),
        *USERS.policies[1:],
    ],
)
KINDS: Final = {
    "ACL 1": PLAIN,
    "ACL 1, open but one": OPEN_BUT_ONE,
    "ACL 2": USERS,
    "ACL 2, open but one": USERS_OPEN_BUT_ONE,
}
REVIVE: Final = "rmq_sys_REVIVE_LOG_DefaultCluster"


class World:
    """A broker of two accounts, and one connection of each."""

    def __init__(self, broker: EmbeddedBroker, session: VirtualClock) -> None:
        self.broker = broker
        self.session = session
        self.peers = {name: peers.Peer("10.1.2.3") for name in (ANN, BOB, ROOT)}

    @property
    def knows_pop(self) -> bool:
        return RequestCode.POP_MESSAGE not in self.broker._parts().profile.unsupported_codes

    def ask(
        self, who: str, code: int, fields: Mapping[str, str], body: bytes = b""
    ) -> RemotingCommand | None:
        """Send a request and wait until it is answered, or waits in the broker."""
        peer, endpoint = self.peers[who], self.broker._parts().endpoint
        opaque = 1000 + len(peer.frames)
        command = RemotingCommand(
            code, opaque=opaque, version=479, ext_fields=signed(fields, body, who), body=body
        )
        endpoint.receive(peer, FrameDecoder().feed(command.encode()))
        done = threading.Event()
        endpoint.long_requests.do(done.set)
        assert done.wait(GUARD_S)
        return next((one for one in peer.answers if one.opaque == opaque), None)

    def must(self, who: str, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        answer = self.ask(who, code, fields, body)
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def beat(self, who: str, client_id: str, group: str, topic: str, producer: str) -> None:
        data: dict[str, Any] = {
            "clientID": client_id,
            "consumerDataSet": [consumer(group, {topic: "*"})],
            "producerDataSet": [{"groupName": producer}],
        }
        self.must(who, RequestCode.HEART_BEAT, {}, json.dumps(data).encode())

    def send(self, who: str, topic: str, **more: Any) -> None:
        properties = {"KEYS": KEY, **more}
        body = MARK if who == BOB else b"of ann"
        self.must(who, RequestCode.SEND_MESSAGE_V2, send_fields(topic, properties), body)

    def stored(self) -> list[MessageRecord]:
        """Every record of the log."""
        parts = self.broker._parts()
        with parts.door.quiet:
            return list(parts.store.scan(0))

    def fill(self) -> None:
        """Let Bob's messages lie wherever the broker keeps messages."""
        self.beat(BOB, "bob-client", "GB", HIS, "PB")
        self.beat(ANN, "ann-client", "GA", HERS, "PB")
        self.send(ANN, HERS)
        self.send(BOB, HIS)
        self.send(BOB, HIS, **HALF)
        if self.broker.config["timerWheelEnable"]:
            self.send(BOB, HIS, TIMER_DELAY_SEC="3600")
        first = next(one for one in self.stored() if one.body == MARK)
        for level in (18, -1):
            fields = {"offset": str(first.commit_log_offset), "group": "GB"}
            self.must(BOB, RequestCode.CONSUMER_SEND_MSG_BACK, fields | {"delayLevel": str(level)})
        if self.knows_pop:
            assert MARK in self.pop(BOB, "GB", HIS)

    def pop(self, who: str, group: str, topic: str) -> bytes:
        """Pop all that a topic has, and give what the answers carry."""
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": "-1",
            "maxMsgNums": "32",
            "invisibleTime": "1000",
            "pollTime": "0",
            "bornTime": str(self.broker.clock.now_ms),
            "initMode": "0",
            "order": "false",
        }
        answer = self.ask(who, RequestCode.POP_MESSAGE, fields)
        assert answer is not None
        return bytes(answer.body)

    def heard(self, who: str) -> bytes:
        """Everything that has come to somebody."""
        return b"".join(frame.header + frame.body for frame in self.peers[who].frames)

    def let_time_pass(self) -> None:
        """Ask producers, deliver timers, end waits."""
        self.broker.clock.advance(7200)
        self.session.advance(60)

    def pull_what_is_hers(self) -> None:
        for topic in (HERS, "%RETRY%GA", "%DLQ%GA"):
            self.ask(ROOT, RequestCode.PULL_MESSAGE, pull_fields(topic, consumerGroup="GA"))


@pytest.fixture
def profile() -> str:
    """The version; a test may name others."""
    return "rocketmq-5.x"


@pytest.fixture
def options() -> dict[str, object]:
    """Settings of the broker; a test may name some."""
    return {}


@pytest.fixture(params=list(KINDS))
def world(
    request: pytest.FixtureRequest,
    start_broker: Callable[..., EmbeddedBroker],
    profile: str,
    options: dict[str, object],
) -> World:
    session = VirtualClock()
    broker = start_broker(
        acl=KINDS[request.param],
        tcp=False,
        topics=[HERS, HIS],
        profile=profile,
        session_clock=session,
        config=options,
    )
    world = World(broker, session)
    world.fill()
    return world


def places_of(record: MessageRecord, names: Mapping[str, str]) -> dict[str, str]:
    """The fields of a request that name a record by its place."""
    offset_id = encode_offset_id(record.store_host, record.commit_log_offset)
    places = {
        "offset": str(record.commit_log_offset),
        "commitLogOffset": str(record.commit_log_offset),
        "tranStateTableOffset": str(record.queue_offset),
        "msgId": offset_id,
    }
    return {name: value for name, value in places.items() if name in names}


def requests_of(code: int, records: list[MessageRecord]) -> Iterator[tuple[dict[str, str], bytes]]:
    """Requests of one code with Ann's names and Bob's places."""
    form = ALL_FORMS[code]
    wired = {} if form.header is None else {one.wire: "" for one in form.header.FIELDS}
    own = {
        "topic": HERS,
        "b": HERS,
        "group": "GA",
        "consumerGroup": "GA",
        "producerGroup": "PB",
        "clientId": "ann-client",
        "key": KEY,
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": str(2**62),
        "commitOrRollback": "8",
        "srcGroup": "GA",
        "destGroup": "GA",
    }
    fields = form.fields | {name: own[name] for name in own if name in form.fields | wired}
    body = form.body.replace(b"Used", HERS.encode()).replace(b"consumers", b"GA")
    named = [fields, {name: fields[name] for name in fields if name not in {"topic", "b"}}]
    for some in named:
        yield some, body
        for record in records:
            places = places_of(record, form.fields | wired)
            if places:
                yield some | places, body


def assert_bob_is_alone(world: World) -> None:
    """Nothing of Bob's came to Ann or to what is hers."""
    world.let_time_pass()
    world.pull_what_is_hers()
    assert MARK not in world.heard(ANN)
    copies = {one.topic for one in world.stored() if one.body == MARK} - HOLDING_TOPICS
    assert copies <= {HIS, "DefaultCluster_REPLY_TOPIC", *OF_HIS_GROUP}


@pytest.mark.parametrize(
    ("code", "world"),
    short_form(
        product(sorted(ALL_FORMS), KINDS),
        lambda one: (sorted(ALL_FORMS).index(one[0]) + list(KINDS).index(one[1])) % 2 == 0,
    ),
    indirect=["world"],
)
@pytest.mark.parametrize(
    "profile", ["rocketmq-5.x", pytest.param("rocketmq-4.9", marks=pytest.mark.slow)]
)
def test_no_request_brings_a_message_of_another_account(world: World, code: int) -> None:
    his = [one for one in world.stored() if one.body == MARK]
    assert len(his) >= 4
    for fields, body in requests_of(code, his):
        world.ask(ANN, code, fields, body)
    assert_bob_is_alone(world)


def test_a_check_of_a_transaction_goes_to_who_may_send_to_its_topic(world: World) -> None:
    world.let_time_pass()
    assert MARK in world.heard(BOB)
    assert MARK not in world.heard(ANN)


def half_of(world: World) -> MessageRecord:
    return next(one for one in world.stored() if one.topic == "RMQ_SYS_TRANS_HALF_TOPIC")


@pytest.mark.parametrize("named", [{}, {"topic": HERS}, {"topic": HIS}])
@pytest.mark.parametrize("outcome", ["8", "12"])
def test_a_transaction_is_ended_by_who_may_send_to_its_topic(
    world: World, outcome: str, named: dict[str, str]
) -> None:
    half, parts = half_of(world), world.broker._parts()
    fields = {
        "producerGroup": "PB",
        "tranStateTableOffset": str(half.queue_offset),
        "commitLogOffset": str(half.commit_log_offset),
        "commitOrRollback": outcome,
        "msgId": "0",
    }
    world.ask(ANN, RequestCode.END_TRANSACTION, fields | named)
    assert parts.transactions.count() == 1
    for one in (fields | {"producerGroup": "PA"}, fields | {"tranStateTableOffset": "7"}):
        world.ask(BOB, RequestCode.END_TRANSACTION, one)
    assert parts.transactions.count() == 1
    world.must(BOB, RequestCode.END_TRANSACTION, fields)  # as clients of 4.9 do: without a topic
    assert parts.transactions.count() == 0


def test_who_may_change_one_topic_lets_nobody_be_asked_about_another_one(world: World) -> None:
    half, parts = half_of(world), world.broker._parts()
    offset_id = encode_offset_id(half.store_host, half.commit_log_offset)
    end = parts.store.log.max_offset
    for named in ({"topic": HERS}, {}):
        world.ask(ANN, RequestCode.RESUME_CHECK_HALF_MESSAGE, named | {"msgId": offset_id})
    assert parts.store.log.max_offset == end
    world.must(ROOT, RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": offset_id})
    assert parts.store.log.max_offset > end


def test_a_key_that_shares_its_hash_with_one_of_another_topic_finds_its_own_alone(
    world: World,
) -> None:
    answer = world.ask(
        ANN,
        RequestCode.QUERY_MESSAGE,
        {
            "topic": HERS,
            "key": KEY,
            "maxNum": "32",
            "beginTimestamp": "0",
            "endTimestamp": str(2**62),
        },
    )
    assert answer is not None
    assert b"of ann" in answer.body
    assert MARK not in answer.body


def test_a_body_that_looks_like_a_record_is_none(world: World) -> None:
    """It names its own place, and would reach over the messages that follow it."""
    parts = world.broker._parts()
    with parts.door.quiet:
        begin = parts.store.log.max_offset
    inside = begin + 84 + 4  # behind the head and the length of the body
    fake = bytearray(bytes(parts.store.log.read(half_of(world).commit_log_offset) or b""))
    fake[28:36] = inside.to_bytes(8, "big")
    world.must(ANN, RequestCode.SEND_MESSAGE_V2, send_fields(HERS), bytes(fake))
    with parts.door.quiet:
        assert parts.store.log.record(inside) is not None
        assert parts.store.queued(inside) is None
    for who in (ANN, ROOT):
        answer = world.ask(who, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(inside)})
        assert answer is not None
        assert answer.remark == f"can not find message by the offset, {inside}"


def test_a_reply_goes_to_who_asked_and_not_to_who_took_the_name_later(world: World) -> None:
    world.beat(ANN, "bob-client", "GA", HERS, "PA")
    fields = send_fields(
        "DefaultCluster_REPLY_TOPIC", {"REPLY_TO_CLIENT": "bob-client", "CORRELATION_ID": "1"}
    )
    world.ask(BOB, RequestCode.SEND_REPLY_MESSAGE_V2, fields, MARK)
    assert MARK in world.heard(BOB)
    assert MARK not in world.heard(ANN)


@pytest.mark.parametrize("topic", [*sorted(HOLDING_TOPICS), REVIVE])
def test_topics_where_messages_of_all_wait_are_the_administrators(world: World, topic: str) -> None:
    fields = pull_fields(topic, consumerGroup="GA")
    answer = world.ask(ANN, RequestCode.PULL_MESSAGE, fields)
    assert answer is not None
    assert answer.code in {ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION}
    assert "permission" in (answer.remark or "")
    assert "brokerPermission" not in (answer.remark or "")


V2 = {"enableRetryTopicV2": True}


@pytest.mark.parametrize("options", [{}, V2], ids=["v1", "v2"])
def test_retry_topics_of_a_group_are_read_and_written_by_who_may_read_what_it_popped(
    world: World, options: dict[str, object]
) -> None:
    world.let_time_pass()
    popped = "%RETRY%GB+BB" if options else "%RETRY%GB_BB"
    topics = {one.topic for one in world.stored() if one.body == MARK} - HOLDING_TOPICS
    assert {HIS, "%RETRY%GB", "%DLQ%GB", popped} == topics
    query = {"key": KEY, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**62)}
    for topic in topics:
        for code, fields in (
            (RequestCode.PULL_MESSAGE, pull_fields(topic, consumerGroup="GA")),
            (RequestCode.LITE_PULL_MESSAGE, pull_fields(topic, consumerGroup="GA")),
            (RequestCode.QUERY_MESSAGE, query | {"topic": topic}),
            (RequestCode.SEND_MESSAGE_V2, send_fields(topic)),
        ):
            answer = world.ask(ANN, code, fields)
            assert answer is not None
            assert answer.code in {ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION}, topic
        assert MARK not in world.pop(ANN, "GA", topic)
    assert MARK not in world.heard(ANN)
    answer = world.ask(BOB, RequestCode.PULL_MESSAGE, pull_fields(popped, consumerGroup="GB"))
    assert answer is not None
    assert MARK in answer.body


def revive_entries(world: World) -> list[CheckPoint | Ack]:
    """What Bob's pops would need: check points of all that is his, and acks of his pops."""
    now_ms = world.broker.clock.now_ms
    places = {(one.topic, one.queue_id) for one in world.stored() if one.body == MARK}
    points = [
        CheckPoint(
            broker_name=world.broker.broker_name,
            group="GA",
            diffs=[0],
            invisible_ms=1000,
            count=1,
            pop_time_ms=now_ms + number,
            queue_id=queue_id,
            start_offset=0,
            topic=topic,
        )
        for number, (topic, queue_id) in enumerate(sorted(places), 1)
    ]
    parts = world.broker._parts()
    with parts.door.quiet:
        hidden = list(parts.pop.revive.hidden("GB"))
    acks = [
        Ack(
            offset=offset,
            broker_name=world.broker.broker_name,
            group=group,
            pop_time_ms=due_ms - 1000,
            queue_id=queue_id,
            start_offset=offset,
            topic=topic,
        )
        for group, topic, queue_id, offset, due_ms in hidden
    ]
    assert points
    assert acks
    return [*points, *acks]


@pytest.mark.parametrize("who", [ANN, ROOT])
def test_nobody_sends_check_points_and_acks_to_the_revive_topic(world: World, who: str) -> None:
    """Such a check point would copy whatever it names to a topic of Ann's group."""
    before = [one.topic for one in world.stored() if one.body == MARK]
    for entry in revive_entries(world):
        tag = "ck" if isinstance(entry, CheckPoint) else "ack"
        plain = send_fields(REVIVE, {"TAGS": tag})
        ways = [plain, send_fields(REVIVE, {"TAGS": tag, "TIMER_DELAY_MS": "1000"})]
        if who == ANN:  # as whom other brokers send
            ways.append(plain | {"a": "InnerProducerGroup_b_0"})
        for fields in ways:
            body = entry.encode(standard=True)
            answer = world.ask(who, RequestCode.SEND_MESSAGE_V2, fields, body)
            assert answer is not None
            assert answer.code in {ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION}
    assert_bob_is_alone(world)
    after = [one.topic for one in world.stored() if one.body == MARK]
    came_back = [one for one in after if one.startswith("%RETRY%GB_")]
    assert len(came_back) == 1, sorted(set(after) - set(before))


def test_nobody_moves_the_offsets_of_the_revive_topic(world: World) -> None:
    group = "CID_RMQ_SYS_REVIVE_GROUP"
    fields = {"consumerGroup": group, "topic": REVIVE, "queueId": "0", "commitOffset": "99"}
    answer = world.ask(ANN, RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    assert answer is not None
    assert answer.code in {ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION}
