"""How much of a backlog one micro-batch takes.

Pure calculation on numbers of offsets. Must not know queues, brokers or Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from attrs import define

__all__ = ["Limit", "share"]

_K = TypeVar("_K")


@define
class Limit:
    """What one micro-batch may take: offsets, bytes, and how few are not worth one (None: any)."""

    offsets_most: int | None = None
    bytes_most: int | None = None
    offsets_least: int | None = None

    def wants_more(self, total: int) -> bool:
        """Whether so few offsets are not worth a micro-batch yet."""
        return self.offsets_least is not None and total < self.offsets_least

    def admitted(self, backlog: Mapping[_K, int], size_of_one: float) -> dict[_K, int]:
        """Return how many offsets of each queue are taken; a message has about so many bytes."""
        limits = [] if self.offsets_most is None else [self.offsets_most]
        if self.bytes_most is not None:
            limits.append(max(1, int(self.bytes_most / size_of_one)))
        return share(backlog, min(limits)) if limits else dict(backlog)


def share(backlog: Mapping[_K, int], limit: int) -> dict[_K, int]:
    """Split ``limit`` in proportion to the backlogs, never more than there is.

    Every non-empty queue gets at least 1 as long as the limit reaches, so small queues go on.

    >>> share({"big": 900, "small": 10, "empty": 0}, 91)
    {'big': 89, 'small': 2, 'empty': 0}
    """
    total = sum(backlog.values())
    if total <= limit:
        return dict(backlog)
    waiting = [key for key, size in backlog.items() if size]
    shares = dict.fromkeys(backlog, 0)
    # The smallest first: when the limit is below the number of queues, the others come next time.
    order = sorted(waiting, key=lambda key: backlog[key])
    for key in order[:limit]:
        shares[key] = 1
    left = limit - min(limit, len(order))
    rest = total - len(order)
    exact = {key: left * (backlog[key] - 1) / rest if rest else 0.0 for key in waiting}
    for key in waiting:
        shares[key] += int(exact[key]) if shares[key] else 0
    spare = limit - sum(shares.values())
    for key in sorted(waiting, key=lambda one: int(exact[one]) - exact[one]):
        if spare and shares[key] and shares[key] < backlog[key]:
            shares[key] += 1
            spare -= 1
    return shares
