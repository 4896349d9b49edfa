"""What a C++ client says and hears, over a raw socket: its frames as it writes them.

The client itself cannot be had here. Its header has numbers where Java has text, members in
alphabetical order, a line feed at the end and three fields of a signature, empty without one. Its
enumerations are numbers, and it reads an answer's fields only where they are text.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.bodies.groups import ResetOffsetBody
from rocketmq_py.protocol.bodies.heartbeat import BROADCASTING, CLUSTERING
from rocketmq_py.protocol.codes import FLAG_ONEWAY, LanguageCode, MQVersion, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.lenient_json import loads_lenient
from rocketmq_py.protocol.message_codec import decode_records
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, consumer, properties_text

TOPIC, GROUP, CLIENT = "CppTopic", "CppGroup", "127.0.0.1@77@cpp"
UNSIGNED = {"AccessKey": "", "OnsChannel": "", "Signature": ""}
Fields = Mapping[str, str | int]

TRANSACTION = 4
COMMIT = "8"
LAST_OFFSET, PASSIVELY, TO_ALL, TO_ONE = 0, 1, 0, 1
"""Ordinals of what it reads from where, of a push consumer, and of the two message models."""


class CppClient:
    """Writes as the client does; what it reads must be there as that reads it."""

    def __init__(self, peer: WirePeer) -> None:
        self.peer = peer
        self._opaque = 1000

    def write(self, code: int, ext: Fields | None = None, body: Any = b"", flag: int = 0) -> int:
        """Send a frame: its length, that of the header, the header, the body."""
        self._opaque += 1
        header = {
            "code": int(code),
            "extFields": UNSIGNED | dict(ext or {}),
            "flag": flag,
            "language": "CPP",
            "opaque": self._opaque,
            "remark": "",
            "version": int(MQVersion.V4_6_0),
        }
        head = json.dumps(header, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        if not isinstance(body, bytes):
            body = json.dumps(body, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        length = 4 + len(head) + len(body)
        self.peer.write(struct.pack(">ii", length, len(head)) + head + body)
        return self._opaque

    def ask(self, code: int, ext: Fields | None = None, body: Any = b"") -> RemotingCommand:
        """Send a request that must be answered well."""
        answer = self.peer.answer(self.write(code, ext, body))
        assert (answer.code, answer.remark) == (0, answer.remark)
        return answer

    def send(self, key: str, *, sys_flag: int = 0, **properties: str) -> Mapping[str, str]:
        """Send by request 10, as releases before 2.0 do."""
        fields = v1_fields(sys_flag, properties_text({"UNIQ_KEY": key} | properties))
        return self.ask(RequestCode.SEND_MESSAGE, fields, key.encode()).ext_fields

    def heartbeat(self, model: int, subscription: str = "*") -> None:
        """Tell of a producer and a push consumer."""
        wanted: dict[str, Any] = {"subString": subscription, "topic": TOPIC}
        wanted["subVersion"] = "1700000000000"
        if subscription != "*":
            wanted |= {"tagsSet": [subscription], "codeSet": [ord(subscription)]}
        group = {
            "consumeFromWhere": LAST_OFFSET,
            "consumeType": PASSIVELY,
            "groupName": GROUP,
            "messageModel": model,
            "subscriptionDataSet": [wanted],
        }
        producer = {"groupName": "CppProducers"}
        body = {"clientID": CLIENT, "consumerDataSet": [group], "producerDataSet": [producer]}
        self.ask(RequestCode.HEART_BEAT, None, body)

    def pull(self, offset: int) -> RemotingCommand:
        """Pull as its push consumer does: the queue's offset is text, its number is none."""
        fields: dict[str, str | int] = {
            "commitOffset": "0",
            "consumerGroup": GROUP,
            "maxMsgNums": 32,
            "queueId": 0,
            "queueOffset": str(offset),
            "subVersion": "1700000000000",
            "subscription": "",
            "suspendTimeoutMillis": "30000",
            "sysFlag": 0,
            "topic": TOPIC,
        }
        return self.ask(RequestCode.PULL_MESSAGE, fields)


