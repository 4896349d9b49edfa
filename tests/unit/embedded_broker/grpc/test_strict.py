"""Wrong calls are answered by codes that tell what is wrong, or, if wanted, as by RocketMQ's proxy.

``tests/interop/test_grpc_answers.py`` asks such a proxy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from embedded_broker import EmbeddedBroker, GrpcOptions, VirtualClock
from embedded_broker.grpc.schema import ClientType
from tests.unit.embedded_broker.grpc.wrong_calls import CALLS, SETTINGS, Stage


@contextmanager
def staged(options: GrpcOptions) -> Iterator[tuple[EmbeddedBroker, Stage]]:
    """Set the stage at a broker."""
    with (
        EmbeddedBroker(grpc=options, clock=VirtualClock(), config=SETTINGS) as broker,
        Stage(
            endpoints=broker.endpoints,
            broker=broker.addr,
            wait=broker.clock.advance,
            now_ms=lambda: broker.clock.now_ms,
        ) as stage,
    ):
        yield broker, stage


@pytest.mark.case("G7", "G11", "G12", "G13", "G15", "G20", "G21", "G22", "G23", "G25", "G27")
@pytest.mark.case("G29", "G31", "G33", "G34", "G35", "G38", "G42", "G55", "G56", "G73")
def test_a_wrong_call_is_told_what_is_wrong() -> None:
    with staged(GrpcOptions(long_polling=1)) as (_, stage):
        told = {name: wrong.act(stage) for name, wrong in CALLS.items()}
    assert told == {name: wrong.ours for name, wrong in CALLS.items()}


@pytest.mark.case("G11", "G25", "G55")
def test_a_strict_endpoint_answers_as_the_proxy_does() -> None:
    with staged(GrpcOptions(long_polling=1, strict="5.3.3")) as (_, stage):
        told = {name: wrong.act(stage) for name, wrong in CALLS.items()}
    assert told == {name: wrong.theirs for name, wrong in CALLS.items()}


@pytest.mark.case("G17")
def test_a_strict_endpoint_does_not_let_an_unknown_consumer_into_its_group() -> None:
    with staged(GrpcOptions(strict="5.3.3")) as (broker, stage):
        assert stage.stranger.heartbeat("G", ClientType.PUSH_CONSUMER).status.code == 40015
        assert stage.stranger.client_id not in {one.client_id for one in broker.groups["G"].members}


def test_a_strict_endpoint_serves_who_says_all() -> None:
    with staged(GrpcOptions(strict="5.3.3")) as (broker, stage):
        handle = stage.handle()
        renewed = stage.consumer.change("NORMAL", "G", handle, 30_000).receipt_handle
        assert stage.consumer.ack("NORMAL", "G", renewed).status.code == 20000
        broker.clock.advance(60)
        assert broker.groups["G"].lag(topic="NORMAL") == 0
