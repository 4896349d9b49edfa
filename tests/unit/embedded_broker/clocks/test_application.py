"""The application tells the clock what its own threads and tasks are doing."""

from __future__ import annotations

import asyncio
import doctest
import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from queue import Queue
from threading import Event, Thread

import pytest

from embedded_broker import EmbeddedBroker, SettleTimeout, VirtualClock
from embedded_broker.clocks import application
from rocketmq_py import (
    ApplicationClock,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    SystemClock,
)
from rocketmq_py.errors import ConfigError

GUARD_S = 30.0
DAY = timedelta(days=1)
HERE = "test_application.py"


class Chain:
    """A daily chain of which each next message is sent by ``hand_on``, on a thread of its own.

    The next message is sent late: only when a look of the main thread has found nobody at work but
    this application. If the application does not count, time has moved on by then.
    """

    def __init__(self, broker: EmbeddedBroker, producer: DefaultMQProducer) -> None:
        self.clock = broker.clock
        self.rang: list[datetime] = []
        self.hand_on: Callable[[], object] = self.send_next
        self.errors: list[BaseException] = []
        self._producer = producer
        self._looked = Event()
        self._is_over = False

    def listen(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.rang.append(self.clock.now())
        self.hand_on()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def send_next(self) -> None:
        self._producer.send(Message("T", b"again", delay=DAY))

    def send_next_late(self) -> None:
        self.wait_for_looks()
        self.send_next()

    def wait_for_looks(self) -> None:
        while not self._is_over and any(
            "G: " in reason for reason in self.clock.settle(0, check=False).busy
        ):
            pass
        for _ in range(2):  # the first may have begun before
            self._looked.clear()
            while not self._is_over and not self._looked.wait(0.01):
                pass

    def run(self, days: int = 5) -> bool:
        """Whether it rang each day at the same time."""
        began = self.clock.now()

        def look() -> bool:
            self._looked.set()
            return True

        with self.clock.idle_when(look):
            self.send_next()
            self.clock.run(days=days, timeout=GUARD_S)
        self._is_over = True
        return self.rang == [began + number * DAY for number in range(1, days + 1)]


@pytest.fixture(params=[True, False], ids=["inproc", "tcp"])
def chain(request: pytest.FixtureRequest) -> Iterator[Chain]:
    with (
        EmbeddedBroker(clock=VirtualClock(), topics=["T"], inproc=request.param) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        made = Chain(broker, producer)
        member = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        member.subscribe("T")
        member.register_message_listener(made.listen)
        with member:
            yield made


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with EmbeddedBroker(clock=VirtualClock(), tcp=False) as broker:
        made = broker.clock
        assert isinstance(made, VirtualClock)
        yield made


def busy_with(clock: VirtualClock) -> tuple[str, ...]:
    return clock.settle(0, check=False).busy


# -- a chain through threads and tasks ----------------------------------------------------------


def test_a_daily_chain_through_a_thread_rings_on_each_day(chain: Chain) -> None:
    threads: list[Thread] = []

    def hand_on() -> None:
        threads.append(Thread(target=chain.clock.busy().hand_over(chain.send_next_late)))
        threads[-1].start()

    chain.hand_on = hand_on

    assert chain.run()
    for thread in threads:
        thread.join(GUARD_S)


def test_a_daily_chain_through_a_pool_rings_on_each_day(chain: Chain) -> None:
    with ThreadPoolExecutor(2) as pool:
        chain.hand_on = lambda: pool.submit(chain.clock.busy().hand_over(chain.send_next_late))

        assert chain.run()


def test_work_that_a_pool_begins_late_is_waited_for_all_the_same(chain: Chain) -> None:
    with ThreadPoolExecutor(1) as pool:

        def hand_on() -> None:
            pool.submit(chain.wait_for_looks)  # what comes next has to wait for it
            pool.submit(chain.clock.busy().hand_over(chain.send_next))

        chain.hand_on = hand_on

        assert chain.run()


def test_a_daily_chain_through_a_queue_and_a_worker_rings_on_each_day(chain: Chain) -> None:
    outbox: Queue[Callable[[], object] | None] = Queue()

    def work() -> None:
        while (task := outbox.get()) is not None:
            task()
            outbox.task_done()

    worker = Thread(target=work)
    worker.start()
    chain.hand_on = lambda: outbox.put(chain.send_next_late)
    chain.clock.idle_when(lambda: outbox.unfinished_tasks == 0, name="outbox")

    assert chain.run()
    outbox.put(None)
    worker.join(GUARD_S)


def test_a_daily_chain_through_tasks_of_a_loop_rings_on_each_day(chain: Chain) -> None:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()

    @chain.clock.busy("arms")
    async def arm() -> None:
        await asyncio.to_thread(chain.send_next_late)

    chain.hand_on = lambda: asyncio.run_coroutine_threadsafe(arm(), loop)
    try:
        assert chain.run()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(GUARD_S)
        loop.close()


def test_a_token_goes_from_hand_to_hand_without_a_gap(chain: Chain) -> None:
    def first(pool: ThreadPoolExecutor) -> None:
        chain.wait_for_looks()
        pool.submit(chain.clock.busy().hand_over(chain.send_next_late))

    with ThreadPoolExecutor(2) as pool:
        chain.hand_on = lambda: pool.submit(chain.clock.busy().hand_over(first), pool)

        assert chain.run()


def test_autojump_stands_while_the_application_is_busy(chain: Chain) -> None:
    began = chain.clock.now()
    busy = chain.clock.busy("body")
    with chain.clock.autojump(), busy:
        looked = Event()

        def look() -> bool:
            looked.set()
            return True

        with chain.clock.idle_when(look):
            chain.send_next()
            for _ in range(3):
                looked.clear()
                assert looked.wait(GUARD_S)

            assert chain.clock.now() == began


def test_a_coroutine_of_aio_waits_for_tasks_of_its_loop() -> None:
    async def wait() -> bool:
        async with EmbeddedBroker(clock=VirtualClock(), tcp=False) as broker:
            entered, may_end = asyncio.Event(), asyncio.Event()

            async def work() -> None:
                with broker.clock.busy("task"):
                    entered.set()
                    await may_end.wait()

            task = asyncio.create_task(work())
            await entered.wait()
            settled = await broker.aio.settle(0, check=False)
            assert "busy('task')" in settled.busy[0]
            may_end.set()
            await task
            return (await broker.aio.settle(GUARD_S)).ok

    assert asyncio.run(wait())


# -- busy ---------------------------------------------------------------------------------------


def test_a_token_that_is_held_too_long_is_named_with_its_place_and_thread(
    clock: VirtualClock,
) -> None:
    entered, may_end = Event(), Event()

    def work() -> None:
        with clock.busy():
            entered.set()
            may_end.wait(GUARD_S)

    thread = Thread(target=work, name="sender-7")
    thread.start()
    assert entered.wait(GUARD_S)
    line = inspect.getsourcelines(work)[1] + 1

    with pytest.raises(SettleTimeout) as caught:
        clock.settle(0.05)
    text = str(caught.value)
    assert f"{HERE}:{line}" in text
    assert "sender-7" in text
    assert "the application was not idle within 0.05 s" in text
    assert "groups=" not in text
    with pytest.raises(SettleTimeout, match=HERE):
        clock.run(days=1, timeout=0.05)

    may_end.set()
    thread.join(GUARD_S)
    assert clock.settle(GUARD_S).ok


def test_a_given_name_is_told(clock: VirtualClock) -> None:
    busy = clock.busy("mail gateway")
    assert "mail gateway" in repr(busy)
    with busy:
        assert "busy('mail gateway')" in busy_with(clock)[0]
    assert busy_with(clock) == ()


def test_work_within_work_counts_until_the_outermost_ends(clock: VirtualClock) -> None:
    outer = clock.busy("outer")
    with outer:
        with outer, clock.busy("inner"):
            assert len(busy_with(clock)) == 3
        assert len(busy_with(clock)) == 1
    assert busy_with(clock) == ()


def test_an_exception_ends_what_it_leaves_and_passes_unchanged(clock: VirtualClock) -> None:
    error = ValueError("no mail today")

    def fail() -> None:
        raise error

    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise error

    for call in (
        clock.busy()(fail),
        clock.busy().hand_over(fail),
        lambda: asyncio.run(clock.busy()(fail_later)()),
    ):
        with pytest.raises(ValueError, match="no mail") as caught:
            call()
        assert caught.value is error
    with pytest.raises(ValueError, match="no mail"), clock.busy():
        fail()
    assert busy_with(clock) == ()


def test_a_decorated_function_counts_while_it_runs_and_gives_its_result(
    clock: VirtualClock,
) -> None:
    @clock.busy("adds")
    def add(one: int, *, other: int) -> tuple[int, tuple[str, ...]]:
        """Add."""
        return one + other, busy_with(clock)

    total, told = add(1, other=2)

    assert total == 3
    assert "add in busy('adds')" in told[0]
    assert (add.__name__, add.__doc__) == ("add", "Add.")
    assert busy_with(clock) == ()


def test_a_decorated_coroutine_function_counts_from_its_call(clock: VirtualClock) -> None:
    @clock.busy()
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert asyncio.iscoroutinefunction(work)
    coroutine = work()
    assert len(busy_with(clock)) == 1
    assert asyncio.run(coroutine) == "done"
    assert busy_with(clock) == ()


def test_a_task_that_is_cancelled_is_no_longer_busy(clock: VirtualClock) -> None:
    @clock.busy()
    async def work() -> None:
        await asyncio.Event().wait()

    async def cancel() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert busy_with(clock) == ()


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_work_that_is_thrown_away_before_it_begins_does_not_hold_up_time(
    clock: VirtualClock,
) -> None:
    async def work() -> None:
        return

    coroutine = clock.busy()(work)()
    suspended = clock.busy()(work)()
    call = clock.busy().hand_over(print)
    assert len(busy_with(clock)) == 3

    del coroutine, call
    suspended.close()
    del suspended
    gc.collect()

    assert busy_with(clock) == ()


def test_a_call_that_was_handed_over_counts_each_time_it_is_made(clock: VirtualClock) -> None:
    told = clock.busy().hand_over(lambda: len(busy_with(clock)))
    assert [told(), told()] == [1, 1]
    assert busy_with(clock) == ()


@pytest.mark.parametrize("around", ["__call__", "hand_over"])
def test_what_does_not_end_with_its_call_is_refused(clock: VirtualClock, around: str) -> None:
    def generator() -> Iterator[int]:
        yield 1

    go_around = getattr(clock.busy(), around)
    with pytest.raises(TypeError, match="inside"):
        go_around(generator)
    with pytest.raises(TypeError, match="a function, not <class 'int'>"):
        go_around(int)
    with pytest.raises(TypeError, match="a function, not 5"):
        go_around(5)
    assert busy_with(clock) == ()


def test_partial_functions_are_counted(clock: VirtualClock) -> None:
    assert clock.busy()(partial(max, 1))(2) == 2


def test_a_name_that_is_none_is_refused(clock: VirtualClock) -> None:
    with pytest.raises(ConfigError, match=r"@clock.busy\(\) with parentheses"):
        clock.busy(print)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="1 to 200 characters"):
        clock.idle_when(bool, name="")


def test_a_wait_inside_ones_own_work_fails_at_once_and_says_why(clock: VirtualClock) -> None:
    with clock.busy("me"), pytest.raises(SettleTimeout) as caught:
        clock.settle(GUARD_S * 100)
    assert "busy('me')" in str(caught.value)
    assert "it would wait for itself" in str(caught.value)


def test_what_is_left_inside_belongs_to_the_thread_that_is_inside(clock: VirtualClock) -> None:
    shared, entered, may_end = clock.busy("shared"), Event(), Event()

    def work() -> None:
        with shared:
            entered.set()
            may_end.wait(GUARD_S)

    thread = Thread(target=work, name="other")
    with shared:
        thread.start()
        assert entered.wait(GUARD_S)

    with pytest.raises(SettleTimeout) as caught:
        clock.settle(0.05)
    assert "by thread other" in str(caught.value)
    assert "wait for itself" not in str(caught.value)
    may_end.set()
    thread.join(GUARD_S)
    assert busy_with(clock) == ()


def test_a_block_may_end_on_another_thread_than_it_began(clock: VirtualClock) -> None:
    busy = clock.busy("passed on")
    busy.__enter__()
    thread = Thread(target=busy.__exit__, args=(None, None, None))
    thread.start()
    thread.join(GUARD_S)
    assert busy_with(clock) == ()
    with pytest.raises(RuntimeError, match=r"busy\('passed on'\) at .* is not entered"):
        busy.__exit__(None, None, None)


def test_time_can_be_moved_by_hand_inside_work(clock: VirtualClock) -> None:
    began = clock.now()
    with clock.busy():
        assert clock.advance(days=1).until == began + DAY


# -- other clocks ---------------------------------------------------------------------------------


def test_an_application_takes_the_clock_of_a_test_as_it_takes_that_of_production() -> None:
    assert isinstance(SystemClock(), ApplicationClock)
    assert isinstance(VirtualClock(), ApplicationClock)


def test_a_broker_on_wall_time_waits_for_the_application_too() -> None:
    with EmbeddedBroker(tcp=False) as broker:
        with broker.clock.busy("wall"):
            assert "busy('wall')" in str(broker.clock.settle(0, check=False).busy)
        assert broker.clock.settle(GUARD_S).ok


def test_the_examples_of_the_docstrings_do_what_they_say() -> None:
    assert doctest.testmod(application) == (0, 13)
