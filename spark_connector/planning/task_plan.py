"""Which ranges of which queues one task reads: tasks are about equal in bytes, not in queues.

A task has a price of its own, far above that of a queue, so small queues share one and a large
queue is cut. A pure calculation. Must not know Spark or the network. Read on: ``queue_ranges.py``,
``message_sizes.py`` for where the sizes come from.
"""

from collections.abc import Iterable, Mapping

from attrs import frozen

from spark_connector.planning.queue_ranges import QueueRange

TASK_BYTES = 8 << 20
"""A task of fewer bytes costs more to start than to run, even on a core with nothing to do;"""
TASK_BYTES_AGAIN = 32 << 20
"""one after another on the same core has to be larger: to start it takes as long as 5 MiB more;"""
TASK_BYTES_MOST = 512 << 20
"""one of more bytes repeats too much when it fails."""
TASKS_A_CORE = 4
"""So many where there is enough to read, so that a core that is done early finds another task."""
QUEUE_BYTES = 16 << 10
"""To ask one queue more takes about as long as to read so many bytes."""
MESSAGE_BYTES = 1024.0
"""How large a stored message is taken to be when nobody knows."""
SLACK = 0.1
"""A task may be so much larger or smaller than others, so that fewer queues are cut."""

Task = tuple[QueueRange, ...]


@frozen
class TaskBounds:
    """What users say of tasks (None: nothing), and how many cores there are to run them."""

    cores: int = 1
    tasks_least: int | None = None
    tasks_most: int | None = None
    records_most: int | None = None

    def count(self, total_bytes: float, offsets: int) -> int:
        """Return how many tasks there are to be for so much.

        ``records_most`` counts more than ``tasks_most``: it is there to keep tasks small.
        """
        rounds = min(total_bytes // (TASK_BYTES_AGAIN * self.cores), TASKS_A_CORE)
        count = max(min(-(-total_bytes // TASK_BYTES), self.cores), rounds * self.cores)
        count = max(count, -(-total_bytes // TASK_BYTES_MOST), self.tasks_least or 1)
        count = min(count, self.tasks_most or count, offsets)
        if self.records_most is not None:
            count = max(count, -(-offsets // self.records_most))
        return int(count)


def plan(
    ranges: Iterable[QueueRange], bounds: TaskBounds, sizes: Mapping[str, float]
) -> list[Task]:
    """Divide ranges into tasks, in their order; empty ones are left out.

    ``sizes`` are the mean bytes of a stored message by topic.

    >>> whole = QueueRange("T", "b", 0, 0, 10), QueueRange("T", "b", 1, 0, 2)
    >>> tasks = plan(whole, TaskBounds(tasks_least=3), {"T": 1e6})
    >>> [[len(part) for part in task] for task in tasks]
    [[4], [4], [2, 2]]
    """
    present = [one for one in ranges if len(one)]
    costs = [sizes.get(one.topic, MESSAGE_BYTES) + QUEUE_BYTES / len(one) for one in present]
    offsets = sum(map(len, present))
    total = sum(len(one) * cost for one, cost in zip(present, costs, strict=True))
    filling = _Filling(total, bounds.count(total, offsets), bounds.records_most or offsets)
    for one, cost in zip(present, costs, strict=True):
        start = one.start
        while start < one.until:
            past = start + filling.take(one.until - start, cost)
            filling.task.append(one if past - start == len(one) else one.part(start, past))
            start = past
            filling.close_when_full()
    filling.close()
    return filling.tasks


class _Filling:
    """Tasks that are filled one after the other; each gets its share of what is left."""

    def __init__(self, total: float, count: int, records_most: int) -> None:
        self.tasks: list[Task] = []
        self.task: list[QueueRange] = []
        self._left = total
        self._count = count
        self._records_most = records_most
        self._begin()

    def take(self, offsets: int, cost: float) -> int:
        """Return how many of a queue's next offsets belong to this task."""
        slack = SLACK * self._share
        is_last = self._count <= 1
        if self.task and not is_last and self._room <= slack < offsets * cost - self._room:
            self.close()  # better none of this queue than a sliver
            is_last = self._count <= 1
        fit = offsets
        if not is_last and offsets * cost > self._room + SLACK * self._share:
            fit = min(max(1, round(self._room / cost)), offsets)
        fit = min(fit, self._records)
        self._is_full = fit < offsets
        self._records -= fit
        self._room -= fit * cost
        self._left -= fit * cost
        return fit

    def close_when_full(self) -> None:
        """Begin the next task unless more goes into this one."""
        is_last = self._count <= 1
        if self._is_full or not self._records or (not is_last and self._room <= 0):
            self.close()

    def close(self) -> None:
        """Begin the next task, if there is something in this one."""
        if self.task:
            self.tasks.append(tuple(self.task))
            self.task = []
            self._count = max(1, self._count - 1)
            self._begin()

    def _begin(self) -> None:
        self._share = self._room = self._left / max(1, self._count)
        self._records = self._records_most
        self._is_full = False
