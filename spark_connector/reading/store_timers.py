"""The pending timers in a store directory, as `rocketmq-py timers DIRECTORY` finds them.

And those among the stored records of a timer topic, whoever pulls them. The only module that knows
the embedded broker: its inspector, which only reads, and which is imported when it is used. Must
not know Spark or Arrow. Read on: ``embedded_broker/inspector/pages.py``, and
``embedded_broker/inspector/topic.py`` for records.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from attrs import asdict, frozen

from spark_connector.decoding.timer_columns import TimerRow
from spark_connector.errors import OptionError
from spark_connector.options.timer_options import TimerOptions
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.reading.control_timers import TimerSpan

if TYPE_CHECKING:
    from embedded_broker.inspector.pages import Pending


def timers_of_store(options: TimerOptions, span: TimerSpan, *, stored: bool) -> Iterator[TimerRow]:
    """Give what waits in the directory, in due order; ``stored``: with bodies and properties.

    Raises `OptionError` where the inspector is not installed, and a `RocketMQError` for a directory
    that holds no store.
    """
    try:
        from embedded_broker.inspector.pages import pending_pages
    except ImportError as error:
        raise _not_whole("storeDirectory", error) from error
    pages = pending_pages(
        str(options.store_directory),
        topic=span.topic,
        since_ms=span.since_ms,
        before_ms=span.before_ms,
        limit=options.arrow_batch_rows,
    )
    for one in chain.from_iterable(pages):
        yield _row(one, options.broker_name, stored=stored)


@frozen
class BrokerTimers:
    """How far the timers of a broker are, when a read of its timer topic is planned; epoch ms.

    Fields as those of ``Progress`` in ``embedded_broker/inspector/topic.py``.
    """

    read_ms: int
    queue_offset: int
    precision_ms: int
    released_ms: int | None


def timers_of_records(
    pull: Callable[[int, int], Iterator[bytes]],
    place: QueueRange,
    timers: BrokerTimers,
    span: TimerSpan,
    *,
    stored: bool,
) -> Iterator[TimerRow]:
    """Give what waits in a range of a timer topic, in the order of its queue.

    ``pull`` gives the stored records of offsets; it is called for the whole range first. Raises
    `OptionError` where the inspector is not installed.
    """
    try:
        from embedded_broker.inspector.pages import wanted_of
        from embedded_broker.inspector.topic import Progress, pending_of_topic
    except ImportError as error:
        raise _not_whole("nameServer of pending timers", error) from error
    wanted = wanted_of(
        topic=span.topic, since_ms=span.since_ms, before_ms=span.before_ms, limit=len(place)
    )
    progress = Progress(**asdict(timers))
    for one in pending_of_topic(pull, place.start, place.until, progress, wanted):
        yield _row(one, place.broker_name, stored=stored)


def _not_whole(what: str, error: ImportError) -> OptionError:
    return OptionError(
        f"option {what} needs rocketmq-py whole on this worker ({error}): the zip of "
        "python -m spark_connector bundle does not hold the inspector of stores"
    )


def _row(one: "Pending", broker_name: str | None, *, stored: bool) -> TimerRow:
    record = one.read() if stored else None  # None as well when somebody else has deleted it
    return TimerRow(
        one.topic,
        broker_name,
        one.queue_id,
        one.msg_id,
        " ".join(one.keys),
        one.tags,
        one.due_ms,
        one.accepted_ms,
        one.rolls,
        one.kind.value,
        one.size,
        None if broker_name is None else one.recall_handle(broker_name),
        None if record is None else bytes(record.unpacked_body()),
        None if record is None else record.properties,
    )
