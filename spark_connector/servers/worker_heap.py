"""What a worker of Spark has loaded, put out of its garbage collector's sight.

`pyspark.daemon` makes each of its workers collect all garbage after a task, before it takes the
next one. That looks at every object that pyarrow, pandas and this package made when they were
loaded: about 35 ms, many times what else a small task costs. Must not know what tasks do.
"""

import gc
import sys

from attrs import define


@define
class WorkerHeap:
    """The objects of one process, and the first task that it was seen in."""

    first: object = None
    is_frozen: bool = False

    def settle(self, task: object) -> None:
        """Freeze all objects when a second task begins: the first one has loaded what all need.

        Spark has collected the garbage of the first one by then. Done once. A frozen object is
        still freed when nothing refers to it; only a cycle of such objects stays.
        """
        if self.is_frozen:
            return
        if self.first is None:
            self.first = task
        elif task != self.first:
            gc.freeze()
            self.is_frozen = True


_heap = WorkerHeap()


def settle() -> None:
    """Say that a task begins; only a worker of `pyspark.daemon` is settled, no user's process."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == "pyspark.daemon":
        _heap.settle(_task())


def _task() -> object:
    """Return the number of this task; what plans has none: there each call is a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return object() if context is None else context.taskAttemptId()
