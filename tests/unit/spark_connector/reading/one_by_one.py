"""What the tests' brokers do with several pulls at once: answer them one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from attrs import frozen

from rocketmq_py import MessageQueue
from rocketmq_py.raw import PulledRun, RawPull


@frozen
class Answers:
    """A `PulledRun` whose answers are looked at one by one."""

    answers: list[Future[RawPull]]

    def __len__(self) -> int:
        return len(self.answers)

    def answer(self, number: int) -> RawPull:
        """Return one of them, or raise its error."""
        return self.answers[number].result(0)

    def records(self, until: int) -> list[bytes] | None:
        """Say that each must be looked at."""


class OneByOne:
    """Has a `pull`, and so `pull_run`."""

    pull: Any

    def pull_run(
        self, queue: MessageQueue, offsets: Sequence[int], count: int, **given: object
    ) -> Future[PulledRun]:
        """Answer each as if it were asked for by itself."""
        answers = [self.pull(queue, offset, count, **given) for offset in offsets]
        together: Future[Any] = Future()

        def told(_answer: Future[RawPull]) -> None:
            if all(answer.done() for answer in answers) and not together.done():
                together.set_result(Answers(answers))

        for answer in answers:
            answer.add_done_callback(told)
        return together
