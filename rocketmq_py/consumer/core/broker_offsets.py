"""Offsets of a consumer group, kept by the brokers of the queues.

They are written one-way: every few seconds, as soon as a queue's cache runs empty (at most every 50
ms), when a queue goes away and at shutdown. Facts: `RemoteBrokerOffsetStore`.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.offset_table import OffsetTable
from rocketmq_py.errors import RocketMQError
from rocketmq_py.send_result import MessageQueue

SOON_MS: Final = 50
"""Writes caused by an empty cache are at least this far apart."""


class BrokerOffsets(OffsetTable):
    """Offsets that brokers keep. Every call is safe from any thread."""

    def __init__(self, engine: ClientInstance, calls: ConsumerCalls) -> None:
        super().__init__(engine, SOON_MS)
        self._calls = calls

    @contextmanager
    def riding(self, queue: MessageQueue) -> Iterator[int]:
        """Give the offset that rides along with a pull; no larger one is written meanwhile."""
        known = self._table.get(queue)
        if known is None:
            yield -1
            return
        with known.turn:
            yield known.value

    def load(self, queue: MessageQueue) -> int | None:
        """Read the stored offset, None when there is none; RocketMQError when nobody answers."""
        stored = self._calls.stored_offset(queue)
        if stored is None or stored < 0:
            return None
        self.update(queue, stored, increase_only=False)
        return stored

    def _write(self, queues: Collection[MessageQueue], *, changed_only: bool = False) -> None:
        """Tell the brokers; a failure is logged, the next write repairs it."""
        for queue in queues:
            known = self._table.get(queue)
            if known is None or (changed_only and known.written == known.value):
                continue
            with known.turn:
                value = known.value
                try:
                    self._calls.store_offset(queue, value)
                except RocketMQError as error:
                    what = f"writing offset {value} of {queue}"
                    self._engine.unreachable.failed(queue.broker_name, what, error)
                else:
                    known.written = value
