"""Bytes that tasks pull are added up for each micro-batch, and old batches are forgotten."""

from __future__ import annotations

import pickle

from pyspark.accumulators import Accumulator

from spark_connector.servers import tally
from spark_connector.servers.tally import KEPT_BATCHES, Pulled, TallyParam, bytes_of


class Context:
    """Stands for the application's context, which makes the accumulator."""

    def accumulator(self, value: tally.Bytes, param: TallyParam) -> tally.Tally:
        return Accumulator(-77, value, param)


def test_tasks_of_a_batch_add_up_on_the_driver(task: dict[str, str]) -> None:
    context = Context()
    kept = tally.tally_of(context)
    assert tally.tally_of(context) is kept
    sent = pickle.loads(pickle.dumps(kept))  # noqa: S301 - pickled by this test
    assert sent is kept  # as in one process; what travels is empty
    task |= {"sql.streaming.queryId": "q", "streaming.sql.batchId": "3"}
    for count in (10, 5):
        pulled = Pulled(kept)
        pulled.bytes += count
        pulled.tell()
    assert bytes_of("q", 3) == 15
    assert (bytes_of("q", 4), bytes_of("other", 3)) == (None, None)
    Pulled(None).tell()
    task.clear()
    Pulled(kept).tell()  # of a batch read: nobody asks
    assert kept.value == {("q", 3): 15}


def test_only_the_last_batches_are_kept() -> None:
    param = TallyParam()
    total = param.zero({("q", 0): 1})
    assert total == {}
    for batch in range(KEPT_BATCHES + 5):
        total = param.addInPlace(total, {("q", batch): 1})
    assert len(total) == KEPT_BATCHES
    assert ("q", 4) not in total
