"""BatchCQ topics with a real 5.3.3 broker and its Java client: one store, the same answers.

A store goes from a real broker to ours and back, with batches and single messages sent to each;
whoever has it answers pulls alike. A Java client sends batches to our broker and takes them apart.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.kit.real import wait_until
from rocketmq_py import MessageQueue, QueueAccess
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.protocol.properties import encode_properties
from tests.interop.java_tools import client_program
from tests.interop.real_broker import real_cluster
from tests.interop.test_store_exchange import SIZES
from tests.unit.embedded_broker.wire_peer import WirePeer, properties_text, records
from tests.waiting import HANG_S

TOPIC = "Batches"
FILES = {"mapperFileSizeBatchConsumeQueue": 8 * 46}
SENT = (3, 1, 2, 40, 1, 1, 5, 2, 1, 4)
"""Messages of each send: one is sent alone, several are a batch."""
TOTAL = sum(SENT)


def create(peer: WirePeer) -> None:
    peer.create_topic(TOPIC, attributes="+queue.type=BatchCQ")


def fill(peer: WirePeer, first: int) -> None:
    """Send what `SENT` says; the messages are numbered from `first` on."""
    for size in SENT:
        items = [
            (0, b"%d" % number, encode_properties({"UNIQ_KEY": f"U{number}"}))
            for number in range(first, first + size)
        ]
        outer = properties_text({"UNIQ_KEY": f"B{first}", "TAGS": f"T{size}", "WAIT": "true"})
        if size == 1:
            answer = peer.send(TOPIC, items[0][1], {"UNIQ_KEY": f"U{first}", "TAGS": "T1"})
        else:
            code, body = RequestCode.SEND_BATCH_MESSAGE, encode_batch(items)
            answer = peer.send(TOPIC, body, code=code, i=outer, m="true")
        assert (answer.code, answer.ext_fields["queueOffset"]) == (0, str(first))
        assert answer.ext_fields.get("batchUniqId") == (None if size == 1 else f"B{first}")
        first += size


def pulls(peer: WirePeer, until: int) -> list[object]:
    """What is answered to pulls from each offset, of few and of many, of one tag and of all."""
    found: list[object] = []
    for offset in range(until + 2):
        for most, tags in (("1", "*"), ("32", "*"), ("32", "T2"), ("32", "none")):
            answer = peer.pull(TOPIC, offset, maxMsgNums=most, subscription=tags)
            bounds = [
                answer.ext_fields[one] for one in ("nextBeginOffset", "minOffset", "maxOffset")
            ]
            given = records(answer) if answer.body else []
            stored = [(one.queue_offset, one.sys_flag, one.body) for one in given]
            found.append((offset, most, tags, answer.code, answer.remark, bounds, stored))
    return found


def wait_for(peer: WirePeer, count: int) -> None:
    """Return when a real broker has dispatched so many messages to the queue."""
    place = {"topic": TOPIC, "queueId": "0"}

    def has_all() -> bool:
        return peer.ask(RequestCode.GET_MAX_OFFSET, place).ext_fields["offset"] == str(count)

    wait_until(has_all, f"{count} messages are dispatched", timeout=HANG_S)


def queue_files(store: Path) -> dict[str, bytes]:
    folder = store / "batchconsumequeue" / TOPIC / "0"
    return {one.name: one.read_bytes() for one in folder.iterdir()}


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_store_goes_to_our_broker_and_back(tmp_path: Path, end: str) -> None:
    settings = {name: str(value) for name, value in FILES.items()}
    with real_cluster(tmp_path, settings=settings) as real:
        with WirePeer(real.broker_addr) as peer:
            create(peer)
            fill(peer, 0)
            wait_for(peer, TOTAL)
            theirs = pulls(peer, TOTAL)
        if end == "killed":
            os.kill(real.broker_pid, signal.SIGKILL)
            real.broker.end(politely=False)
    before = queue_files(real.store)

    with EmbeddedBroker(store=real.store, config=FILES) as broker:
        assert broker.recovery.records_read > 0
        assert queue_files(real.store) == before
        with WirePeer(broker.addr) as peer:
            assert pulls(peer, TOTAL) == theirs
            fill(peer, TOTAL)
            ours = pulls(peer, 2 * TOTAL)
        offsets = [one.offset for one in broker.messages.in_topic(TOPIC)]
        assert offsets == list(range(2 * TOTAL))
        if end == "killed":
            broker.crash()

    with real_cluster(tmp_path, settings=settings) as again, WirePeer(again.broker_addr) as peer:
        wait_for(peer, 2 * TOTAL)
        assert pulls(peer, 2 * TOTAL) == ours
        fill(peer, 2 * TOTAL)


def test_a_real_broker_opens_a_store_that_ours_began(tmp_path: Path) -> None:
    began = EmbeddedBroker(store=tmp_path / "store", config=FILES | SIZES)
    with began as broker, WirePeer(broker.addr) as peer:
        create(peer)
        fill(peer, 0)
        ours = pulls(peer, TOTAL)
    settings = {name: str(value) for name, value in FILES.items()}
    with real_cluster(tmp_path, settings=settings) as real, WirePeer(real.broker_addr) as peer:
        wait_for(peer, TOTAL)
        assert pulls(peer, TOTAL) == ours


def test_a_java_client_sends_batches_and_takes_them_apart() -> None:
    with EmbeddedBroker() as broker:
        broker.topics.create(TOPIC, queues=1, queue_type="BatchCQ")
        namesrv = broker.namesrv_addr
        with client_program("5.3.3", "BatchSend", namesrv, TOPIC, "3", "1", "2") as sender:
            assert sender.finish(HANG_S) == 0, sender.lines
        with client_program(
            "5.3.3", "TimerReceive", namesrv, TOPIC, "6", str(HANG_S), "BatchGroup"
        ) as receiver:
            assert receiver.finish(HANG_S) == 0, receiver.lines
        queue = MessageQueue(TOPIC, broker.broker_name, 0)
        with QueueAccess(namesrv_addr=namesrv) as access:
            records_there = access.pull(queue, 0).result(10).records
    sent = sender.table("SENT")
    assert [(size, offset, status) for size, _, offset, status in sent] == [
        ("3", "0", "SEND_OK"),
        ("1", "3", "SEND_OK"),
        ("2", "4", "SEND_OK"),
    ]
    received = sorted((keys, body) for keys, _, _, body, _ in receiver.table("RECEIVED"))
    assert received == [(f"key{number}", f"body {number}") for number in range(6)]
    assert records_there.count(b"INNER_NUM") == 2
