"""A slave that makes way for its master: what has left is told, once its answer is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Event, Thread
from typing import NamedTuple

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.ha.escape import EscapeBridge
from embedded_broker.store.put_values import InnerMessage, PutResult
from embedded_broker.timer.outcomes import TimerProgress
from embedded_broker.timer.wheel.engine import TimerMessageStore
from tests.unit.embedded_broker.ha.acting_group import Group, Groups

PATIENCE_S = 30.0


class Leaving(NamedTuple):
    """A slave whose messages have reached another broker, and whose answers have not come."""

    group: Group
    answer: Callable[[], None]
    """Lets all answers come."""

    def make_way(self) -> TimerProgress | None:
        """What a master that comes back is told."""
        parts = self.group.slave._parts()
        make_way = parts.durability.replication.make_way
        assert make_way is not None
        with parts.door:
            return make_way()


@pytest.fixture
def leaving(start_group: Groups, monkeypatch: pytest.MonkeyPatch) -> Leaving:
    """The slave of two timers and a level that are due at once. Nobody looks for answers."""
    answers, taken = Event(), []
    deliver = EscapeBridge._deliver

    def late(bridge: EscapeBridge, message: InnerMessage) -> PutResult:
        result = deliver(bridge, message)
        taken.append(message)
        assert answers.wait(PATIENCE_S)
        return result

    monkeypatch.setattr(EscapeBridge, "_deliver", late)
    group = start_group()
    group.send(b"first", b"second", seconds=30)
    group.send(b"level", level=4)
    group.lose_master()
    group.slave._parts().levels.session_timer = lambda _wait_ms, _call: None
    jump = Thread(target=group.pass_time, args=(30,))
    jump.start()
    group.slave.wait_for(lambda _: taken)

    def answer() -> None:
        answers.set()
        jump.join(PATIENCE_S)
        assert not jump.is_alive()

    return Leaving(group, answer)


def test_a_slave_takes_every_answer_before_it_says_how_far_it_came(leaving: Leaving) -> None:
    group = leaving.group
    assert leaving.make_way() is None
    leaving.answer()
    assert leaving.make_way() is not None
    assert not group.acts()
    assert group.elsewhere() == [b"first", b"level"]
    group.return_master()
    group.pass_time(60)
    assert group.delivered() == Counter([b"first", b"second", b"level"])
    assert group.elsewhere() == [b"first", b"level"]


def test_a_slave_that_may_not_take_an_answer_makes_way_later(leaving: Leaving) -> None:
    group = leaving.group
    assert leaving.make_way() is None
    group.slave.config.update(timerStopDequeue=True)
    leaving.answer()
    assert leaving.make_way() is None
    group.slave.config.update(timerStopDequeue=False)
    assert leaving.make_way() is not None
    group.return_master()
    group.pass_time(60)
    assert group.delivered() == Counter([b"first", b"second", b"level"])
    assert group.elsewhere() == [b"first", b"level"]


def test_a_slave_whose_disk_refuses_makes_way_later(
    leaving: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, progress, refused = leaving.group, TimerMessageStore.progress, list[str]()

    def refuse(timers: TimerMessageStore) -> TimerProgress:
        if not refused:
            refused.append("refused")
            raise StoreError("the disk does not answer")
        return progress(timers)

    monkeypatch.setattr(TimerMessageStore, "progress", refuse)
    assert leaving.make_way() is None
    leaving.answer()
    assert refused
    assert group.acts()
    group.return_master()
    group.pass_time(60)
    assert group.delivered() == Counter([b"first", b"second", b"level"])
    assert group.elsewhere() == [b"first", b"level"]
