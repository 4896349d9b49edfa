"""A call waits for room within its time-out; a cancelled one says what becomes of its message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from rocketmq_py import ClientClosedError, Message, SendTimeoutError, TooManySendsError, aio
from rocketmq_py.errors import RemotingTooMuchRequestException, RequestTimeoutException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport.tcp import TcpChannel
from tests.unit.rocketmq_py.aio.conftest import GUARD_S, SEND, Held
from tests.unit.rocketmq_py.scripted import ScriptedCluster
from tests.waiting import until

LONG_MS = round(GUARD_S * 1000)
FULL: Any = {"client_async_permits": 1, "topics": ["T"], "send_msg_timeout": LONG_MS}
"""A producer for which one call in flight is enough."""


async def filled(producer: aio.Producer, held: Held) -> asyncio.Task[Any]:
    """Fill the connection by one send, which the broker holds.

    A heartbeat takes the permit for a moment, too; so the send may come a little later.
    """
    task = asyncio.create_task(producer.send(Message("T", b"first")))
    await held.arrived(1)
    return task


def room_of(producer: aio.Producer) -> Any:
    """Where the calls of a producer wait."""
    assert producer._calls is not None
    return producer._calls.room


async def waits(producer: aio.Producer) -> None:
    """Let tasks go on until one of them waits for room."""
    for _ in range(10):
        await asyncio.sleep(0)
    assert room_of(producer).is_wanted


# --- back-pressure -----------------------------------------------------------------------------


def test_sends_beyond_the_permits_wait_for_room_and_are_all_stored(
    cluster: ScriptedCluster, held: Held
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, **FULL) as producer:
            first = await filled(producer, held)
            others = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(9)]
            await waits(producer)
            assert len(held.broker.of(SEND)) == 1
            for count in range(2, 11):
                held.answer()
                await held.arrived(count)
            held.answer()
            results = await asyncio.gather(first, *others)
            assert len({one.msg_id for one in results}) == 10
            assert len(held.broker.of(SEND)) == 10

    asyncio.run(main())


def test_sends_beyond_the_queue_of_the_sender_threads_wait_for_room(
    cluster: ScriptedCluster,
) -> None:
    few: Any = {"async_sender_queue": 1, "async_sender_threads": 1, "send_msg_timeout": LONG_MS}

    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, **few) as producer:
            await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(10)))

    asyncio.run(main())
    assert len(cluster.sends()) == 10


@pytest.mark.parametrize("way", ["send", "request"])
def test_a_call_without_room_in_its_time_is_a_time_out_that_stored_nothing(
    cluster: ScriptedCluster, held: Held, way: str
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, **FULL) as producer:
            first = await filled(producer, held)
            call: Callable[..., Awaitable[object]] = getattr(producer, way)
            with pytest.raises((SendTimeoutError, RequestTimeoutException)) as caught:
                await call(Message("T", b"x"), timeout=60)
            error = caught.value
            if isinstance(error, SendTimeoutError):
                assert "its 60 ms (send_msg_timeout) waiting for room" in str(error)
                assert "client_async_permits is 1" in str(error)
                assert error.attempts
                assert not error.possibly_stored
            held.answer_all()
            await first

    asyncio.run(main())
    assert len(held.broker.of(SEND)) == 1


def test_a_oneway_send_waits_while_the_connection_takes_no_more(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter([True, True, False])
    write = TcpChannel.invoke_oneway

    def full(self: TcpChannel, command: RemotingCommand, timeout_ms: float) -> None:
        if command.code == SEND and next(refusals):
            raise RemotingTooMuchRequestException("bytes wait to be written")
        write(self, command, timeout_ms)

    monkeypatch.setattr(TcpChannel, "invoke_oneway", full)

    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            await producer.send_oneway(Message("T", b"x"))
            await asyncio.to_thread(cluster.brokers[0].wait_for, SEND)

    asyncio.run(main())
    assert list(refusals) == []


def test_a_recall_without_room_in_its_time_tells_the_refusal(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            producer.config.send_msg_timeout = 30

            def full(*_: object) -> str:
                raise RemotingTooMuchRequestException("too many calls")

            monkeypatch.setattr(producer._threaded, "recall_message", full)
            with pytest.raises(RemotingTooMuchRequestException, match="too many calls"):
                await producer.recall("T", "handle")

    asyncio.run(main())


def test_a_call_that_waits_for_a_thread_waits_for_room(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            answers = iter([True, True])
            instance = type(producer._threaded._running().instance)
            full = property(lambda _: next(answers, False))
            monkeypatch.setattr(instance, "has_callbacks_waiting", full)
            with pytest.raises(TooManySendsError, match="wait for a thread"):
                producer._threaded.in_background(int)
            assert await producer.fetch_publish_message_queues("T")

    asyncio.run(main())


def test_the_end_of_the_producer_ends_who_waits_for_room(
    cluster: ScriptedCluster, held: Held
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, **FULL) as producer:
            first = await filled(producer, held)
            second = asyncio.create_task(producer.send(Message("T", b"x")))
            await waits(producer)
            ending = asyncio.create_task(producer.shutdown(GUARD_S))
            with pytest.raises(ClientClosedError, match="no broker has the message"):
                await second
            held.answer_all()
            await asyncio.gather(first, ending)

    asyncio.run(main())


# --- cancellation ------------------------------------------------------------------------------


class Log:
    """All that was logged so far."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def has(self, text: str) -> bool:
        return text in self._caplog.text


