"""How large the messages of a topic are, about: tasks are planned by bytes, brokers tell offsets.

One pull of a few messages for each of the topics with the most to read, all at once; who does not
answer soon is not waited for. What is found out counts for a while. Must not know what it is used
for. Read on: ``task_plan.py``.
"""

from collections.abc import Iterable
from concurrent.futures import Future, wait
from functools import partial

from rocketmq_py import MessageQueue, QueueAccess, RawPull
from rocketmq_py.clock import monotonic
from spark_connector.options.read_options import ReadOptions
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.servers.access import SERVER_ERRORS
from spark_connector.servers.back_off import PATIENCE_S

SAMPLE_MESSAGES = 32
TOPICS_MOST = 32
WORTH_A_SAMPLE = 1_000
"""Topics with fewer offsets to read are not asked about: their messages count as"""
UNKNOWN_BYTES = 16384.0
"""so large, lest a task gets very many large ones."""
FRESH_S = 300.0
"""For so long a sample counts, and so does that there was none."""


class MessageSizes:
    """Keeps how many bytes an offset of each topic brings, filtered or not. One thread uses it."""

    def __init__(self, access: QueueAccess, options: ReadOptions) -> None:
        self._access = access
        self._options = options
        self._known: dict[str, tuple[float | None, float]] = {}

    def of(self, ranges: Iterable[QueueRange]) -> dict[str, float]:
        """Return the sizes of the topics of some ranges; who did not answer has none."""
        fullest: dict[str, QueueRange] = {}
        totals: dict[str, int] = {}
        for one in ranges:
            totals[one.topic] = totals.get(one.topic, 0) + len(one)
            if one.topic not in fullest or len(one) > len(fullest[one.topic]):
                fullest[one.topic] = one
        options = self._options
        if len(totals) == 1 and options.min_partitions == options.max_partitions is not None:
            return {}  # whoever says how many tasks there are asks for nothing else
        now = monotonic()
        unknown = [
            topic
            for topic, total in totals.items()
            if total >= WORTH_A_SAMPLE and now >= self._known.get(topic, (None, 0.0))[1]
        ]
        unknown.sort(key=lambda topic: -totals[topic])
        asked = {topic: self._asked(fullest[topic]) for topic in unknown[:TOPICS_MOST]}
        if asked:
            wait(asked.values(), PATIENCE_S)
        for topic, answer in asked.items():
            self._known[topic] = _mean(answer, fullest[topic].start), now + FRESH_S
        found: dict[str, float] = {}
        for topic, total in totals.items():
            size, _ = self._known.get(topic, (None, 0.0))
            if size is None and total < WORTH_A_SAMPLE:
                size = UNKNOWN_BYTES
            if size is not None:
                found[topic] = size
        return found

    def _asked(self, one: QueueRange) -> Future[RawPull]:
        queue = MessageQueue(one.topic, one.broker_name, one.queue_id)
        options = self._options
        pull = partial(self._access.pull, address=one.address, expression=options.expression)
        if options.group_id:
            pull = partial(pull, group=options.group_id)
        try:
            kind = options.expression_type
            return pull(queue, one.start, SAMPLE_MESSAGES, expression_type=kind)
        except SERVER_ERRORS as error:
            failed: Future[RawPull] = Future()
            failed.set_exception(error)
            return failed


def _mean(answer: Future[RawPull], start: int) -> float | None:
    if not answer.done() or answer.exception() is not None:
        return None
    found = answer.result()
    offsets = found.next_offset - start
    return len(found.records) / offsets if found.found and offsets > 0 else None
