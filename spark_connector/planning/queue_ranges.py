"""A range of offsets of one queue.

Must not know Spark or the network. Read on: ``task_plan.py`` for how ranges become tasks,
``reading/pulling.py`` for how one is read.
"""

from attrs import frozen


@frozen
class QueueRange:
    """Offsets `start` to before `until` of one queue, and its master's address when known."""

    topic: str
    broker_name: str
    queue_id: int
    start: int
    until: int
    address: str | None = None

    def __len__(self) -> int:
        return max(0, self.until - self.start)

    def __str__(self) -> str:
        place = f"topic {self.topic}, broker {self.broker_name}, queue {self.queue_id}"
        return f"{place}, offsets {self.start} to {self.until}"

    def part(self, start: int, until: int) -> "QueueRange":
        """Return some of it."""
        return QueueRange(self.topic, self.broker_name, self.queue_id, start, until, self.address)
