"""Calls that something is wrong with, and how they are answered.

One table for our endpoint, with its own codes and with those of RocketMQ's proxy 5.3.3, and for
such a proxy itself. An answer is the code of its status, or the name of a status of gRPC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import grpc
from attrs import define, field, frozen

from embedded_broker.grpc.schema import ClientType, Encoding, MessageType
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.rpc import SERVICE, Rpc
from tests.unit.embedded_broker.grpc.raw_client import RawClient, gathered, handles
from tests.unit.embedded_broker.wire_peer import WirePeer

DAY_MS = 86_400_000
COMMIT = 1
Answer = int | str
KINDS = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
SETTINGS = {
    "recallMessageEnable": "true",
    "enablePropertyFilter": "true",
    "autoCreateSubscriptionGroup": "false",
    "enableMixedMessageType": "true",
    "timerMaxDelaySec": "3600",
    "transactionTimeOut": "120000",
}
"""Of the broker: a client is to be told of a group that does not exist, and of a timer too far."""


@define(eq=False, kw_only=True)
class Stage:
    """A broker's topics and groups, and clients that are known to its endpoint."""

    endpoints: str
    broker: str
    wait: Callable[[float], object]
    """Let seconds of the broker pass."""
    now_ms: Callable[[], int]
    producer: RawClient = field(init=False)
    consumer: RawClient = field(init=False)
    stranger: RawClient = field(init=False)
    """A client that has sent no settings."""
    _opened: list[RawClient] = field(factory=list, init=False)

    def open(self, client_id: str | None = None, **headers: str) -> RawClient:
        """Make one more client."""
        headers = {"x_mq_language": "JAVA"} | headers
        self._opened.append(RawClient(self.endpoints, client_id, **headers))
        return self._opened[-1]

    def __enter__(self) -> Self:
        with WirePeer(self.broker) as peer:
            for kind in KINDS:
                peer.create_topic(kind, attributes=f"+message.type={kind}")
            peer.create_topic("Empty")
            peer.create_topic("ReadOnly", perm=4)
            peer.create_topic("WriteOnly", perm=2)
            for name in ("G", "Other"):
                body = SubscriptionGroupConfig(name).encode()
                peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        self.producer, self.consumer, self.stranger = self.open(), self.open(), self.open()
        self.producer.be_producer(*KINDS)
        self.consumer.be_consumer("G", *KINDS, kind=ClientType.SIMPLE_CONSUMER)
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._opened:
            client.close()

    def handle(self, topic: str = "NORMAL", group: str = "G") -> str:
        """Send a message and receive it; give its handle. What others have left is done with."""
        sent = self.producer.send(self.producer.message(topic))
        assert sent.status.code == 20000, sent.status
        while True:
            (message,) = self.consumer.receive_all(topic, group, 1, batch=1)
            (handle,) = handles([message])
            if message.system_properties.message_id == sent.entries[0].message_id:
                return handle
            self.consumer.ack(topic, group, handle)

    def send(self, topic: str = "NORMAL", body: bytes = b"hello", **said: Any) -> int:
        """Send a message."""
        return code(self.producer.send(self.producer.message(topic, body, **said)))

    def receive(self, topic: str = "NORMAL", group: str = "G", **said: Any) -> int:
        """Receive, and give the code of the status."""
        return int(self.consumer.receive(topic, group, **said)[0].code)

    def timer(self, topic: str = "DELAY") -> str:
        """Send a timer; give its handle."""
        message = self.producer.message(topic, delivery_timestamp=self.now_ms() + 600_000)
        return str(self.producer.send(message).entries[0].recall_handle)

    def half(self) -> str:
        """Begin a transaction; give its id."""
        message = self.producer.message("TRANSACTION", message_type=MessageType.TRANSACTION)
        return str(self.producer.send(message).entries[0].transaction_id)


def code(answer: Any) -> int:
    """Give the code of an answer."""
    return int(answer.status.code)


def ended(stream: Any) -> Answer:
    """Give how a telemetry stream answers settings: by a code, or by the status of its end."""
    try:
        return code(stream.next())
    except grpc.RpcError as error:
        return str(error.code().name)


