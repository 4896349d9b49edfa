"""The trace of one client as its hooks see it: where it goes, ids for it, and how it ends.

Answers: what must exist for a client that is started with ``enable_trace``. The hooks themselves
are ``producer/tracing.py`` and ``consumer/tracing.py``. Must not know what they note.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from rocketmq_py.client.background import WorkerPool
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.pool import local_address
from rocketmq_py.protocol.handles import UniqIdGenerator
from rocketmq_py.trace.dispatcher import Dispatcher
from rocketmq_py.trace.outlet import InstanceOutlet
from rocketmq_py.trace.records import TraceRecord
from rocketmq_py.trace.topics import Places, TraceSettings

Put = Callable[[str, Sequence[TraceRecord]], None]
"""Takes records, and the region of their messages. It waits for nobody."""


class Tracing:
    """The trace of one client: `put` what its hooks note, and `close` it when it ends."""

    def __init__(
        self,
        settings: TraceSettings,
        instance: ClientInstance,
        group: str,
        kind: Literal["PRODUCE", "CONSUME"],
    ) -> None:
        ids = UniqIdGenerator(local_address())
        self.places = Places.of(settings)
        self.new_id = ids.next
        self._dispatcher = Dispatcher(
            f"trace of {group}",
            InstanceOutlet(instance, group, kind, ids),
            WorkerPool("rocketmq-trace", 1, schedule_after=instance.schedule_after),
            instance.schedule_after,
        )

    def put(self, region: str, records: Sequence[TraceRecord]) -> None:
        """Let records about messages of a region be sent soon."""
        self._dispatcher.put(self.places.topic_of(region), records)

    def close(self, timeout: float) -> None:
        """Send what waits, for a second at most."""
        self._dispatcher.close(timeout)
