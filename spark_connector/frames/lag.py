"""How far a streaming query is behind, by its own progress reports.

Must not know bytes: a report holds the offsets that were read and the ends of the queues, for which
brokers are asked only when a user says so. Read on: ``../planning/stream_offset.py`` for the form
of these offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from attrs import astuple

from spark_connector.errors import UnknownLagError
from spark_connector.options.positions import in_order
from spark_connector.options.read_options import read_options
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.servers.access import access_for

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_Place = tuple[str, str, int]


class Lag(dict[_Place, int]):
    """How many offsets each queue is behind: (topic, broker, queue) to a number, 0 or more.

    The figures under the names that Spark's Kafka source uses cover all queues; `topic` gives
    those of one topic. Without queues they are 0. `missing` are the queues whose end nobody
    knows: the stream has read from them, but their broker has not answered since the query was
    started, or the query goes on without them. They count as 0. When nothing else is known, as
    after a restart that has only repeated a batch, the figures raise `UnknownLagError`.

    >>> behind = Lag({("T", "a", 0): 4, ("T", "a", 1): 0, ("U", "a", 0): 2})
    >>> behind.metrics
    {'minOffsetsBehindLatest': 0, 'maxOffsetsBehindLatest': 4, 'avgOffsetsBehindLatest': 2.0}
    >>> behind.topic("U").total, behind.topics
    (2, ['T', 'U'])
    """

    def __init__(
        self, behind: Mapping[_Place, int] | None = None, missing: Iterable[_Place] = ()
    ) -> None:
        super().__init__(behind or {})
        self.missing: frozenset[_Place] = frozenset(missing)

    def _numbers(self) -> list[int]:
        if self.missing and not self:
            raise UnknownLagError(
                "the ends of the queues are not known: since its start the query has only repeated "
                "a batch, for which Spark asks for no news; lag(query, nameServer=...) asks the "
                "brokers"
            )
        return list(self.values())

    @property
    def metrics(self) -> dict[str, int | float]:
        """The smallest, largest and mean number of offsets that a queue is behind."""
        numbers = self._numbers() or [0]
        return {
            "minOffsetsBehindLatest": min(numbers),
            "maxOffsetsBehindLatest": max(numbers),
            "avgOffsetsBehindLatest": sum(numbers) / len(numbers),
        }

    @property
    def total(self) -> int:
        """How many offsets all queues together are behind."""
        return sum(self._numbers())

    @property
    def topics(self) -> list[str]:
        """The topics, sorted."""
        return sorted({topic for topic, _, _ in self})

    def topic(self, name: str) -> Lag:
        """Return the lag of one topic's queues; empty for one that is not read."""
        return Lag(
            {place: number for place, number in self.items() if place[0] == name},
            (place for place in self.missing if place[0] == name),
        )


def lag(query: StreamingQuery | Mapping[str, object] | None, **options: object) -> Lag:
    """Return how many offsets each queue of a streaming query was behind after its last batch.

    ``query`` is the query, or one of its progress reports: ``query.lastProgress``, or
    ``event.progress`` in a listener. Empty before the first report. Only sources of this
    connector are counted; a queue that the query has not begun counts from its offset 0, and one
    whose broker is away by the end that it had when it was seen last. Under a filter offsets are
    counted, not the messages that match.

    A query that was started anew with a batch that was not finished knows no ends before its next
    batch. With ``options`` of a read that reach the brokers (``nameServer`` ...) this process asks
    them for the present ends instead.
    """
    progress = query if isinstance(query, Mapping) or query is None else query.lastProgress
    if progress is None:
        return Lag()
    behind: dict[_Place, int] = {}
    missing: set[_Place] = set()
    sources = progress["sources"]
    if not isinstance(sources, (list, tuple)):
        raise TypeError("a progress has a list of sources")
    for source in sources:
        end, latest = offset_of(source.get("endOffset")), offset_of(source.get("latestOffset"))
        if end is not None and options:
            latest = _present_ends(end, options)
        if end is None:
            continue
        if latest is None:
            missing.update(astuple(queue) for queue in end.topics)
            continue
        for queue, offset in in_order(latest.topics):
            behind[astuple(queue)] = max(0, offset - end.topics.get(queue, 0))
        for queue in sorted(end.topics.keys() - latest.topics.keys()):
            behind[astuple(queue)] = 0
            missing.add(astuple(queue))
    return Lag(behind, missing)


def _present_ends(end: StreamOffset, options: Mapping[str, object]) -> StreamOffset:
    """Ask the brokers for the ends of the topics of an offset."""
    from spark_connector.frames.row_calls import option_texts
    from spark_connector.planning.start_places import bounds_of

    topics = ",".join(sorted({queue.topic for queue in end.topics}))
    asked = read_options(option_texts(options) | {"subscribe": topics}, streaming=True)
    bounds = bounds_of(access_for(asked.connection), asked)
    return StreamOffset({queue: one.max_offset for queue, one in bounds.items()})


def offset_of(value: object) -> StreamOffset | None:
    """Read an offset in a progress report, None for one of another source."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, Mapping) or "v" not in value:
        return None
    return StreamOffset.from_json(value)
