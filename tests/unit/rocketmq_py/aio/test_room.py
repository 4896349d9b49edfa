"""Who waits for room goes on in order, when there is a reason, and no longer than its time."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.aio import room as room_module
from rocketmq_py.aio.room import LOOKS_MAX, Room

LONG_S = 20.0
NEVER_S = 1_000.0


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_as_many_go_on_as_are_let_in_those_first_that_have_waited_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room_module, "LOOK_EVERY_S", NEVER_S)

    async def main() -> None:
        room, order = Room(asyncio.get_running_loop()), []

        async def wait(number: int) -> None:
            assert await room.wait(LONG_S)
            order.append(number)

        tasks = [asyncio.create_task(wait(number)) for number in range(4)]
        await turns()
        room.let_in(2)
        await turns()
        assert order == [0, 1]
        room.let_in(5)
        await turns()
        assert order == [0, 1, 2, 3]
        assert not room.is_wanted
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_a_wait_has_an_end_and_none_at_all_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "LOOK_EVERY_S", NEVER_S)

    async def main() -> None:
        room = Room(asyncio.get_running_loop())
        assert not await room.wait(0)
        assert not await room.wait(0.01)
        room.let_in(1)  # who has ended is passed over
        assert not room.is_wanted

    asyncio.run(main())


def test_a_cancelled_wait_gives_its_turn_to_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "LOOK_EVERY_S", NEVER_S)

    async def main() -> None:
        room = Room(asyncio.get_running_loop())
        first, second = (asyncio.create_task(room.wait(LONG_S)) for _ in range(2))
        await turns()
        room.let_in(1)
        first.cancel()
        assert await second
        third = asyncio.create_task(room.wait(LONG_S))
        await turns()
        third.cancel()  # it had no turn
        with pytest.raises(asyncio.CancelledError):
            await third

    asyncio.run(main())


def test_after_a_pause_some_try_again_by_themselves_until_nobody_waits() -> None:
    async def main() -> None:
        room = Room(asyncio.get_running_loop())
        waiting = [room.wait(LONG_S) for _ in range(LOOKS_MAX * 2 + 1)]
        assert all(await asyncio.gather(*waiting))
        assert not room.is_wanted

    asyncio.run(main())


def test_a_closed_room_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "LOOK_EVERY_S", NEVER_S)

    async def main() -> None:
        room = Room(asyncio.get_running_loop())
        waiting = asyncio.create_task(room.wait(LONG_S))
        await turns()
        room.close()
        assert await waiting
        assert await room.wait(LONG_S)
        assert room.is_closed

    asyncio.run(main())
