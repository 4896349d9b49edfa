"""What spans say of a message: the names of OpenTelemetry's conventions, and the right values."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from rocketmq_py import Message, MessageBatch, MessageExt
from rocketmq_py.telemetry import attributes
from rocketmq_py.telemetry.clients import Once

AT = datetime(2030, 1, 1, tzinfo=UTC)
AT_MS = 1_893_456_000_000


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, "normal"),
        ({"__SHARDINGKEY": "order 42"}, "fifo"),
        ({"TIMER_DELAY_MS": "5"}, "delay"),
        ({"DELAY": "3", "__SHARDINGKEY": "order 42"}, "delay"),
        ({"DELAY": "0"}, "normal"),
        ({"TRAN_MSG": "true", "TIMER_DELAY_MS": "5"}, "transaction"),
        ({"TRAN_MSG": "false"}, "normal"),
    ],
)
def test_the_type_of_a_message(properties: dict[str, str], kind: str) -> None:
    assert attributes.kind_of(properties) == kind


def test_a_delay_is_told_as_its_level_or_as_its_end() -> None:
    level, end = (
        f"{attributes.ROCKETMQ}delay_time_level",
        f"{attributes.ROCKETMQ}delivery_timestamp",
    )
    told = attributes.sent(Message("T", b"x").set_delay_time_level(3))
    assert (told[level], end in told) == (3, False)
    told = attributes.sent(Message("T", b"x", deliver_at=AT))
    assert (told[end], level in told) == (AT_MS, False)
    late = MessageExt("T", b"x", properties={"TIMER_DELAY_SEC": "5"}, born_timestamp=AT_MS)
    assert attributes.received([late])[end] == AT_MS + 5_000
    odd = MessageExt("T", b"x", properties={"TIMER_DELAY_SEC": "soon"})
    assert end not in attributes.received([odd])


def test_the_level_of_a_retry_is_not_the_delay_of_the_sender() -> None:
    again = MessageExt("T", b"x", properties={"DELAY": "3"}, reconsume_times=1)
    told = attributes.received([again])
    assert told[f"{attributes.ROCKETMQ}type"] == "normal"
    assert f"{attributes.ROCKETMQ}delay_time_level" not in told
    assert told["rocketmq_py.reconsume_times"] == 1


def test_a_message_group_is_told_and_a_batch_by_its_count() -> None:
    told = attributes.sent(Message("T", b"x", properties={"__SHARDINGKEY": "order 42"}))
    assert told[f"{attributes.ROCKETMQ}group"] == "order 42"
    batch = MessageBatch([Message("T", b"x"), Message("T", b"y")])
    assert attributes.sent(batch) == {"messaging.batch.message_count": 2}


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("10.0.0.1:10911", {"server.address": "10.0.0.1", "server.port": 10911}),
        ("[::1]:10911", {"server.address": "::1", "server.port": 10911}),
        ("broker", {"server.address": "broker"}),
    ],
)
def test_a_broker_is_told_by_host_and_port(address: str, told: dict[str, object]) -> None:
    assert attributes.server(address) == told


def test_what_is_no_client_is_refused() -> None:
    with pytest.raises(TypeError, match="no producer and no consumer"):
        Once("").take("text")  # type: ignore[arg-type]


def test_neither_library_is_imported_before_it_is_used() -> None:
    program = (
        "import sys, rocketmq_py, rocketmq_py.telemetry\n"
        "from rocketmq_py import DefaultMQProducer, DefaultMQPushConsumer, aio\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
