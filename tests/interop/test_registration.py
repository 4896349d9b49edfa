"""A real broker that compresses its registration is known to our name server."""

from __future__ import annotations

from pathlib import Path

from embedded_broker import EmbeddedBroker
from embedded_broker.kit.process import servers
from embedded_broker.kit.real import wait_until
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.protocol.bodies.topics import TopicRouteData
from rocketmq_py.protocol.codes import RequestCode
from tests.interop.java_tools import CACHE
from tests.unit.embedded_broker.wire_peer import WirePeer
from tests.waiting import HANG_S

SETTINGS = {"compressedRegister": "true", "brokerName": "real"}


def test_a_broker_of_4_9_registers_compressed(tmp_path: Path) -> None:
    """One of 5.3.3 compresses, too, but says in its header that it does not: nobody reads that."""
    with (
        EmbeddedBroker() as ours,
        servers(
            tmp_path,
            "4.9.7",
            settings=SETTINGS,
            cache=CACHE,
            beside=ours.namesrv_addr,
            politely=False,
        ) as real,
        WirePeer(ours.namesrv_addr) as names,
    ):
        with WirePeer(real.broker_addr) as peer:
            peer.create_topic("Theirs", queues=3)

        def queues() -> list[tuple[str, int]]:
            answer = names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Theirs"})
            found = TopicRouteData.decode(answer.body).queue_datas if answer.body else []
            return [(one.broker_name, one.write_queue_nums) for one in found]

        wait_until(lambda: queues() == [("real", 3)], "its topic has a route", timeout=HANG_S)
        registrations = ours.journal.requests(code=RequestCode.REGISTER_BROKER)
        assert {one.fields["compressed"] for one in registrations} == {"true"}
        with DefaultMQProducer("P", namesrv_addr=ours.namesrv_addr) as producer:
            sent = producer.send(Message("Theirs", b"x"))
        assert sent.message_queue.broker_name == "real"