def settings(kind: int, **said: Any) -> Callable[[Stage], Answer]:
    """Send settings."""

    def act(stage: Stage) -> Answer:
        stream = stage.stranger.stream()
        stream.say_settings(kind, **said)
        try:
            return ended(stream)
        finally:
            stream.call.cancel()

    return act


def bare(name: str, raw: bytes = b"", service: str = SERVICE) -> Callable[[Stage], str]:
    """Send bytes to a method; give the status of gRPC."""

    def act(stage: Stage) -> str:
        ask = stage.producer.channel.unary_unary(f"/{service}/{name}")
        try:
            ask(raw, timeout=10, metadata=[*stage.producer.headers.items()])
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"

    return act


def with_times(name: str, seconds: int) -> Callable[[Stage], int]:
    """Send a message with a time that no clock has."""

    def act(stage: Stage) -> int:
        message = stage.producer.message("MIXED")
        getattr(message.system_properties, name).seconds = seconds
        return code(stage.producer.send(message))

    return act


def several(stage: Stage) -> int:
    """Send three messages; give how many entries the answer has."""
    return len(stage.producer.send(*(stage.producer.message("NORMAL") for _ in range(3))).entries)


def two_topics(stage: Stage) -> int:
    return code(stage.producer.send(*map(stage.producer.message, ("NORMAL", "MIXED"))))


def squeezed(stage: Stage) -> int:
    """Send a body that says it is compressed, and is not."""
    return stage.send(body_encoding=Encoding.GZIP)


def negative_hiding(stage: Stage) -> int:
    request = stage.consumer.receive_request("NORMAL", "G", invisible_ms=None)
    request.invisible_duration.seconds = -20
    return int(gathered(stage.consumer.call(Rpc.RECEIVE_MESSAGE, request))[0].code)


def negative_change(stage: Stage) -> int:
    return code(stage.consumer.change("NORMAL", "G", stage.handle(), -1000))


def without_deadline(stage: Stage) -> int:
    stage.send()
    return stage.receive(timeout=None, batch=1)


def of_a_stranger(stage: Stage) -> int:
    stage.send()
    return int(stage.stranger.receive("NORMAL", "G", batch=1)[0].code)


def short_deadline(version: str) -> Callable[[Stage], int]:
    def act(stage: Stage) -> int:
        client = stage.open(stage.consumer.client_id, x_mq_client_version=version)
        return int(client.receive("NORMAL", "G", timeout=0.9)[0].code)

    return act


def no_batch(stage: Stage) -> int:
    stage.send()
    return stage.receive(batch=0)


def seven_items(stage: Stage) -> str:
    return " ".join(stage.handle().split(" ")[:7])


def run_out(stage: Stage) -> str:
    """A handle whose time is over."""
    answer = stage.consumer.change("NORMAL", "G", stage.handle(), 1000)
    stage.wait(3)
    return str(answer.receipt_handle)


def changed(stage: Stage) -> str:
    """A handle that another one has replaced."""
    handle = stage.handle()
    assert code(stage.consumer.change("NORMAL", "G", handle, 30_000)) == 20000
    return handle


def acknowledged(stage: Stage) -> str:
    """A handle of what is done."""
    handle = stage.handle()
    assert code(stage.consumer.ack("NORMAL", "G", handle)) == 20000
    return handle


def of_nobody(stage: Stage) -> str:
    """A handle of a broker that does not exist."""
    items = stage.handle().split(" ")
    items[5] = "broker-z"
    return " ".join(items)


def without_place(stage: Stage) -> str:
    return " ".join(stage.handle().split(" ")[:8])


def garbage(_: Stage) -> str:
    return "garbage"


def ack(
    handle: Callable[[Stage], str], topic: str = "NORMAL", group: str = "G"
) -> Callable[[Stage], int]:
    return lambda stage: code(stage.consumer.ack(topic, group, handle(stage)))


def change(
    handle: Callable[[Stage], str], ms: int = 20_000, topic: str = "NORMAL", group: str = "G"
) -> Callable[[Stage], int]:
    return lambda stage: code(stage.consumer.change(topic, group, handle(stage), ms))


def forward(
    handle: Callable[[Stage], str], topic: str = "NORMAL", group: str = "G"
) -> Callable[[Stage], int]:
    return lambda stage: code(stage.consumer.forward(topic, group, handle(stage)))