def v1_fields(sys_flag: int, properties: str) -> dict[str, str | int]:
    """Give the header of request 10: int32 fields are numbers, longs and flags are text."""
    return {
        "producerGroup": "CppProducers",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": 0,
        "sysFlag": sys_flag,
        "bornTimestamp": "1700000000000",
        "flag": 0,
        "properties": properties,
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }


@pytest.fixture
def cpp(broker: EmbeddedBroker, connect: Connect) -> CppClient:
    """A C++ client at a broker that has its topic."""
    peer = connect(broker.addr)
    peer.create_topic(TOPIC)
    return CppClient(peer)


def keys(answer: RemotingCommand) -> list[bytes]:
    return [record.body for record in decode_records(answer.body)]


def group_seen(peer: WirePeer) -> dict[str, Any]:
    """What an administrator is told of the group (203)."""
    answer = peer.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP})
    document = loads_lenient(answer.body)
    assert isinstance(document, dict)
    return document


def test_it_reads_a_route_and_sends_there(broker: EmbeddedBroker, connect: Connect) -> None:
    connect(broker.addr).create_topic(TOPIC)
    route = CppClient(connect(broker.namesrv_addr)).ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC}
    )

    document: Any = loads_lenient(route.body)
    (data,) = document["brokerDatas"]
    (queues,) = document["queueDatas"]
    address = next(iter(data["brokerAddrs"].values()))
    assert (queues["brokerName"], queues["perm"]) == (data["brokerName"], 6)
    assert CppClient(connect(address)).send("there")["queueOffset"] == "0"


def test_request_10_with_numbers_is_stored_as_any_other(
    broker: EmbeddedBroker, cpp: CppClient
) -> None:
    sent = cpp.send("k0", TAGS="A", KEYS="order-1")

    assert (sent["queueId"], sent["queueOffset"]) == ("0", "0")
    assert all(isinstance(value, str) for value in sent.values())
    (message,) = broker.messages.in_topic(TOPIC)
    assert (message.body, message.tags, message.keys) == (b"k0", "A", ("order-1",))
    assert message.born_at.timestamp() == 1_700_000_000


def test_request_310_with_numbers_is_stored_too(broker: EmbeddedBroker, cpp: CppClient) -> None:
    long = v1_fields(0, properties_text({"UNIQ_KEY": "k1"}))
    fields = dict(zip("abcdefghijkm", long.values(), strict=True))  # in the order of the letters
    cpp.ask(RequestCode.SEND_MESSAGE_V2, fields | {"l": 16}, b"k1")

    assert [message.body for message in broker.messages.in_topic(TOPIC)] == [b"k1"]


@pytest.mark.parametrize(("model", "name"), [(TO_ONE, CLUSTERING), (TO_ALL, BROADCASTING)])
def test_the_numbers_of_a_heartbeat_are_the_names_that_others_give(
    cpp: CppClient, model: int, name: str
) -> None:
    cpp.heartbeat(model)

    seen = group_seen(cpp.peer)
    assert seen["messageModel"] == name
    assert seen["consumeType"] == "CONSUME_PASSIVELY"
    assert seen["consumeFromWhere"] == "CONSUME_FROM_LAST_OFFSET"
    (member,) = seen["connectionSet"]
    assert (member["clientId"], member["language"]) == (CLIENT, "CPP")


