"""How an act asks: the one thing that differs between a blocking client and an event loop.

`Servers` is what acts see. `Blocking` asks on the caller's thread, so none of its awaits suspends
and `finished` runs a whole act in one step. The other one is in ``../aio/administration.py``. Must
not know what is asked.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Hashable, Mapping
from typing import Any, TypeVar

from rocketmq_py.administration.settings import AdminConfig
from rocketmq_py.client.asking import Asker, Question
from rocketmq_py.client.fan_out import value_of
from rocketmq_py.errors import RocketMQError

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


class Servers(ABC):
    """Whom an act asks; ``config`` are the settings of its client."""

    def __init__(self, config: AdminConfig) -> None:
        self.config = config

    @abstractmethod
    async def all(self, questions: Mapping[_K, Question[_T]]) -> dict[_K, _T | RocketMQError]:
        """Ask side by side; each question has its answer, or why there is none."""

    @abstractmethod
    async def pause(self, seconds: float) -> None:
        """Wait a moment before something is asked again."""

    @abstractmethod
    async def name_servers(self) -> tuple[str, ...]:
        """Give the addresses of the name servers; NameServerUnavailableError without any."""

    async def one(self, question: Question[_T]) -> _T:
        """Ask one question, and raise why it has no answer."""
        return value_of((await self.all({"": question}))[""])

    async def each(self, questions: Mapping[_K, Question[_T]]) -> dict[_K, _T]:
        """Ask side by side and raise the first failure, with a note of who did answer."""
        answers = await self.all(questions)
        done: dict[_K, _T] = {}
        failures: list[RocketMQError] = []
        for key, answer in answers.items():
            if isinstance(answer, RocketMQError):
                failures.append(answer)
            else:
                done[key] = answer
        if failures:
            if done:
                failures[0].add_note(f"{', '.join(map(str, done))} did it, the others did not")
            raise failures[0]
        return done


class Blocking(Servers):
    """Asks and waits on the thread that calls."""

    def __init__(self, config: AdminConfig, asker: Asker) -> None:
        super().__init__(config)
        self._asker = asker

    async def all(self, questions: Mapping[_K, Question[_T]]) -> dict[_K, _T | RocketMQError]:
        """Ask side by side and wait."""
        return self._asker.ask_all(questions, self.config.timeout_millis)

    async def name_servers(self) -> tuple[str, ...]:
        """Give their addresses; waits while a domain is asked for them."""
        return self._asker.name_servers().result()

    async def pause(self, seconds: float) -> None:
        """Wait a moment."""
        threading.Event().wait(seconds)


def finished(act: Coroutine[Any, Any, _T]) -> _T:
    """Run an act whose servers are `Blocking`, and return what it returns."""
    try:
        act.send(None)
    except StopIteration as end:
        result: _T = end.value
        return result
    act.close()
    raise RuntimeError("an act that is not awaited has suspended: its servers are of an event loop")