def late_end(stage: Stage) -> int:
    """End a transaction when half a minute is over since its half message was sent."""
    transaction = stage.half()
    stage.wait(31)
    return code(stage.producer.end("TRANSACTION", transaction, COMMIT))


def ended_twice(stage: Stage) -> int:
    transaction = stage.half()
    assert code(stage.producer.end("TRANSACTION", transaction, COMMIT)) == 20000
    return code(stage.producer.end("TRANSACTION", transaction, COMMIT))


def recalled_twice(stage: Stage) -> int:
    handle = stage.timer()
    assert code(stage.producer.recall("DELAY", handle)) == 20000
    return code(stage.producer.recall("DELAY", handle))


@frozen
class Wrong:
    """A call, how we answer it, and how RocketMQ's proxy 5.3.3 does; None: alike."""

    act: Callable[[Stage], Answer]
    ours: Answer
    proxy: Answer | None = None

    @property
    def theirs(self) -> Answer:
        """What the proxy answers."""
        return self.ours if self.proxy is None else self.proxy


CALLS: dict[str, Wrong] = {
    "route: no client id": Wrong(lambda stage: code(stage.open("").route("NORMAL")), 40017),
    "route: blank topic": Wrong(lambda stage: code(stage.producer.route(" ")), 40002),
    "route: no topic": Wrong(
        lambda stage: code(
            stage.producer.call(Rpc.QUERY_ROUTE, stage.producer.request(Rpc.QUERY_ROUTE))
        ),
        40002,
    ),
    "route: 128 characters": Wrong(lambda stage: code(stage.producer.route("t" * 128)), 40002),
    "route: a blank": Wrong(lambda stage: code(stage.producer.route("a b")), 40002),
    "route: system topic": Wrong(lambda stage: code(stage.producer.route("rmq_sys_x")), 40002),
    "route: unknown topic": Wrong(lambda stage: code(stage.producer.route("Unknown")), 40402),
    "assignment: unknown topic": Wrong(
        lambda stage: code(stage.consumer.assignment("Unknown", "G")), 40402
    ),
    "assignment: unknown group": Wrong(
        lambda stage: code(stage.consumer.assignment("NORMAL", "U")), 20000
    ),
    "assignment: blank group": Wrong(
        lambda stage: code(stage.consumer.assignment("NORMAL", "")), 40003
    ),
    "assignment: system group": Wrong(
        lambda stage: code(stage.consumer.assignment("NORMAL", "CID_RMQ_SYS_x")), 40003
    ),
    "assignment: 256 characters": Wrong(
        lambda stage: code(stage.consumer.assignment("NORMAL", "g" * 256)), 40003
    ),
    "assignment: not readable": Wrong(
        lambda stage: code(stage.consumer.assignment("WriteOnly", "G")), 40300
    ),
    "send: no message": Wrong(lambda stage: code(stage.producer.send()), 40016),
    "send: two topics": Wrong(two_topics, 40016),
    "send: unknown topic": Wrong(lambda stage: stage.send("Unknown"), 40402, 40014),
    "send: blank topic": Wrong(lambda stage: stage.send(" "), 40002),
    "send: not writable": Wrong(lambda stage: stage.send("ReadOnly"), 40300),
    "send: empty body": Wrong(lambda stage: stage.send(body=b""), 41302),
    "send: body too long": Wrong(lambda stage: stage.send(body=bytes((4 << 20) + 1)), 41301),
    "send: 129 properties": Wrong(
        lambda stage: stage.send(properties={f"k{number}": "v" for number in range(129)}), 43101
    ),
    "send: properties too long": Wrong(
        lambda stage: stage.send(properties={"k": "v" * 16_384}), 43101
    ),
    "send: reserved property": Wrong(lambda stage: stage.send(properties={"TAGS": "x"}), 40007),
    "send: control character in a property": Wrong(
        lambda stage: stage.send(properties={"k": "a\x01"}), 40007
    ),
    "send: tag with |": Wrong(lambda stage: stage.send(tag="a|b"), 40004),
    "send: blank tag": Wrong(lambda stage: stage.send(tag=" "), 40004),
    "send: blank key": Wrong(lambda stage: stage.send(keys=[" "]), 40005),
    "send: group of 64 bytes": Wrong(
        lambda stage: stage.send("FIFO", message_group="g" * 64), 40006
    ),
    "send: blank group": Wrong(lambda stage: stage.send("FIFO", message_group=" "), 40006),
    "send: blank id": Wrong(lambda stage: stage.send(message_id=" "), 40009),
    "send: recovery after an hour": Wrong(
        lambda stage: stage.send(
            "TRANSACTION",
            message_type=MessageType.TRANSACTION,
            orphaned_transaction_recovery_duration=3_601_000,
        ),
        40000,
    ),
    "send: a delay of more than a day": Wrong(
        lambda stage: stage.send("DELAY", delivery_timestamp=stage.now_ms() + DAY_MS + 60_000),
        40012,
    ),
    "send: a delay beyond timerMaxDelaySec": Wrong(
        lambda stage: stage.send("DELAY", delivery_timestamp=stage.now_ms() + 7_200_000),
        40012,
        50001,
    ),
    "send: a timer to a NORMAL topic": Wrong(
        lambda stage: stage.send(delivery_timestamp=stage.now_ms() + 60_000), 40014
    ),
    "send: a group to a NORMAL topic": Wrong(lambda stage: stage.send(message_group="g"), 40014),
    "send: no group to a FIFO topic": Wrong(lambda stage: stage.send("FIFO"), 40014),
    "send: type FIFO without group": Wrong(
        lambda stage: stage.send(message_type=MessageType.FIFO), 20000
    ),
    "send: type LITE": Wrong(lambda stage: stage.send(message_type=MessageType.LITE), 40014, 20000),
    "send: type PRIORITY": Wrong(
        lambda stage: stage.send(message_type=MessageType.PRIORITY), 40014, 20000
    ),
    "send: priority": Wrong(lambda stage: stage.send(priority=3), 40014, 20000),
    "send: lite topic": Wrong(lambda stage: stage.send(lite_topic="L"), 40014, 20000),
    "send: unknown type": Wrong(lambda stage: stage.send(message_type=99), 20000),
    "send: GZIP that is none": Wrong(squeezed, 40016, 20000),
    "send: born before 1970": Wrong(with_times("born_timestamp", -5), 40000, 20000),
    "send: to be delivered before 1970": Wrong(with_times("delivery_timestamp", -5), 40000, 20000),
    "send: a time after the year 9999": Wrong(
        with_times("delivery_timestamp", 300_000_000_000), 40000, 50001
    ),
    "send: three messages, entries": Wrong(several, 3, 1),
    "receive: blank group": Wrong(lambda stage: stage.receive(group=""), 40003),
    "receive: unknown group": Wrong(lambda stage: stage.receive(group="U"), 40403),
    "receive: unknown topic": Wrong(lambda stage: stage.receive("Unknown"), 40402),
    "receive: not readable": Wrong(lambda stage: stage.receive("WriteOnly"), 40300),
    "receive: hidden for 9,999 ms": Wrong(lambda stage: stage.receive(invisible_ms=9_999), 40011),
    "receive: hidden for more than 12 h": Wrong(
        lambda stage: stage.receive(invisible_ms=12 * 3_600_000 + 1), 40011
    ),
    "receive: hidden for less than nothing": Wrong(negative_hiding, 40000, 40011),
    "receive: SQL that is none": Wrong(
        lambda stage: stage.receive(kind=2, expression="a >"), 40010, 50001
    ),
    "receive: batch of 0": Wrong(no_batch, 20000, 40401),
    "receive: 0.9 s left, client 5.0.3": Wrong(short_deadline("5.0.3"), 40018),
    "receive: 0.9 s left, client 5.0.2": Wrong(short_deadline("5.0.2"), 40000),
    "receive: no deadline": Wrong(without_deadline, 20000, 50001),
    "receive: no settings were sent": Wrong(of_a_stranger, 20000, 50001),
    "receive: nothing there": Wrong(lambda stage: stage.receive("Empty"), 40401),
    "ack: no entries": Wrong(lambda stage: code(stage.consumer.ack("NORMAL", "G")), 40000, 50001),
    "ack: garbage": Wrong(ack(garbage), 40013, 50001),
    "ack: seven items": Wrong(ack(seven_items), 40013, 50001),
    "ack: run out": Wrong(ack(run_out), 40013),
    "ack: replaced by a change": Wrong(ack(changed), 40013, 20000),
    "ack: acknowledged before": Wrong(ack(acknowledged), 40013, 20000),
    "ack: another group": Wrong(ack(Stage.handle, group="Other"), 40013, 20000),
    "ack: another topic": Wrong(ack(Stage.handle, topic="MIXED"), 40013, 50001),
    "ack: another broker": Wrong(ack(of_nobody), 40013),
    "ack: blank group": Wrong(ack(garbage, group=""), 40003),
    "change: garbage": Wrong(change(garbage), 40013, 50001),
    "change: run out": Wrong(change(run_out), 40013),
    "change: replaced by a change": Wrong(change(changed), 40013, 20000),
    "change: less than nothing": Wrong(negative_change, 40000, 40011),
    "change: more than 12 h": Wrong(change(Stage.handle, 12 * 3_600_000 + 1), 40011),
    "change: another group": Wrong(change(Stage.handle, group="Other"), 40013, 20000),
    "forward: garbage": Wrong(forward(garbage), 40013, 50001),
    "forward: run out": Wrong(forward(run_out), 40013, 20000),
    "forward: no place in the log": Wrong(forward(without_place), 40013),
    "forward: another group": Wrong(forward(Stage.handle, group="Other"), 40013, 20000),
    "end: blank id": Wrong(
        lambda stage: code(stage.producer.end("TRANSACTION", " ", COMMIT)), 40008
    ),
    "end: unknown id": Wrong(
        lambda stage: code(stage.producer.end("TRANSACTION", "none", COMMIT)), 50001
    ),
    "end: after half a minute": Wrong(late_end, 20000, 50001),
    "end: twice": Wrong(ended_twice, 50001),
    "recall: garbage": Wrong(
        lambda stage: code(stage.producer.recall("DELAY", "garbage")), 40000, 50001
    ),
    "recall: blank": Wrong(lambda stage: code(stage.producer.recall("DELAY", "")), 40000, 50001),
    "recall: NORMAL topic": Wrong(
        lambda stage: code(stage.producer.recall("NORMAL", stage.timer())), 40014
    ),
    "recall: unknown topic": Wrong(
        lambda stage: code(stage.producer.recall("Unknown", stage.timer())), 40402, 40014
    ),
    "recall: twice": Wrong(recalled_twice, 20000),
    "heartbeat: no settings were sent": Wrong(
        lambda stage: code(stage.stranger.heartbeat()), 40015
    ),
    "heartbeat: illegal group": Wrong(
        lambda stage: code(stage.consumer.heartbeat("a b", ClientType.SIMPLE_CONSUMER)), 40003
    ),
    "leave: no settings were sent": Wrong(lambda stage: code(stage.stranger.leave()), 40015),
    "settings: neither publishing nor subscription": Wrong(
        settings(1, without=True), "INVALID_ARGUMENT"
    ),
    "settings: blank topic": Wrong(settings(1, topics=(" ",)), "INVALID_ARGUMENT"),
    "settings: blank group": Wrong(settings(3, group="", topics=("NORMAL",)), "INVALID_ARGUMENT"),
    "settings: LITE_PUSH_CONSUMER": Wrong(
        settings(5, group="G", topics=("NORMAL",)), "INVALID_ARGUMENT", "INTERNAL"
    ),
    "settings: no client type": Wrong(
        settings(0, group="G", topics=("NORMAL",)), "INVALID_ARGUMENT", "INTERNAL"
    ),
    "no protobuf": Wrong(bare("QueryRoute", b"\xff\xff\xff"), "INTERNAL", "UNKNOWN"),
    "PullMessage": Wrong(bare("PullMessage"), "UNIMPLEMENTED"),
    "UpdateOffset": Wrong(bare("UpdateOffset"), "UNIMPLEMENTED"),
    "GetOffset": Wrong(bare("GetOffset"), "UNIMPLEMENTED"),
    "QueryOffset": Wrong(bare("QueryOffset"), "UNIMPLEMENTED"),
    "SyncLiteSubscription": Wrong(bare("SyncLiteSubscription"), "UNIMPLEMENTED"),
    "Admin.ChangeLogLevel": Wrong(
        bare("ChangeLogLevel", service="apache.rocketmq.v2.Admin"), "UNIMPLEMENTED"
    ),
}
