"""A block of code commits its message at its end, and rolls it back by any exception."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    DelayConflictError,
    IllegalStateError,
    LocalTransactionState,
    Message,
    MQClientException,
    NotStartedError,
    TooManySendsError,
    aio,
)
from rocketmq_py.aio.engine import LARGE_BODY
from rocketmq_py.errors import RemotingSendRequestException
from rocketmq_py.producer.halves import BegunHalf
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from tests.unit.rocketmq_py.aio.conftest import GUARD_S, SEND, Held
from tests.unit.rocketmq_py.scripted import ScriptedCluster, stored
from tests.waiting import until

END = RequestCode.END_TRANSACTION


def ends(cluster: ScriptedCluster, count: int = 1) -> list[int]:
    """How the broker was told that transactions end."""
    return [
        int(one.ext_fields["commitOrRollback"]) for one in cluster.brokers[0].wait_for(END, count)
    ]


def transact(
    cluster: ScriptedCluster, block: Callable[[BegunHalf], Any], message: Message | None = None
) -> None:
    """Run a block of code in a transaction of its own."""

    async def main() -> None:
        async with (
            aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer,
            producer.transaction(message or Message("T", b"x")) as half,
        ):
            await block(half)

    asyncio.run(main())


async def nothing(_: BegunHalf) -> None:
    pass


@pytest.mark.parametrize("size", [1, LARGE_BODY])
def test_the_end_of_the_block_commits_what_was_stored_unseen(
    cluster: ScriptedCluster, size: int
) -> None:
    async def work(half: BegunHalf) -> None:
        assert half.message_id == half.message.properties["UNIQ_KEY"]
        assert cluster.brokers[0].of(END) == []

    transact(cluster, work, Message("T", b"x" * size))
    assert ends(cluster) == [TRANSACTION_COMMIT]
    (sent,) = cluster.sends()
    assert "TRAN_MSG\1true" in sent.ext_fields["i"]


def test_an_exception_rolls_back_and_goes_on(cluster: ScriptedCluster) -> None:
    async def fail(_: BegunHalf) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transact(cluster, fail)
    assert ends(cluster) == [TRANSACTION_ROLLBACK]


def test_a_shutdown_waits_until_a_rollback_is_handed_over(cluster: ScriptedCluster) -> None:
    told = threading.Event()
    cluster.brokers[0].on(END, lambda *_: told.set())

    async def main() -> None:
        few: Any = {"client_callback_executor_threads": 1}
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, **few) as producer:

            async def fail() -> None:
                async with producer.transaction(Message("T", b"x")):
                    # No thread is free for a while, so that the shutdown comes first.
                    instance = producer._threaded._running().instance
                    instance.submit_callback(told.wait, GUARD_S)
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()

    asyncio.run(main())
    assert ends(cluster) == [TRANSACTION_ROLLBACK]


def test_a_cancelled_block_rolls_back(cluster: ScriptedCluster) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:

            async def work(inside: asyncio.Event) -> None:
                async with producer.transaction(Message("T", b"x")):
                    inside.set()
                    await asyncio.Event().wait()

            inside = asyncio.Event()
            task = asyncio.create_task(work(inside))
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert ends(cluster) == [TRANSACTION_ROLLBACK]


def test_a_task_that_is_cancelled_while_it_begins_leaves_no_open_half_message(
    cluster: ScriptedCluster, held: Held
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:

            async def work() -> None:
                async with producer.transaction(Message("T", b"x")):
                    raise AssertionError("the block must not run")

            task = asyncio.create_task(work())
            await held.arrived(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            held.answer()
            assert await asyncio.to_thread(ends, cluster) == [TRANSACTION_ROLLBACK]

    asyncio.run(main())


def test_what_the_block_has_ended_itself_stays_so(cluster: ScriptedCluster) -> None:
    async def undo(half: BegunHalf) -> None:
        half.end(LocalTransactionState.ROLLBACK_MESSAGE)

    transact(cluster, undo)
    assert ends(cluster) == [TRANSACTION_ROLLBACK]


def test_a_message_that_is_not_stored_safely_is_rolled_back_and_its_block_does_not_run(
    cluster: ScriptedCluster,
) -> None:
    slow = ResponseCode.FLUSH_DISK_TIMEOUT
    cluster.brokers[0].on(SEND, lambda request, _: stored(request, slow))
    with pytest.raises(MQClientException, match=r"not stored safely \(FLUSH_DISK_TIMEOUT\)"):
        transact(cluster, nothing)
    assert ends(cluster) == [TRANSACTION_ROLLBACK]


def test_what_cannot_be_a_transaction_is_said_and_the_block_does_not_run(
    cluster: ScriptedCluster,
) -> None:
    with pytest.raises(DelayConflictError):
        transact(cluster, nothing, Message("T", b"x", delay=timedelta(minutes=1)))
    with pytest.raises(MQClientException):
        transact(cluster, nothing, Message("T", b""))
    cluster.brokers[0].answer(SEND, ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(MQClientException):
        transact(cluster, nothing)
    assert cluster.brokers[0].of(END) == []


def test_a_transaction_is_entered_once_and_by_a_producer_that_runs(
    cluster: ScriptedCluster,
) -> None:
    async def main() -> None:
        producer = aio.Producer("G", namesrv_addr=cluster.namesrv_addr)
        with pytest.raises(NotStartedError):
            await producer.transaction(Message("T", b"x")).__aenter__()
        async with producer:
            transaction = producer.transaction(Message("T", b"x"), timeout=5_000)
            async with transaction:
                with pytest.raises(IllegalStateError, match="entered once"):
                    await transaction.__aenter__()

    asyncio.run(main())
    assert ends(cluster) == [TRANSACTION_COMMIT]


def test_a_commit_that_the_broker_does_not_get_is_raised_and_can_be_repeated(
    cluster: ScriptedCluster,
) -> None:
    refused = [True]

    class Refusing:
        def before_request(self, address: str, request: RemotingCommand) -> None:
            if request.code == END and refused.pop():
                raise RemotingSendRequestException("cut", address=address)

        def after_response(self, *_: object) -> None:
            pass

    halves: list[BegunHalf] = []

    async def main() -> None:
        hooks: Any = {"rpc_hooks": [Refusing()]}
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, **hooks) as producer:
            with pytest.raises(RemotingSendRequestException, match="cut"):
                async with producer.transaction(Message("T", b"x")) as half:
                    halves.append(half)
            refused.append(False)
            await asyncio.wrap_future(halves[0].end(LocalTransactionState.COMMIT_MESSAGE))

    asyncio.run(main())
    assert ends(cluster) == [TRANSACTION_COMMIT]


def test_without_a_free_thread_the_broker_is_told_at_once(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        def full(*_: object) -> None:
            raise TooManySendsError("too many")

        async with (
            aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer,
            producer.transaction(Message("T", b"x")),
        ):
            monkeypatch.setattr(producer._threaded, "in_background", full)

    asyncio.run(main())
    assert ends(cluster) == [TRANSACTION_COMMIT]


def test_the_clock_of_a_test_waits_for_the_block() -> None:
    with EmbeddedBroker(topics=["T"], tcp=False, clock=VirtualClock()) as broker:

        def is_undecided() -> bool:  # the send itself counts for a moment longer
            return "1 transactions undecided" in str(broker.clock.settle(0, check=False).busy)

        async def main() -> None:
            async with aio.Producer("G", namesrv_addr=broker.namesrv_addr) as producer:
                async with producer.transaction(Message("T", b"x")):
                    await asyncio.to_thread(until, is_undecided)
                await broker.aio.settle()
                await broker.aio.wait_delivered("T", 1)

        asyncio.run(main())
