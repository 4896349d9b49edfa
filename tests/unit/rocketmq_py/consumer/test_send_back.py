from __future__ import annotations

import zlib

import pytest

from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, DEAD, Later, Outcome
from rocketmq_py.consumer.send_back import NoRetries, SendBack
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import UnsupportedOperationError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.protocol.properties import decode_properties
from tests.unit.rocketmq_py.consumer.fake_engine import (
    GROUP,
    FakeEngine,
    message,
    ok,
    queues_of,
    refusal,
)

RETRY = f"%RETRY%{GROUP}"


class Bench:
    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.engine.queues[RETRY] = queues_of(RETRY, 1)
        self.engine.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: ok()
        config = PushConsumerConfig(max_reconsume_times=9)
        self.back = SendBack(GROUP, ConsumerCalls(self.engine, GROUP, config), config)

    def published(self, failed: MessageExt) -> tuple[SendMessageRequestHeader, bytes]:
        assert self.back.send(failed, 0)
        (command,) = self.engine.called(RequestCode.SEND_MESSAGE_V2)
        return SendMessageRequestHeader.from_ext_v2(command.ext_fields), command.body


def test_the_copy_counts_the_attempt_in_its_header_and_takes_the_level_of_the_attempt() -> None:
    failed = message(3, body=b"\x00\xff", reconsume_times=2)
    failed.flag = 7
    failed.properties.update(
        TAGS="TagA", MIN_OFFSET="0", MAX_OFFSET="9", CONSUME_START_TIME="1", TRAN_MSG="true"
    )
    header, body = Bench().published(failed)
    assert body == b"\x00\xff"
    assert (header.topic, header.producer_group) == (RETRY, "CLIENT_INNER_PRODUCER")
    assert (header.reconsume_times, header.max_reconsume_times) == (3, 9)
    assert (header.flag, header.sys_flag) == (7, 0)
    assert header.properties is not None
    properties = decode_properties(header.properties)
    assert properties.pop("WAIT")
    assert properties == {
        "UNIQ_KEY": "ID3",
        "TAGS": "TagA",
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": "ID3",
        "DELAY": "5",
    }


def test_the_first_message_id_survives_further_copies() -> None:
    failed = message(3)
    failed.properties["ORIGIN_MESSAGE_ID"] = "FIRST"
    header, _ = Bench().published(failed)
    assert header.properties is not None
    assert decode_properties(header.properties)["ORIGIN_MESSAGE_ID"] == "FIRST"


def test_a_large_body_is_compressed_again() -> None:
    text = b"a" * 100_000
    header, body = Bench().published(message(0, body=text))
    assert header.sys_flag == 1
    assert zlib.decompress(body) == text


@pytest.mark.parametrize("code", [1, 16, 26])
def test_a_refused_send_back_is_published_instead(code: int) -> None:
    bench = Bench()
    bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: refusal(code)
    assert bench.back.send(message(0), 0)
    assert len(bench.engine.called(RequestCode.SEND_MESSAGE_V2)) == 1


def test_three_attempts_are_made_to_publish_and_then_the_message_stays() -> None:
    bench = Bench()
    bench.engine.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: refusal(14)
    assert not bench.back.send(message(0), 0)
    assert len(bench.engine.called(RequestCode.SEND_MESSAGE_V2)) == 3


def test_without_a_route_of_the_retry_topic_the_message_stays() -> None:
    bench = Bench()
    bench.engine.queues.clear()
    assert not bench.back.send(message(0), 0)


def test_without_a_master_the_message_stays() -> None:
    bench = Bench()
    bench.engine.addresses.clear()
    assert not bench.back.send(message(0), 0)


@pytest.mark.parametrize(
    ("delay_ms", "level", "planned_ms"),
    [
        (0, 1, 1_000),
        (1, 1, 1_000),
        (1_000, 1, 1_000),
        (1_001, 2, 5_000),
        (10_000, 3, 10_000),
        (7_199_999, 18, 7_200_000),
        (7_200_000, 18, 7_200_000),
        (7_200_001, 18, 7_200_000),
    ],
)
def test_a_delay_becomes_its_exact_level_or_the_next_longer_one(
    delay_ms: int, level: int, planned_ms: int
) -> None:
    assert Bench().back.plan(message(0), delay_ms) == (Later(level), planned_ms)


@pytest.mark.parametrize(
    ("attempts", "planned_ms"), [(0, 10_000), (1, 30_000), (15, 7_200_000), (40, 7_200_000)]
)
def test_without_a_delay_the_broker_takes_that_of_the_attempt(
    attempts: int, planned_ms: int
) -> None:
    failed = message(0, reconsume_times=attempts)
    assert Bench().back.plan(failed, None) == (AS_ATTEMPT, planned_ms)


@pytest.mark.parametrize(("outcome", "level"), [(AS_ATTEMPT, "0"), (Later(7), "7"), (DEAD, "-1")])
def test_outcomes_become_delay_levels(outcome: Outcome, level: str) -> None:
    bench = Bench()
    bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: ok()
    assert bench.back.arrange(message(0), outcome)
    (command,) = bench.engine.called(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert command.ext_fields["delayLevel"] == level


@pytest.mark.case("T79")
def test_where_nothing_comes_again_a_failed_message_is_told_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    none = NoRetries(GROUP, "each member gets it once")
    assert none.arrange(message(4), AS_ATTEMPT)
    assert "ID4" in caplog.text
    assert "each member gets it once" in caplog.text
    for delay_ms in (None, 5):
        with pytest.raises(UnsupportedOperationError, match=r"ID4.*each member gets it once"):
            none.plan(message(4), delay_ms)
