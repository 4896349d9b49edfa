"""Pending timers of a running 5.3.3 broker, read by Spark's source from its timer topic alone.

The broker is told to roll a timer after 20 seconds, so that one is rolled while the test looks.
What the source finds is what the inspector finds in the broker's own files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py import (
    Credentials,
    DefaultMQProducer,
    Message,
    MessageQueue,
    MQBrokerException,
    PermissionDeniedError,
    QueueAccess,
    SystemClock,
)
from spark_connector.decoding.timer_columns import TIMER_COLUMNS
from spark_connector.options.timer_options import TIMER_TOPIC
from spark_connector.servers.access import close_all
from tests.interop.real_broker import RealCluster, real_cluster
from tests.interop.test_security import REAL, SECRET, account_for
from tests.unit.spark_connector.reading.timer_reads import read
from tests.waiting import HANG_S, until

CLOCK = SystemClock()
TOPIC = "WaitsOnReal"
BROKER = "broker-a"
WINDOW_S = 20
FAR_MS = 600_000


@pytest.fixture(autouse=True)
def no_connection_is_left() -> Iterator[None]:
    """Close what the source keeps for its next task."""
    yield
    close_all()


def send(producer: DefaultMQProducer, name: str, delay_ms: int) -> tuple[str, str]:
    """Send a timer; gives its id and its recall handle."""
    message = Message(TOPIC, name.encode() * 100, keys=f"{name} all", tags="red")
    sent = producer.send(message.set_deliver_time_ms(CLOCK.now_ms + delay_ms))
    assert sent.recall_handle is not None
    return sent.msg_id, sent.recall_handle


def rows_of(real: RealCluster, *, files: bool, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of both ways, in one order, their times counted from one moment."""
    there: dict[str, Any] = {"nameServer": real.namesrv_addr}
    if files:
        there = {"storeDirectory": real.store, "brokerName": BROKER}
    rows = read(*columns, **there, asOf=CLOCK.now_ms)
    return sorted(rows, key=lambda row: (row["due_at"], row["message_id"]))


@pytest.mark.smoke
def test_a_real_brokers_timer_topic_tells_what_its_files_tell(tmp_path: Path) -> None:
    settings = {"timerRollWindowSlot": str(WINDOW_S)}
    columns = tuple(one for one in TIMER_COLUMNS if one not in {"age_ms", "lateness_ms"})
    with real_cluster(tmp_path, settings=settings) as real:
        timers = MessageQueue(TIMER_TOPIC, BROKER, 0)
        with (
            DefaultMQProducer("P_waits", namesrv_addr=real.namesrv_addr) as producer,
            QueueAccess(namesrv_addr=real.namesrv_addr) as access,
        ):
            far = [send(producer, f"far{number}", FAR_MS + number) for number in range(4)]
            taken, handle = far.pop()
            producer.recall_message(TOPIC, handle)
            gone, _ = send(producer, "gone", 2_000)
            access.read_queues(TIMER_TOPIC)
            # Five timers and a mark; then copies of the four, and of the mark.
            until(lambda: access.max_offset(timers) >= 6 + 5, HANG_S)
            near = [send(producer, f"near{number}", 15_000 + number) for number in range(3)]
            back, handle = near.pop()
            producer.recall_message(TOPIC, handle)
            expected = {one for one, _ in far + near}
            seen: list[list[dict[str, Any]]] = []

            def is_alike() -> bool:
                seen[:] = [rows_of(real, files=one, columns=columns) for one in (False, True)]
                return seen[0] == seen[1] and {one["message_id"] for one in seen[0]} == expected

            until(is_alike, 10.0)
            rows = seen[0]
    assert not {taken, gone, back} & {one["message_id"] for one in rows}
    assert [(one["hops"] > 0) for one in rows] == [False, False, True, True, True]
    assert [one["keys"] for one in rows] == [
        f"{name} all" for name in ("near0", "near1", "far0", "far1", "far2")
    ]
    assert {one["recall_handle"] for one in rows} == {handle for _, handle in far + near}
    assert {(one["topic"], one["tags"]) for one in rows} == {(TOPIC, "red")}
    assert bytes(rows[-1]["body"]) == b"far2" * 100


def test_under_access_control_a_right_to_the_topic_is_enough(tmp_path: Path) -> None:
    topic, name = "OursTimers", "reads-timers"
    with real_cluster(tmp_path, settings=REAL) as real:
        there: dict[str, Any] = {"nameServer": real.namesrv_addr, "groupId": "Ours"}
        there |= {"accessKey": name, "secretKey": SECRET}
        own = Credentials(name, SECRET)

        def topics() -> list[dict[str, Any]]:
            try:
                return read("topic", **there)
            except MQBrokerException as error:  # it has no figures in its first second
                if "NoSuchElementException" not in str(error):
                    raise
                return []

        with (
            account_for(real.broker_addr, topic, name, f"Topic:{TIMER_TOPIC}"),
            DefaultMQProducer("P", namesrv_addr=real.namesrv_addr, credentials=own) as producer,
        ):
            producer.send(Message(topic, b"later").set_delay_time_ms(FAR_MS))
            until(lambda: topics() == [{"topic": topic}], HANG_S)
        with (
            account_for(real.broker_addr, topic, name),
            pytest.raises(PermissionDeniedError, match=f"Topic:{TIMER_TOPIC}"),
        ):
            read("topic", **there)
