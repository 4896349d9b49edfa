"""Tokens of activity and conditions, and looks at them that miss nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from threading import Barrier, Event, Thread

import pytest

from embedded_broker import ClockError, EmbeddedBroker, SettleTimeout, VirtualClock
from embedded_broker.clocks import activity as module
from embedded_broker.clocks.activity import Activity, Token
from embedded_broker.clocks.settle import autojumping, wait_until_settled
from embedded_broker.clocks.waiting import Onlookers
from embedded_broker.door import Door
from rocketmq_py.errors import ConfigError

GUARD_S = 30.0


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with EmbeddedBroker(clock=VirtualClock(), tcp=False) as broker:
        made = broker.clock
        assert isinstance(made, VirtualClock)
        yield made


class Clients:
    """The clients of a broker, which do something while they are asked."""

    def __init__(self, *acts: object) -> None:
        self.door = Door()
        self.is_down = False
        self.asked = 0
        self.acts = list(acts)

    def busy(self, groups: frozenset[str] | None) -> Sequence[str]:
        self.asked += 1
        if self.acts:
            act = self.acts.pop(0)
            assert callable(act)
            act()
        return ()

    def notes(self, groups: frozenset[str] | None) -> Sequence[str]:
        return ()

    def hasten(self) -> None:
        pass


# -- looks ----------------------------------------------------------------------------------------


def test_a_listener_that_takes_a_token_while_clients_are_asked_is_seen() -> None:
    activity, taken = Activity(), list[Token]()
    clients = Clients(lambda: taken.append(activity.begin("outbox")))
    waited = wait_until_settled(lambda: [clients], activity, timeout_s=0, check=False)
    assert not waited.ok
    assert waited.busy[0].startswith("outbox is held for 0.0 s by thread MainThread")


def test_work_that_began_and_ended_while_clients_were_asked_makes_the_answer_void() -> None:
    activity = Activity()
    clients = Clients(lambda: activity.end(activity.begin("short")))

    waited = wait_until_settled(lambda: [clients], activity, timeout_s=0, check=False)
    assert "while everybody was being asked" in waited.busy[0]

    assert wait_until_settled(lambda: [clients], activity, timeout_s=GUARD_S, check=True).ok
    assert clients.asked == 2


def test_what_an_outbox_sends_while_it_is_asked_is_looked_for_at_the_clients() -> None:
    activity, in_flight = Activity(), list[str]()

    class Sending(Clients):
        def busy(self, groups: frozenset[str] | None) -> Sequence[str]:
            super().busy(groups)
            return tuple(in_flight)

    def empties() -> bool:
        in_flight[:] = ["a send in flight"]  # which has not come to the broker yet
        return True

    condition = module.Condition(activity, empties, None, "here")
    activity.add(condition)
    clients = Sending()

    waited = wait_until_settled(lambda: [clients], activity, timeout_s=0, check=False)

    assert waited.busy == ("a send in flight",)
    assert clients.asked == 2


def test_the_end_of_work_wakes_who_waits() -> None:
    activity, changed = Activity(), Event()
    activity.watch(changed)
    token = activity.begin("x")
    assert not changed.is_set()
    activity.end(token)
    assert changed.is_set()

    changed.clear()
    activity.end(activity.begin("of a garbage collection"), wake=False)
    assert not changed.is_set()

    activity.unwatch(changed)
    activity.end(activity.begin("y"))
    assert not changed.is_set()


def test_many_threads_that_begin_and_end_lose_no_token(clock: VirtualClock) -> None:
    threads, rounds = 16, 200
    barrier, busy = Barrier(threads + 1), clock.busy("many")

    def work() -> None:
        for _ in range(rounds):
            with busy, clock.busy("own"):
                pass
        with busy:
            barrier.wait(GUARD_S)
            barrier.wait(GUARD_S)

    started = [Thread(target=work) for _ in range(threads)]
    for thread in started:
        thread.start()
    barrier.wait(GUARD_S)
    assert len(clock.settle(0, check=False).busy) == threads
    with pytest.raises(SettleTimeout, match="and 11 more"):
        clock.settle(0)
    barrier.wait(GUARD_S)
    assert clock.settle(GUARD_S).ok
    for thread in started:
        thread.join(GUARD_S)


def test_autojump_does_not_jump_when_a_wait_of_the_body_begins_work() -> None:
    activity, begun, jumps = Activity(), list[Token](), list[int]()
    jumped = Event()

    class Looks(Onlookers):
        def may_jump(self, stop: Event, begun_waits: int) -> bool:
            if not begun:
                begun.append(activity.begin("by a condition of the body"))
            return True

    def jump_on() -> bool:
        jumps.append(len(activity.held()))
        jumped.set()
        return True

    looked_at_work = Event()
    clients = Clients(lambda: None, looked_at_work.set)
    with autojumping(lambda: [clients], activity, jump_on, GUARD_S, Looks()):
        assert looked_at_work.wait(GUARD_S)
        assert jumps == []
        activity.end(begun[0])
        assert jumped.wait(GUARD_S)
    assert set(jumps) == {0}


# -- conditions -----------------------------------------------------------------------------------


def test_a_condition_that_is_not_true_holds_up_time_and_is_named(clock: VirtualClock) -> None:
    outbox = ["mail"]
    condition = clock.idle_when(lambda: not outbox, name="outbox")
    assert "idle_when('outbox')" in repr(condition)
    with pytest.raises(SettleTimeout, match=r"idle_when\('outbox'\) at .*test_activity.py:\d+ is"):
        clock.run(days=1, timeout=0.05)

    outbox.clear()
    assert clock.settle(GUARD_S).ok


def test_a_condition_is_asked_until_it_is_forgotten(clock: VirtualClock) -> None:
    with clock.idle_when(bool):
        assert not clock.settle(0, check=False).ok
    assert clock.settle(GUARD_S).ok

    condition = clock.idle_when(bool)
    condition.forget()
    condition.forget()
    assert clock.settle(GUARD_S).ok

    clock.idle_when(bool, name="never")
    clock.forget("never")
    assert clock.settle(GUARD_S).ok


def test_a_name_belongs_to_one_condition(clock: VirtualClock) -> None:
    clock.idle_when(lambda: True, name="outbox")
    with pytest.raises(ConfigError, match=r"test_activity.py:\d+ has it: call forget\('outbox'\)"):
        clock.idle_when(lambda: True, name="outbox")
    with pytest.raises(KeyError, match=r"no condition is named 'inbox'; there are 'outbox'"):
        clock.forget("inbox")


def test_a_condition_that_raises_ends_the_wait_and_is_named(clock: VirtualClock) -> None:
    error = AttributeError("no attribute 'outbox'")

    def broken() -> bool:
        raise error

    with clock.idle_when(broken), pytest.raises(ClockError) as caught:
        clock.run(days=1)
    assert "broken) at " in str(caught.value)
    assert "raised AttributeError(\"no attribute 'outbox'\")" in str(caught.value)
    assert caught.value.__cause__ is error
    with clock.idle_when(broken), pytest.raises(ClockError, match="raised"), clock.autojump():
        pass


def test_a_condition_that_cannot_answer_at_once_is_refused(clock: VirtualClock) -> None:
    async def ask() -> bool:
        return True

    with pytest.raises(TypeError, match="no coroutine function"):
        clock.idle_when(ask)
    with pytest.raises(TypeError, match="give a function"):
        clock.idle_when(True)  # type: ignore[arg-type]

    class Asks:
        def __call__(self) -> object:
            return ask()

    with clock.idle_when(Asks()), pytest.raises(ClockError, match="which nobody awaits"):
        clock.settle(0)


# -- other processes ------------------------------------------------------------------------------


def test_a_forked_child_has_neither_tokens_nor_conditions_of_its_parent(
    clock: VirtualClock,
) -> None:
    clock.idle_when(bool, name="of the parent")
    with clock.busy("of the parent"):
        child = os.fork()
        if child == 0:
            held = clock.activity.held() + clock.activity.unmet()
            with clock.busy("of the child"):
                held += clock.activity.held()
            os._exit(0 if len(held) == 1 and "of the child" in held[0] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(clock.settle(0, check=False).busy) == 2


def test_a_lease_counts_until_it_is_given_back(clock: VirtualClock) -> None:
    number, _ = clock.activity.lease("java", 60)
    assert "busy('java') is held for 0.0 s by another process" in clock.settle(0, check=False).busy
    assert "java" in clock.activity.give_back(number).what
    assert clock.settle(GUARD_S).ok
    with pytest.raises(KeyError, match=f"no token {number}, or its lease is over"):
        clock.activity.give_back(number)


def test_a_lease_that_is_over_does_not_count_any_more(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    number, token = clock.activity.lease("dead", 10)
    token.began = now[0]
    now[0] += 9.9
    assert "dead" in clock.settle(0, check=False).busy[0]
    now[0] += 0.1
    assert clock.settle(GUARD_S).ok
    assert "the lease is over: busy('dead')" in caplog.text
    with pytest.raises(KeyError, match="there are none"):
        clock.activity.give_back(number)


def test_other_processes_hold_a_bounded_number_of_tokens(clock: VirtualClock) -> None:
    for _ in range(module.LEASES_MAX):
        clock.activity.lease("x", 60)
    with pytest.raises(ClockError, match="1000 tokens are held"):
        clock.activity.lease("x", 60)
    clock.activity.clear()
    assert clock.settle(GUARD_S).ok
