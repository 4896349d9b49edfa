"""A store with hidden messages goes from a real 5.3.3 broker to ours, and the other way round.

What was popped and not acked comes back once, what was acked does not, whoever goes on: both keep
check points and acks in the same topic in the same form.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import SystemClock
from rocketmq_py.protocol.message_codec import MessageRecord
from tests.interop.real_broker import real_cluster
from tests.interop.test_store_exchange import SIZES
from tests.unit.embedded_broker.remoting.handlers.pop.pop_requests import (
    ack,
    handle,
    hide_longer,
    pop,
    records,
)
from tests.unit.embedded_broker.wire_peer import WirePeer
from tests.waiting import until

CLOCK = SystemClock()
HIDDEN = {b"m2", b"m3", b"m4", b"m5"}
GUARD_MS = 90_000


def pop_some(address: str, invisible_ms: int) -> None:
    """Pop six messages; ack two of them, and let one be hidden for a second more."""
    with WirePeer(address) as peer:
        peer.create_topic("T", 1)
        for number in range(6):
            assert peer.send("T", b"m%d" % number).code == 0
        answer = pop(peer, invisibleTime=str(invisible_ms), queueId="0")
        assert len(records(answer)) == 6
        for offset in (0, 1):
            assert ack(peer, handle(answer, offset), offset).code == 0
        later = {"invisibleTime": str(invisible_ms + 1000)}
        assert hide_longer(peer, handle(answer, 2), 2, **later).code == 0


def has_saved_the_group(store: Path) -> bool:
    """Whether the offset of the group is in its file: a real broker writes that now and then."""
    file = store / "config" / "consumerOffset.json"
    return file.exists() and '"T@G":{0:6' in file.read_text(encoding="utf-8")


def come_back(address: str) -> list[MessageRecord]:
    """Pop until all are there that were not acked."""
    found: list[MessageRecord] = []
    end_ms = CLOCK.now_ms + GUARD_MS
    with WirePeer(address) as peer:
        while not {one.body for one in found} >= HIDDEN and CLOCK.now_ms < end_ms:
            answer = pop(peer, queueId="0", pollTime="1000", bornTime=str(CLOCK.now_ms))
            found += records(answer) if answer.code == 0 else []
        answer = pop(peer, queueId="0")
        found += records(answer) if answer.code == 0 else []
    return found


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_what_a_real_broker_has_hidden_comes_back_on_ours(tmp_path: Path, end: str) -> None:
    with real_cluster(tmp_path) as real:
        pop_some(real.broker_addr, 60_000)
        until(lambda: has_saved_the_group(real.store), 30)
        if end == "killed":
            os.kill(real.broker_pid, signal.SIGKILL)
    clock = VirtualClock()
    with EmbeddedBroker(store=real.store, clock=clock) as broker, WirePeer(broker.addr) as peer:
        assert pop(peer).code == 210
        clock.advance(70)
        back = records(pop(peer))
    assert Counter(one.body for one in back) == dict.fromkeys(HIDDEN, 1)
    assert {(one.topic, one.reconsume_times) for one in back} == {("T", 1)}


def test_what_ours_has_hidden_comes_back_on_a_real_broker(tmp_path: Path) -> None:
    with EmbeddedBroker(store=tmp_path / "store", config=SIZES) as broker:
        pop_some(broker.addr, 15_000)
    with real_cluster(tmp_path) as real:
        back = come_back(real.broker_addr)
    assert Counter(one.body for one in back) == dict.fromkeys(HIDDEN, 1)
    assert {(one.topic, one.reconsume_times) for one in back} == {("T", 1)}
