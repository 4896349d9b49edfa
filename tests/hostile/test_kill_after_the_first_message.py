"""A broker is killed right after the first message of a new topic: topic and message are there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode
from rocketmq_py.protocol.json_text import loads
from rocketmq_py.protocol.names import retry_topic
from tests.hostile.killed_broker import GROUP, PROPERTIES, TOPIC
from tests.unit.embedded_broker.wire_peer import WirePeer, bodies, pull_fields

GUARD_S = 60


def kill_one(folder: Path, kind: str) -> dict[str, Any]:
    """Let a broker die in another process; give what it answered."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.hostile.killed_broker", str(folder), kind],
        capture_output=True,
        timeout=GUARD_S,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert child.returncode == -9, child.stderr.decode()
    told: dict[str, Any] = loads(child.stdout)
    assert told.pop("code") == 0
    return told


def pulled(peer: WirePeer, topic: str, queue_id: int) -> list[bytes]:
    """What a group gets of a queue that may be empty."""
    flags = str(int(PullSysFlag.SUBSCRIPTION))
    fields = pull_fields(topic, queueId=str(queue_id), sysFlag=flags)
    answer = peer.ask(RequestCode.PULL_MESSAGE, fields)
    assert answer.code in {0, 19, 21}, answer.remark
    return bodies(answer) if answer.code == 0 else []


@pytest.mark.parametrize("kind", PROPERTIES)
def test_topic_and_message_survive(tmp_path: Path, kind: str) -> None:
    told = kill_one(tmp_path, kind)
    with (
        EmbeddedBroker(store=tmp_path, clock=VirtualClock()) as broker,
        WirePeer(broker.addr) as peer,
    ):
        with broker._parts().door:
            topic = broker._parts().tables.topics.get(TOPIC)
        assert topic is not None
        assert topic.read_queue_nums == topic.write_queue_nums >= 4
        assert broker.recovery is not None
        assert f"topic {TOPIC} was in no file" in "\n".join(broker.recovery.problems)
        if kind == "half":
            ending = {
                "producerGroup": "producers",
                "tranStateTableOffset": told["queueOffset"],
                "commitLogOffset": str(int(told["msgId"][16:], 16)),
                "commitOrRollback": "8",
                "msgId": "ID0001",
            }
            assert peer.ask(RequestCode.END_TRANSACTION, ending).code == 0
        broker.clock.advance(60)

        expected = [b"first", b"second"] if kind == "batch" else [b"first"]
        assert pulled(peer, TOPIC, 2) == expected
        if kind == "send back":
            assert pulled(peer, retry_topic(GROUP), 0) == [b"first"]


def test_a_store_without_its_topics_file_says_so_and_has_its_topics(tmp_path: Path) -> None:
    with EmbeddedBroker(store=tmp_path, clock=VirtualClock(), topics=["Plain", "Later"]) as broker:
        broker.send("Plain", b"one", queue=3)
        broker.send("Later", b"two", queue=1, delay_level=18)
    for file in (tmp_path / "config").glob("topics.json*"):
        file.unlink()

    with EmbeddedBroker(store=tmp_path, clock=VirtualClock()) as broker:
        assert broker.recovery is not None
        said = "\n".join(broker.recovery.problems)
        assert "config/topics.json is missing" in said
        assert "topic Plain was in no file" in said
        assert "topic Later was in no file" in said
        assert {"Plain", "Later"} <= set(broker.topics.names())


def test_a_new_store_has_nothing_to_say(tmp_path: Path) -> None:
    for _ in range(2):
        with EmbeddedBroker(store=tmp_path, clock=VirtualClock()) as broker:
            assert broker.recovery is not None
            assert broker.recovery.problems == ()
