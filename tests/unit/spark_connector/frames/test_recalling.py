"""Delayed messages are taken back by their handles, each with what the broker said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import NameServerUnavailableError, QueueAccess, RecallHandle
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.frames.recalling import Recaller
from spark_connector.options.write_options import write_options


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), topics=["T"]) as started:
        yield started


def recaller(broker: EmbeddedBroker, **given: object) -> Recaller:
    texts = {"nameServer": broker.namesrv_addr} | {key: str(one) for key, one in given.items()}
    return Recaller(write_options(texts, streaming=False))


def handles(broker: EmbeddedBroker, count: int) -> list[str]:
    """Send messages with a delay of a minute and give what is needed to take them back."""
    found = []
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        queue = access.write_queues("T")[0]
        for number in range(count):
            text = f"UNIQ_KEY\x01{number:032X}\x02TIMER_DELAY_MS\x0160000\x02"
            sent = access.send(queue, b"%d" % number, properties=text).result(30)
            found.append(str(sent.recall_handle))
    return found


def statuses(rows: list[dict[str, str | None]]) -> list[str | None]:
    return [row["status"] for row in rows]


def test_more_messages_than_may_be_in_flight_are_taken_back(broker: EmbeddedBroker) -> None:
    given = handles(broker, 20)
    rows = recaller(broker, maxInFlight=3).take_back(["T"] * 15, given[:15]).to_pylist()
    assert statuses(rows) == ["RECALLED"] * 15
    assert [row["message_id"] for row in rows] == [
        RecallHandle.decode(one).uniq_key for one in given[:15]
    ]
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(61)
    assert sorted(one.body for one in broker.messages.in_topic("T")) == [
        *(b"15", b"16", b"17", b"18", b"19")
    ]


def test_each_row_is_told_what_is_wrong_with_it(broker: EmbeddedBroker) -> None:
    (good,) = handles(broker, 1)
    late = RecallHandle("T", "broker-a", broker.clock.now_ms - 1, "A" * 32).encode()
    away = RecallHandle("T", "broker-z", broker.clock.now_ms + 9_000, "B" * 32).encode()
    found = recaller(broker, sendRetries=0).take_back(
        [None, "U", None, None, None, None], [good, good, late, "no handle", None, away]
    )
    rows = found.to_pylist()
    assert statuses(rows) == ["RECALLED", "REFUSED", "TOO_LATE", "REFUSED", "NO_HANDLE", "FAILED"]
    assert "604" in str(rows[2]["problem"])
    assert "broker-z" in str(rows[5]["problem"])
    assert rows[0]["problem"] is rows[4]["problem"] is None
    assert recaller(broker).take_back([], []).to_pylist() == []


def test_a_busy_broker_is_asked_again_and_one_that_forbids_it_is_not(
    broker: EmbeddedBroker,
) -> None:
    given = handles(broker, 2)
    broker.faults.on(RequestCode.RECALL_MESSAGE).respond(ResponseCode.SYSTEM_BUSY).times(2)
    assert statuses(recaller(broker).take_back(["T"], given[:1]).to_pylist()) == ["RECALLED"]
    forbidden = broker.faults.on(RequestCode.RECALL_MESSAGE).always()
    forbidden.respond(ResponseCode.NO_PERMISSION)
    broker.journal.clear()
    (row,) = recaller(broker).take_back(["T"], given[1:]).to_pylist()
    assert row["status"] == "REFUSED"
    assert "recallMessageEnable" in str(row["problem"])
    assert len(broker.journal.requests(code=RequestCode.RECALL_MESSAGE)) == 1


def test_a_name_server_that_is_away_ends_it_at_once(broker: EmbeddedBroker) -> None:
    (given,) = handles(broker, 1)
    texts = {"nameServer": "127.0.0.1:9", "rocketmq.connecttimeout": "200"}
    asks = Recaller(write_options(texts, streaming=False))
    with pytest.raises(NameServerUnavailableError):
        asks.take_back(["T"] * 2, [given] * 2)
