"""The life of an asyncio administrator, and how its acts ask: through futures, which are awaited.

Must not know what an act does. Read on: ``admin.py`` for the calls,
``../administration/servers.py`` for the other way to ask.
"""

import asyncio
from collections.abc import Hashable, Mapping
from datetime import timedelta
from typing import NoReturn, Self, TypeVar

from attrs import define, setters

from rocketmq_py.administration.servers import Servers
from rocketmq_py.administration.settings import AdminConfig
from rocketmq_py.aio.home import Home, to_its_end
from rocketmq_py.client.asking import Asker, Question
from rocketmq_py.client.caller import Caller
from rocketmq_py.client.life import PATIENCE_S, checked_patience
from rocketmq_py.config import explained
from rocketmq_py.errors import NotStartedError, RocketMQError

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


class _OnLoop(Servers):
    """Asks without blocking the event loop that awaits the act."""

    def __init__(self, config: AdminConfig, asker: Asker) -> None:
        super().__init__(config)
        self._asker = asker

    async def all(self, questions: Mapping[_K, Question[_T]]) -> dict[_K, _T | RocketMQError]:
        """Ask side by side; other tasks go on meanwhile."""
        return await asyncio.wrap_future(
            self._asker.ask_many(questions, self.config.timeout_millis)
        )

    async def name_servers(self) -> tuple[str, ...]:
        """Give their addresses; other tasks go on while a domain is asked for them."""
        return await asyncio.wrap_future(self._asker.name_servers())

    async def pause(self, seconds: float) -> None:
        """Let other tasks go on for a moment."""
        await asyncio.sleep(seconds)


class _Engine(Caller):
    """The client of threads behind the face."""

    def _who(self) -> str:
        return "aio.AdminClient"

    @property
    def state(self) -> str:
        """What it is now: new, running or closed."""
        return self._life.state

    @property
    def asker(self) -> Asker:
        """Who asks; raises unless it runs."""
        return Asker(self._instance)


@explained
@define(kw_only=True, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class AwaitedAdmin(AdminConfig):
    """Calls are possible between `start` and `shutdown`, or inside ``async with``."""

    def __attrs_post_init__(self) -> None:
        self._home = Home(self)
        self._engine: _Engine | None = None

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Make calls possible; connections are opened when first needed.

        Raises `MQClientException` for a second start, `ClientClosedError` after `shutdown`.
        """
        self._home.take()
        engine = self._engine
        if engine is None:
            engine = self._engine = _Engine.of(self)
        try:
            await asyncio.to_thread(engine.start)
        except asyncio.CancelledError:
            asyncio.get_running_loop().run_in_executor(None, engine.shutdown, 0)
            raise
        self._fix()

    async def shutdown(self, timeout: float | timedelta = PATIENCE_S) -> None:
        """End it within little more than ``timeout`` seconds; may be called again.

        It goes on when the task that awaits it is cancelled.
        """
        patience = checked_patience(timeout)
        if self._engine is None:
            self._engine = _Engine.of(self)
        await to_its_end(self._engine.shutdown, patience)

    @property
    def is_running(self) -> bool:
        """Whether it is started and not yet shut down; never in a forked child."""
        return self._engine is not None and self._engine.is_running

    async def __aenter__(self) -> Self:
        """Start, unless it is running already."""
        if not self.is_running:
            await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.shutdown()

    def __repr__(self) -> str:
        state = "new" if self._engine is None else self._engine.state
        return f"aio.AdminClient({self.namesrv_addr!r}, {state})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an administrator cannot be pickled: pickle AdminConfig.of(it) and start one there"
        )

    @property
    def _servers(self) -> Servers:
        self._home.take()
        if self._engine is None:
            raise NotStartedError(f"{self!r} is not started: await start(), or use async with")
        return _OnLoop(self, self._engine.asker)
