"""The asyncio producer under uvloop and under anyio."""

from __future__ import annotations

import asyncio

import anyio
import pytest
import uvloop

from rocketmq_py import IllegalStateError, Message, aio
from tests.unit.rocketmq_py.aio.conftest import Held
from tests.unit.rocketmq_py.scripted import ScriptedCluster


@pytest.mark.parametrize("debug", [False, True])
def test_uvloop_sends_and_may_end_while_a_send_is_in_flight(
    cluster: ScriptedCluster, held: Held, debug: bool
) -> None:
    with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:

        async def main() -> asyncio.Task[object]:
            sends = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(50)]
            await held.arrived(50)
            held.answer(50)
            assert len({one.msg_id for one in await asyncio.gather(*sends)}) == 50
            last: asyncio.Task[object] = asyncio.create_task(producer.send(Message("T", b"x")))
            await held.arrived(51)
            return last

        with asyncio.Runner(loop_factory=uvloop.new_event_loop, debug=debug) as runner:
            left = runner.run(main())
        assert left.cancelled()
        held.answer_all()


def test_a_cancel_scope_of_anyio_knows_the_cancellation_of_a_send_as_its_own(
    cluster: ScriptedCluster, held: Held
) -> None:
    found: list[aio.SendCancelledError | None] = []

    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:

            async def send(scope: anyio.CancelScope) -> None:
                with scope:
                    try:
                        await producer.send(Message("T", b"x"))
                    except anyio.get_cancelled_exc_class() as error:
                        found.append(aio.cancelled_send(error))
                        raise

            scope = anyio.CancelScope()
            async with anyio.create_task_group() as group:
                group.start_soon(send, scope)
                await held.arrived(1)
                scope.cancel()
            assert scope.cancelled_caught
            held.answer_all()

    anyio.run(main)
    (error,) = found
    assert error is not None
    assert error.possibly_stored


def test_under_trio_the_producer_says_that_it_needs_asyncio(cluster: ScriptedCluster) -> None:
    async def main() -> None:
        with pytest.raises(IllegalStateError, match="needs asyncio"):
            await aio.Producer("G", namesrv_addr=cluster.namesrv_addr).start()

    anyio.run(main, backend="trio")