def test_a_push_consumer_comes_consumes_and_goes(broker: EmbeddedBroker, cpp: CppClient) -> None:
    for number in range(3):
        cpp.send(f"k{number}", TAGS="AB"[number % 2])
    cpp.heartbeat(TO_ONE, "A")
    members = json.loads(
        cpp.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP}).body
    )
    assert members["consumerIdList"] == [CLIENT]
    mine: Fields = {"topic": TOPIC, "queueId": 0}
    assert cpp.ask(RequestCode.GET_MAX_OFFSET, mine).ext_fields["offset"] == "3"
    queue = {"brokerName": broker.broker_name, "queueId": 0, "topic": TOPIC}
    wanted = {"clientId": CLIENT, "consumerGroup": GROUP, "mqSet": [queue]}
    held = json.loads(cpp.ask(RequestCode.LOCK_BATCH_MQ, None, wanted).body)
    assert held["lockOKMQSet"] == [queue]

    pulled = cpp.pull(0)
    assert keys(pulled) == [b"k0", b"k2"]
    place = {**mine, "consumerGroup": GROUP}
    cpp.write(RequestCode.UPDATE_CONSUMER_OFFSET, {**place, "commitOffset": "3"}, flag=FLAG_ONEWAY)
    assert cpp.ask(RequestCode.QUERY_CONSUMER_OFFSET, place).ext_fields["offset"] == "3"

    cpp.ask(RequestCode.UNLOCK_BATCH_MQ, None, wanted)
    gone = {"clientID": CLIENT, "producerGroup": "CppProducers", "consumerGroup": ""}
    cpp.ask(RequestCode.UNREGISTER_CLIENT, gone)
    assert group_seen(cpp.peer)["connectionSet"]
    gone |= {"producerGroup": "", "consumerGroup": GROUP}
    cpp.ask(RequestCode.UNREGISTER_CLIENT, gone)
    asked = {"consumerGroup": GROUP}
    assert cpp.peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, asked).code == 1


def test_what_it_sends_back_comes_again(broker: EmbeddedBroker, cpp: CppClient) -> None:
    cpp.send("k0")
    cpp.heartbeat(TO_ONE)
    (record,) = decode_records(cpp.pull(0).body)
    back: dict[str, str | int] = {
        "group": GROUP,
        "delayLevel": 3,
        "offset": str(record.commit_log_offset),
        "unitMode": "false",
        "originMsgId": "k0",
        "originTopic": TOPIC,
        "maxReconsumeTimes": 16,
    }
    cpp.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
    broker.clock.advance(10)

    (again,) = decode_records(cpp.peer.pull(f"%RETRY%{GROUP}", consumerGroup=GROUP).body)
    assert (again.body, again.reconsume_times) == (b"k0", 1)


def test_a_transaction_is_committed_with_text_for_every_number(
    broker: EmbeddedBroker, cpp: CppClient
) -> None:
    cpp.heartbeat(TO_ONE)
    sent = cpp.send("t0", sys_flag=TRANSACTION, TRAN_MSG="true", PGROUP="CppProducers")
    assert not broker.messages.in_topic(TOPIC)
    end = {
        "commitLogOffset": str(int(sent["msgId"][16:], 16)),
        "commitOrRollback": COMMIT,
        "fromTransactionCheck": "false",
        "msgId": "t0",
        "producerGroup": "CppProducers",
        "tranStateTableOffset": sent["queueOffset"],
        "transactionId": "t0",
    }
    cpp.write(RequestCode.END_TRANSACTION, end, flag=FLAG_ONEWAY)
    cpp.peer.barrier()

    assert [message.body for message in broker.messages.in_topic(TOPIC)] == [b"t0"]


@pytest.mark.parametrize("asker", [LanguageCode.JAVA, LanguageCode.CPP])
def test_a_reset_tells_it_a_list_and_others_a_table(
    start_broker: StartBroker, connect: Connect, asker: LanguageCode
) -> None:
    """Who asks in C++ has the list told to all, as by the original."""
    broker = start_broker(profile="rocketmq-4.9")
    cpp, java, admin = (connect(broker.addr) for _ in range(3))
    admin.create_topic(TOPIC)
    client = CppClient(cpp)
    client.send("k0")
    client.heartbeat(TO_ONE)
    java.heartbeat("java", consumer(GROUP, {TOPIC: "*"}))
    place: Fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": "1"}
    client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place)
    reset = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
    asks = CppClient(admin).ask if asker is LanguageCode.CPP else admin.ask
    assert asks(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset).code == 0

    told = reset_told(cpp)
    queue = {"brokerName": broker.broker_name, "offset": 0, "queueId": 0, "topic": TOPIC}
    assert json.loads(told.body) == {"offsetTable": [queue]}
    if asker is LanguageCode.CPP:
        assert reset_told(java).body == told.body
    else:
        assert list(ResetOffsetBody.decode(reset_told(java).body).offset_table.values()) == [0]


def reset_told(peer: WirePeer) -> RemotingCommand:
    """Wait for request 220, whatever else comes."""
    while (pushed := peer.push()).code != RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
        pass
    return pushed
