"""What a recorder of a broker with wall time takes for too early."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.clocks.instants import epoch_ms
from embedded_broker.kit.fixture_broker import EmbeddedFixtureBroker
from embedded_broker.kit.recorder import Recorder
from rocketmq_py import ConsumeConcurrentlyContext, MessageExt, MessageQueue

SECOND = timedelta(seconds=1)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with EmbeddedBroker(tcp=False) as broker:
        yield Recorder(EmbeddedFixtureBroker(broker), "T", "*", "G")


def came(recorder: Recorder, sent: datetime, stored: datetime) -> None:
    message = MessageExt(
        topic="T", body=b"x", born_timestamp=epoch_ms(sent), store_timestamp=epoch_ms(stored)
    )
    recorder.listen([message], ConsumeConcurrentlyContext(MessageQueue("T", "broker-a", 0)))


def test_a_look_that_comes_late_makes_no_delay_too_short(recorder: Recorder) -> None:
    now = datetime.now().astimezone()
    came(recorder, now - 4 * SECOND, now + SECOND)
    assert recorder.expect("x", after=5 * SECOND).body == b"x"


@pytest.mark.parametrize("sent", [-4, 60], ids=["before the look", "after the look"])
def test_what_comes_too_early_is_told(recorder: Recorder, sent: int) -> None:
    now = datetime.now().astimezone()
    came(recorder, now + sent * SECOND, now - SECOND / 2)
    with pytest.raises(AssertionError, match="'x' arrived too early in topic T: -"):
        recorder.expect("x", after=5 * SECOND)
