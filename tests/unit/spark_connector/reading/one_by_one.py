"""What the tests' brokers do with several pulls at once: answer them one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from rocketmq_py import MessageQueue, RawPull


class OneByOne:
    """Has a `pull`, and so `pull_many`."""

    pull: Any

    def pull_many(
        self, queue: MessageQueue, stretches: Sequence[tuple[int, int]], **given: object
    ) -> list[Future[RawPull]]:
        """Answer each as if it were asked for by itself."""
        return [self.pull(queue, offset, count, **given) for offset, count in stretches]