async def cancelled(task: asyncio.Task[Any]) -> aio.SendCancelledError:
    """Cancel a task; give what its error says of the message."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert type(caught.value) is asyncio.CancelledError  # asyncio.timeout of 3.11 looks at this
    found = aio.cancelled_send(caught.value)
    assert found is not None
    assert found.topic == "T"
    return found


def test_cancelling_a_send_in_flight_is_not_taking_it_back_and_its_end_is_logged(
    cluster: ScriptedCluster, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rocketmq_py")
    ends = [0, ResponseCode.SYSTEM_BUSY]

    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:
            for number, code in enumerate(ends, 1):
                message = Message("T", b"x")
                task = asyncio.create_task(producer.send(message))
                await held.arrived(number)
                error = await cancelled(task)
                assert error.possibly_stored
                assert error.msg_id == message.properties["UNIQ_KEY"]
                assert "may have it, or get it yet" in str(error)
                held.answer(1, code)
                said = "was stored all the same" if code == 0 else "failed"
                told = f"cancelled send {said} topic=T msg_id={error.msg_id}"
                await asyncio.to_thread(until, partial(Log(caplog).has, told))

    asyncio.run(main())


def test_a_cancelled_send_that_waited_for_room_is_never_sent(
    cluster: ScriptedCluster, held: Held
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, **FULL) as producer:
            first = await filled(producer, held)
            second = asyncio.create_task(producer.send(Message("T", b"second")))
            await waits(producer)
            error = await cancelled(second)
            assert not error.possibly_stored
            assert "no broker has it, and none gets it" in str(error)
            held.answer_all()
            await first
            await producer.send(Message("T", b"third"))

    asyncio.run(main())
    assert [one.body for one in held.broker.of(SEND)] == [b"first", b"third"]


def test_a_cancelled_oneway_send_that_waited_for_a_thread_is_never_sent(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:
            instance = producer._threaded._running().instance
            later: list[Callable[[], object]] = []
            with monkeypatch.context() as patch:
                patch.setattr(
                    instance,
                    "submit_callback",
                    lambda task, *args: later.append(partial(task, *args)),
                )
                task = asyncio.create_task(producer.send_oneway(Message("T", b"x")))
                await asyncio.sleep(0)
                error = await cancelled(task)
            assert not error.possibly_stored
            (begin,) = later
            begin()
            assert (await producer.send(Message("T", b"y"))).msg_id

    asyncio.run(main())
    assert [one.body for one in cluster.sends()] == [b"y"]


@pytest.mark.parametrize("code", [0, ResponseCode.MESSAGE_ILLEGAL])
def test_a_send_that_is_cancelled_when_its_outcome_is_there_knows_it(
    cluster: ScriptedCluster, held: Held, code: int
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:
            task = asyncio.create_task(producer.send(Message("T", b"x")))
            await held.arrived(1)
            sender = producer._threaded._running().sender
            held.answer(1, code)
            until(
                lambda: len(sender.unfinished) == 0
            )  # the loop stands still: its task does not know yet
            error = await cancelled(task)
            assert error.possibly_stored == (code == 0)

    asyncio.run(main())


def test_a_time_out_of_asyncio_knows_the_send_that_it_ended(
    cluster: ScriptedCluster, held: Held
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:

            async def limited() -> None:
                async with asyncio.timeout(None) as limit:
                    arriving = asyncio.ensure_future(held.arrived(1))
                    arriving.add_done_callback(lambda _: limit.reschedule(0))
                    await producer.send(Message("T", b"x"))

            with pytest.raises(TimeoutError) as caught:
                await limited()
            found = aio.cancelled_send(caught.value)
            assert found is not None
            assert found.possibly_stored
            held.answer_all()

            with pytest.raises(TimeoutError) as waited:
                await asyncio.wait_for(producer.send(Message("T", b"x" * 100)), 0)
            assert aio.cancelled_send(waited.value) is None  # it had not begun

    asyncio.run(main())


def test_a_task_group_ends_by_the_error_of_one_task_and_not_by_cancelled_sends(
    cluster: ScriptedCluster, held: Held
) -> None:
    async def fail() -> None:
        await held.arrived(1)
        raise ZeroDivisionError

    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:

            async def both() -> None:
                async with asyncio.TaskGroup() as group:
                    group.create_task(producer.send(Message("T", b"x")))
                    group.create_task(fail())

            with pytest.raises(ExceptionGroup) as caught:
                await both()
            assert [type(one) for one in caught.value.exceptions] == [ZeroDivisionError]
            held.answer_all()

    asyncio.run(main())


def test_a_cancelled_recall_is_a_plain_cancellation(cluster: ScriptedCluster) -> None:
    cluster.brokers[0].silent(RequestCode.RECALL_MESSAGE)

    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            task = asyncio.create_task(producer.fetch_publish_message_queues("T"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert aio.cancelled_send(caught.value) is None

    asyncio.run(main())
