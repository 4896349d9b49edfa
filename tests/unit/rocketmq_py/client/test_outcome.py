"""The future of a send: Python's own to whoever uses it, and next to nothing until then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, as_completed, wait

import pytest

from rocketmq_py.client import outcome
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.outcome import CallbackFuture, followed_by, told_apart
from rocketmq_py.config import ClientConfig

Made = CallbackFuture[int]


@pytest.fixture
def instance() -> Iterator[ClientInstance]:
    config = ClientConfig(namesrv_addr="127.0.0.1:9")
    made = ClientInstance("c", config, (), give_back=lambda _: True)
    yield made
    made.shutdown()


@pytest.fixture(params=["as it is", "looked at before"])
def future(instance: ClientInstance, request: pytest.FixtureRequest) -> Made:
    """Whoever looks at a future for the first time makes it complete, which must change nothing."""
    made: Made = CallbackFuture(instance)
    if request.param != "as it is":
        wait([made], timeout=0)
    return made


def test_python_knows_of_nothing_else_in_a_future() -> None:
    assert vars(Future()).keys() == {
        "_condition",
        "_state",
        "_result",
        "_exception",
        "_waiters",
        "_done_callbacks",
    }


def test_a_send_that_nobody_waits_for_makes_no_lock(instance: ClientInstance) -> None:
    future: Made = CallbackFuture(instance)
    future.set_result(1)
    assert (future.done(), future.running(), future.result()) == (True, False, 1)
    assert "_condition" not in vars(future)


def test_a_result_is_given_in_every_way(future: Made) -> None:
    assert (future.done(), future.running(), future.cancelled()) == (False, True, False)
    future.set_result(7)
    assert (future.done(), future.running(), future.cancelled()) == (True, False, False)
    assert (future.result(), future.result(0), future.exception(0)) == (7, 7, None)
    assert wait([future]).done == {future}
    assert list(as_completed([future])) == [future]
    assert "finished returned int" in repr(future)


def test_an_error_is_given_in_every_way(future: Made) -> None:
    error = ValueError("no")
    future.set_exception(error)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            future.result()
    assert future.exception() is error
    assert future.done()
    assert "finished raised ValueError" in repr(future)


def test_it_is_decided_once(future: Made) -> None:
    future.set_result(1)
    with pytest.raises(InvalidStateError):
        future.set_result(2)
    with pytest.raises(InvalidStateError):
        future.set_exception(ValueError())
    assert future.result() == 1


def test_it_cannot_be_cancelled(future: Made) -> None:
    assert not future.cancel()
    future.set_result(1)
    assert not future.cancel()
    assert future.result() == 1


def test_waiting_ends_when_the_time_is_over(future: Made) -> None:
    with pytest.raises(TimeoutError):
        future.result(0)
    with pytest.raises(TimeoutError):
        future.exception(0)
    assert wait([future], timeout=0).not_done == {future}
    assert "pending" in repr(future)


def test_what_it_does_not_have_it_does_not_make_up(future: Made) -> None:
    with pytest.raises(AttributeError, match="no attribute nothing"):
        future.nothing  # noqa: B018


@pytest.mark.parametrize(
    "waits",
    [
        lambda future: future.result(10),
        lambda future: (future.exception(10), future.result())[1],
        lambda future: wait([future], 10).done.pop().result(),
        lambda future: next(as_completed([future], 10)).result(),
        lambda future: asyncio.run(_awaited(future)),
    ],
)
def test_who_waits_is_woken(instance: ClientInstance, waits: Callable[[Made], int]) -> None:
    """The outcome is decided once the thread has begun to wait, which its condition shows."""
    future: Made = CallbackFuture(instance)
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(waits(future)))
    thread.start()
    while "_condition" not in vars(future):
        thread.join(0.001)
    future.set_result(3)
    thread.join(10)
    assert got == [3]


async def _awaited(future: Made) -> int:
    return await asyncio.wrap_future(future)


def test_who_comes_while_it_is_decided_is_told_all_the_same(instance: ClientInstance) -> None:
    """Two threads, a thousand times: no order of making, waiting and deciding loses the outcome."""
    futures: list[Made] = [CallbackFuture(instance) for _ in range(1_000)]
    start = threading.Barrier(2)

    def decide() -> None:
        start.wait()
        for number, future in enumerate(futures):
            future.set_result(number)

    thread = threading.Thread(target=decide)
    thread.start()
    start.wait()
    assert [future.result(10) for future in futures] == list(range(1_000))
    thread.join()


def test_the_first_of_several_is_enough(instance: ClientInstance) -> None:
    first, second = CallbackFuture[int](instance), CallbackFuture[int](instance)
    second.set_result(2)
    assert wait([first, second], 10, FIRST_COMPLETED).done == {second}


def test_callbacks_run_elsewhere_until_it_is_done(future: Made) -> None:
    ran = threading.Event()
    names: list[str] = []

    def note(_: Future[int]) -> None:
        names.append(threading.current_thread().name)
        ran.set()

    future.add_done_callback(note)
    future.set_result(1)
    assert ran.wait(10)
    future.add_done_callback(note)
    assert names[0].startswith("rocketmq-client-callback")
    assert names[1:] == [threading.current_thread().name]


def test_another_python_whose_futures_have_more_gets_all_of_it(
    instance: ClientInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome, "_IS_KNOWN", False)
    future: Made = CallbackFuture(instance)
    assert "_condition" in vars(future)
    future.set_result(1)
    assert (future.result(), future.done(), future.running()) == (1, True, False)


def test_what_follows_a_call_is_decided_without_a_callback_thread(instance: ClientInstance) -> None:
    first: Made = CallbackFuture(instance)

    def doubled(call: Future[int]) -> Future[str]:
        if call.result() < 0:
            raise LookupError("below zero")
        then: Future[str] = Future()
        then.set_result(f"twice {call.result()}")
        return then

    second = followed_by(first, doubled)
    assert isinstance(second, CallbackFuture)
    assert not second.done()
    first.set_result(21)
    assert (second.done(), second.result()) == (True, "twice 21")
    plain: Future[int] = Future()
    failed = followed_by(plain, doubled)
    plain.set_result(-1)
    assert isinstance(failed.exception(), LookupError)


def test_an_outcome_that_is_told_apart_is_the_same(instance: ClientInstance) -> None:
    calls: list[Future[int]] = [Future(), Future()]
    good, bad = (told_apart(instance, call) for call in calls)
    calls[0].set_result(1)
    calls[1].set_exception(LookupError())
    assert good.result(10.0) == 1
    assert isinstance(bad.exception(10.0), LookupError)
