"""A store on a tmpfs that fills up: errors that name the file, never a signal, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.small_disk import run_on_small_disk

_FILL_UNDER_LOAD = """
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.errors import MQBrokerException

clock = VirtualClock()
with EmbeddedBroker(
    store=STORE, tcp=False, topics=["T"], clock=clock, engine=sys.argv[2]
) as broker:
    fill(keep=1 << 20)
    stored = refused = 0
    while refused < 200:
        number = stored + refused
        delay = number % 500 * 7.5 if number % 2 else None
        try:
            broker.send("T", bytes(2000), keys=f"key{number}", delay=delay)
            stored += 1
        except MQBrokerException as error:
            refused += 1
            reason = str(error)
        if number % 50 == 0:
            flush(broker)  # index, wheel and check points meet the full disk too
    tell(stored=stored, reason=reason)
    free()
    tell(by_key=[len(broker.messages.by_key("T", f"key{number}")) for number in range(0, 100, 2)])
    broker.send("T", b"there is room again")
    clock.advance(4000)
    broker.wait_delivered("T", stored + 1, timeout=20)  # an engine tries again after a while
    tell(readable=len(broker.messages.in_topic("T")))
"""

_DRAIN = """
import subprocess
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.errors import MQBrokerException

def new_broker():
    return EmbeddedBroker(store=STORE, tcp=False, engine=sys.argv[2], clock=VirtualClock())

def count(broker):
    return len(broker.messages.in_topic("T"))

if "before" in sys.argv:
    broker = new_broker().start()
    broker.topics.create("T")
    if "killed" in sys.argv:
        fill(keep=600_000)
    number = refused = 0
    while number < 200 or ("killed" in sys.argv and refused < 30):
        number += 1
        try:
            broker.send("T", bytes(2000), delay=number % 50 * 7.5 + 1 if number % 2 else None)
        except MQBrokerException:
            refused += 1
        if number % 20 == 0:
            flush(broker)
    tell(visible=count(broker), waiting=broker.timers.count())
    sys.stdout.flush()
    if "killed" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    broker.close()
    sys.exit()

subprocess.run([sys.executable, *sys.argv, "before"])
fill()
with new_broker() as broker:
    tell(problems=broker.recovery.problems, drained=count(broker), still=broker.timers.count())
    sent, reasons = 0, []
    while len(reasons) < 60 and sent < 5000:  # they fit for a while in pages that are there already
        try:
            broker.send("T", bytes(200))
            sent += 1
        except MQBrokerException as error:
            reasons.append((error.response_code, str(error)))
    tell(sent=sent, codes=sorted({one for one, _ in reasons}), reason=reasons[-1][1])
    parts = broker._parts()
    with parts.door:
        try:
            parts.tables.groups.find("G")
            parts.administration.offsets.commit("G", "T", 0, 5)
        except Exception as error:
            tell(commit=str(error))
        tell(committed=parts.tables.offsets.query("G", "T", 0))
    free()
    broker.wait_for(lambda _: parts.store.health.problem is None, timeout=20)
    broker.send("T", b"there is room again")
with new_broker() as broker:
    broker.clock.advance(4000)
    tell(all=count(broker), clean=broker.recovery.clean)
    with broker._parts().door:
        tell(committed_later=broker._parts().tables.offsets.query("G", "T", 0))
"""


_READ_WHILE_FULL = """
from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.errors import StoreError

with EmbeddedBroker(store=STORE, tcp=False, clock=VirtualClock(), engine=sys.argv[2]) as broker:
    broker.topics.create("T")
    for number in range(50):
        broker.send("T", bytes(100), keys=f"key{number}", delay=number if number % 2 else None)
    fill()

    def ask(number):
        try:
            return len(broker.messages.by_key("T", f"key{number}"))
        except StoreError as error:  # its entry finds no room in the index
            tell(said=str(error))
            return 0

    tell(found=[ask(number) for number in range(0, 50, 2)])
    tell(waiting=broker.timers.count(), visible=len(broker.messages.in_topic("T")))
    free()
    tell(found_later=[ask(number) for number in range(0, 50, 2)])
"""


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_what_is_read_while_the_disk_is_full_ends_no_process(tmp_path: Path, engine: str) -> None:
    told = run_on_small_disk(tmp_path / "disk", _READ_WHILE_FULL, engine)
    assert (told["waiting"], told["visible"]) == (25, 25)
    if told["found"] != [1] * 25:
        assert "index/" in told["said"]
        assert "No space left" in told["said"]
    assert told["found_later"] == [1] * 25


_RECALL = """
from datetime import timedelta
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.errors import MQBrokerException

def opened():
    return EmbeddedBroker(store=STORE, engine=sys.argv[2], clock=VirtualClock(), topics=["T"])

def producer_of(broker):
    return DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr)

with opened() as broker, producer_of(broker) as producer:
    handles = [
        producer.send(Message("T", bytes(2000), delay=timedelta(hours=1))).recall_handle
        for _ in range(4)
    ]
fill()
with opened() as broker, producer_of(broker) as producer:
    for handle in handles:
        try:
            producer.recall_message("T", handle)
        except MQBrokerException as error:
            tell(code=error.response_code, reason=str(error))
    tell(waiting=broker.timers.count())
    free()
    broker.wait_for(lambda _: broker._parts().store.health.problem is None, timeout=20)
    producer.recall_message("T", handles[0])
    broker.clock.advance(7200)
    tell(delivered=len(broker.messages.in_topic("T")))
"""


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_a_recall_that_cannot_be_kept_is_refused_with_what_to_free(
    tmp_path: Path, engine: str
) -> None:
    told = run_on_small_disk(tmp_path / "disk", _RECALL, engine)
    assert told["code"] == 14
    assert "remove other files there" in told["reason"]
    assert told["waiting"] == 4
    assert told["delivered"] == 3


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_a_disk_that_fills_up_refuses_with_file_and_size_and_loses_nothing(
    tmp_path: Path, engine: str
) -> None:
    told = run_on_small_disk(tmp_path / "disk", _FILL_UNDER_LOAD, engine)
    assert told["stored"] > 100
    for words in ("commitlog/00000000000000000000: cannot write", "bytes are free", "No space"):
        assert words in told["reason"]
    assert told["by_key"] == [1] * 50
    assert told["readable"] == told["stored"] + 1


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_a_store_on_a_full_disk_opens_to_be_drained_and_accepts_when_there_is_room(
    tmp_path: Path, engine: str, end: str
) -> None:
    told = run_on_small_disk(tmp_path / "disk", _DRAIN, engine, end)
    assert (told["drained"], told["still"]) == (told["visible"], told["waiting"])
    assert "No space left" in told["reason"]
    assert "remove other files there, or let messages go sooner" in told["reason"]
    if end == "closed":
        assert (told["sent"], told["codes"]) == (0, [14])
        assert "nothing is stored until there is room" in told["problems"][0]
    assert told["committed"] == told["committed_later"] == 5
    assert told["all"] == told["visible"] + told["waiting"] + told["sent"] + 1
    assert told["clean"]
