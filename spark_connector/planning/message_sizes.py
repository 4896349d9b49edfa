"""How large the messages of each queue are about, by samples of what is read next.

Only for a limit of bytes. Queues differ, and so do the parts of one queue, so that each is looked
at again where it goes on; all at once, and no more of them than `SAMPLED_MOST` for one micro-batch.
The others count as the mean of what is known. Must not know limits. Read on: ``backlog.py``.
"""

from collections.abc import Mapping
from concurrent.futures import Future

from attrs import define, field

from rocketmq_py import MessageQueue, QueueAccess, RawPull
from spark_connector.servers.access import SERVER_ERRORS

SAMPLE_MESSAGES = 32
SAMPLED_MOST = 64
UNKNOWN_SIZE = 1024.0


@define
class MessageSizes:
    """Keeps the mean stored size of a message of each queue. One thread uses it."""

    _access: QueueAccess
    _known: dict[MessageQueue, tuple[int, float]] = field(factory=dict, init=False)

    def of(self, begins: Mapping[MessageQueue, int]) -> dict[MessageQueue, float]:
        """Return the sizes by where each queue goes on; one that does not answer has its last."""
        news = [q for q, begin in begins.items() if self._known.get(q, (-1, 0.0))[0] != begin]
        # Those that were never looked at first, then those whose look is the oldest.
        news.sort(key=lambda queue: self._known.get(queue, (-1, 0.0))[0] >= 0)
        asked = {queue: self._ask(queue, begins[queue]) for queue in news[:SAMPLED_MOST]}
        for queue, answer in asked.items():
            size = _mean_of(answer, begins[queue])
            if size is not None:
                self._known.pop(queue, None)
                self._known[queue] = begins[queue], size
        known = {queue: self._known[queue][1] for queue in begins if queue in self._known}
        mean = sum(known.values()) / len(known) if known else UNKNOWN_SIZE
        return {queue: known.get(queue, mean) for queue in begins}

    def _ask(self, queue: MessageQueue, begin: int) -> Future[RawPull] | None:
        try:
            return self._access.pull(queue, begin, SAMPLE_MESSAGES)
        except SERVER_ERRORS:
            return None


def _mean_of(asked: Future[RawPull] | None, begin: int) -> float | None:
    """Return the bytes of a message, none for an answer without any."""
    if asked is None:
        return None
    try:
        sample = asked.result()
    except SERVER_ERRORS:
        return None
    if not sample.found or sample.next_offset <= begin:
        return None
    return len(sample.records) / (sample.next_offset - begin)
