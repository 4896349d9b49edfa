"""How many stored bytes the tasks of a micro-batch pulled, as far as the driver hears of it.

Spark lets Python data sources have no metrics, and counts only rows in its reports. So tasks add to
an accumulator, which Spark carries to the driver, once for each task that succeeds. Connect has no
accumulators. Must not know what is read. Read on: ``../frames/batch_log.py``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from pyspark.accumulators import Accumulator, AccumulatorParam

from spark_connector.servers.task_context import query_and_batch

if TYPE_CHECKING:
    from pyspark import SparkContext

Bytes = dict[tuple[str, int], int]
"""By query and micro-batch."""
Tally: TypeAlias = Accumulator[Bytes]

KEPT_BATCHES = 1_000


class TallyParam(AccumulatorParam[Bytes]):
    """Adds up by batch; keeps those that came last."""

    def zero(self, value: Bytes) -> Bytes:  # noqa: ARG002 - Spark's
        """Return what a task begins with."""
        return {}

    def addInPlace(self, value1: Bytes, value2: Bytes) -> Bytes:  # noqa: N802 - Spark's name
        """Add the second one to the first one."""
        for key, count in value2.items():
            value1[key] = value1.get(key, 0) + count
        while len(value1) > KEPT_BATCHES:
            del value1[next(iter(value1))]
        return value1


_tallies: WeakKeyDictionary["SparkContext", Tally] = WeakKeyDictionary()


def tally_of(context: "SparkContext") -> Tally:
    """Return the tally of an application, made when new. For the driver."""
    tally = _tallies.get(context)
    if tally is None:
        nothing: Bytes = {}
        tally = _tallies[context] = context.accumulator(nothing, TallyParam())
    return tally


def bytes_of(query: str, batch: int) -> int | None:
    """Return how many bytes a micro-batch pulled, None when no task of this driver told."""
    told: list[Mapping[tuple[str, int], int]] = [tally.value for tally in _tallies.values()]
    return next((one[query, batch] for one in told if (query, batch) in one), None)


class Pulled:
    """Counts the bytes that one task pulls. One thread uses it."""

    def __init__(self, tally: Tally | None) -> None:
        self._tally = tally
        self.bytes = 0

    def tell(self) -> None:
        """Add them to what the driver hears of, if this is a task of a query."""
        here = query_and_batch()
        if self._tally is not None and here is not None:
            self._tally.add({here: self.bytes})
