"""How large messages are about: brokers tell offsets, limits and tasks are counted in bytes.

A size is learned by one pull of a few messages where a queue is read next, as the read pulls them,
filter included; all pulls leave at once, and who does not answer soon is not waited for. A limit
asks for queues, because they differ, and so do the parts of one; a plan of tasks asks for topics,
by their fullest queues, and only now and then. Must not know limits or tasks. Read on:
``backlog.py``, ``task_plan.py``.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from functools import partial

from rocketmq_py import MessageQueue
from rocketmq_py.clock import monotonic
from rocketmq_py.raw import QueueAccess, RawPull
from spark_connector.options.read_options import ReadOptions
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.planning.task_plan import MESSAGE_BYTES
from spark_connector.servers.access import SERVER_ERRORS
from spark_connector.servers.back_off import PATIENCE_S

SAMPLE_MESSAGES = 32
QUEUES_MOST = 64
"""So many queues are asked about for one micro-batch; others count as last time, or as the mean."""
TOPICS_MOST = 32
WORTH_A_SAMPLE = 1_000
"""Topics with fewer offsets to read are not asked about: their messages count as"""
UNKNOWN_BYTES = 16384.0
"""so large, lest a task gets very many large ones."""
FRESH_S = 300.0
"""For so long the size of a topic counts, and so does that there was none."""


class MessageSizes:
    """Keeps how many bytes an offset brings, filtered or not. One thread uses it."""

    def __init__(self, access: QueueAccess, options: ReadOptions) -> None:
        self._access = access
        self._options = options
        self._queues: dict[MessageQueue, tuple[int, float]] = {}
        """By queue where it was looked at, and its size; the oldest look comes first."""
        self._topics: dict[str, tuple[float | None, float]] = {}
        """By topic its size, None for none, and until when it counts."""

    def of_queues(self, begins: Mapping[MessageQueue, int]) -> dict[MessageQueue, float]:
        """Return the sizes of queues by where they go on."""
        age = {queue: number for number, queue in enumerate(self._queues)}
        news = [queue for queue, begin in begins.items() if self._at(queue, begin) is None]
        news.sort(key=lambda queue: age.get(queue, -1))
        self._learn({queue: begins[queue] for queue in news[:QUEUES_MOST]})
        known = {queue: self._queues[queue][1] for queue in begins if queue in self._queues}
        mean = sum(known.values()) / len(known) if known else MESSAGE_BYTES
        return {queue: known.get(queue, mean) for queue in begins}

    def of_topics(self, ranges: Iterable[QueueRange]) -> dict[str, float]:
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
            if total >= WORTH_A_SAMPLE and now >= self._topics.get(topic, (None, 0.0))[1]
        ]
        unknown.sort(key=lambda topic: -totals[topic])
        begins = {
            MessageQueue(topic, fullest[topic].broker_name, fullest[topic].queue_id): (
                fullest[topic].start
            )
            for topic in unknown[:TOPICS_MOST]
        }
        news = {queue: at for queue, at in begins.items() if self._at(queue, at) is None}
        self._learn(news)
        for queue, begin in begins.items():
            self._topics[queue.topic] = self._at(queue, begin), now + FRESH_S
        found: dict[str, float] = {}
        for topic, total in totals.items():
            size, _ = self._topics.get(topic, (None, 0.0))
            if size is None and total < WORTH_A_SAMPLE:
                size = UNKNOWN_BYTES
            if size is not None:
                found[topic] = size
        return found

    def _at(self, queue: MessageQueue, begin: int) -> float | None:
        """Return the size that was learned at just this place."""
        at, size = self._queues.get(queue, (-1, 0.0))
        return size if at == begin else None

    def _learn(self, begins: Mapping[MessageQueue, int]) -> None:
        """Ask all of these queues; one that does not answer keeps what is known."""
        asked = {queue: self._asked(queue, begin) for queue, begin in begins.items()}
        if asked:
            wait(asked.values(), PATIENCE_S)
        for queue, answer in asked.items():
            size = _mean(answer, begins[queue])
            if size is not None:
                self._queues.pop(queue, None)
                self._queues[queue] = begins[queue], size

    def _asked(self, queue: MessageQueue, begin: int) -> Future[RawPull]:
        options = self._options
        pull = partial(self._access.pull, expression=options.expression)
        if options.group_id:
            pull = partial(pull, group=options.group_id)
        try:
            return pull(queue, begin, SAMPLE_MESSAGES, expression_type=options.expression_type)
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
