"""Running in the foreground; with real programs and signals in ``test_leaving.py``."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from rocketmq_py.client import running
from rocketmq_py.client.life import Life
from rocketmq_py.client.running import SIGNALS, Foreground
from rocketmq_py.errors import (
    ClientClosedError,
    IllegalStateError,
    MQClientException,
    NotStartedError,
)
from tests.waiting import until

WAIT_S = 20.0


class Receiver(Foreground):
    """A client that does something when it starts."""

    def __init__(self, signals: tuple[signal.Signals, ...] = ()) -> None:
        self._life = Life(lambda: "the receiver")
        self._signals = signals
        self.starts = 0
        self.at_start: Callable[[], object] = lambda: None

    def start(self) -> None:
        with self._life.starting():
            self.starts += 1
            self._life.at_end(lambda _: None)
            for number in self._signals:
                signal.raise_signal(number)
            self.at_start()


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_during_the_start_ends_it_when_it_has_started(number: signal.Signals) -> None:
    before, receiver = handlers(), Receiver((number,))
    receiver.run()
    assert (receiver.starts, receiver.is_running, handlers() == before) == (1, False, True)


def test_several_signals_end_it_once() -> None:
    before, receiver = handlers(), Receiver((signal.SIGTERM, signal.SIGINT, signal.SIGTERM))
    receiver.run()
    assert not receiver.is_running
    assert handlers() == before


def test_what_has_run_does_not_run_again() -> None:
    before, receiver = handlers(), Receiver((signal.SIGTERM,))
    receiver.run()
    with pytest.raises(ClientClosedError):
        receiver.run()
    assert handlers() == before


def test_what_is_shut_down_while_it_starts_has_run() -> None:
    before, receiver = handlers(), Receiver()
    receiver.at_start = receiver.shutdown
    receiver.run()
    assert (receiver.starts, receiver.is_running, handlers() == before) == (1, False, True)


def test_outside_the_main_thread_nothing_is_started() -> None:
    receiver, errors = Receiver(), []

    def run() -> None:
        try:
            receiver.run()
        except IllegalStateError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(WAIT_S)
    assert "call start() in this thread" in errors[0]
    assert receiver.starts == 0


def test_a_handler_that_is_not_pythons_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign, getsignal = signal.SIGINT, signal.getsignal
    monkeypatch.setattr(
        signal, "getsignal", lambda number: None if number == foreign else getsignal(number)
    )
    set_for: list[signal.Signals] = []
    set_signal = signal.signal

    def note(number: signal.Signals, handler: object) -> object:
        set_for.append(number)
        return set_signal(number, handler)  # type: ignore[arg-type] # whatever it was

    monkeypatch.setattr(signal, "signal", note)
    Receiver((signal.SIGTERM,)).run()
    assert foreign not in set_for


def keepers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "rocketmq-keep-alive"]


def test_what_is_kept_alive_is_so_until_its_shutdown_has_ended() -> None:
    receiver, order = Receiver(), list[str]()
    with pytest.raises(NotStartedError):
        receiver.keep_alive()
    receiver.at_start = lambda: receiver._life.at_end(lambda _: order.append("ended"))
    receiver.start()
    receiver.keep_alive()
    (keeper,) = keepers()
    assert not keeper.daemon
    receiver.shutdown()
    keeper.join(WAIT_S)
    assert (order, keepers()) == (["ended"], [])
    with pytest.raises(ClientClosedError):
        receiver.keep_alive()


def test_what_is_shut_down_while_it_is_to_be_kept_alive_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receiver = Receiver()
    receiver.start()
    start = threading.Thread.start

    def begin(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "rocketmq-keep-alive":
            receiver.shutdown()

    monkeypatch.setattr(threading.Thread, "start", begin)
    receiver.keep_alive()
    assert not receiver.is_running
    until(lambda: not keepers())
    assert not running._kept_alive


def test_a_system_without_a_thread_keeps_nothing_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Receiver()
    receiver.start()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(MQClientException, match="cannot be kept alive: can't start new thread"):
        receiver.keep_alive()
    monkeypatch.undo()
    receiver.shutdown()


@pytest.fixture
def own_handler() -> Iterator[Callable[[object], None]]:
    """Set a handler of SIGINT until the test is over."""
    before = signal.getsignal(signal.SIGINT)

    def set_handler(handler: object) -> None:
        signal.signal(signal.SIGINT, handler)  # type: ignore[arg-type] # whatever it is

    yield set_handler
    signal.signal(signal.SIGINT, before)


def test_a_ctrl_c_is_what_it_was_while_the_main_thread_runs(
    own_handler: Callable[[object], None],
) -> None:
    own_handler(signal.default_int_handler)
    receiver = Receiver()
    receiver.start()
    receiver.keep_alive()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert receiver.is_running
    receiver.shutdown()
    until(lambda: not keepers())
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_a_handler_of_the_program_stays(
    own_handler: Callable[[object], None], handler: object
) -> None:
    own_handler(handler)
    receiver = Receiver()
    receiver.start()
    receiver.keep_alive()
    assert signal.getsignal(signal.SIGINT) is handler
    receiver.shutdown()
    until(lambda: not keepers())
