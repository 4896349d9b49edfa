"""The pending timers in a store directory, as `rocketmq-py timers DIRECTORY` finds them.

The only module that knows the embedded broker: its inspector, which only reads, and which is
imported when it is used. Must not know Spark or Arrow. Read on:
``embedded_broker/inspector/pages.py``.
"""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from spark_connector.decoding.timer_columns import TimerRow
from spark_connector.errors import OptionError
from spark_connector.options.timer_options import TimerOptions
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
        raise OptionError(
            f"option storeDirectory needs rocketmq-py whole on this worker ({error}): the zip of "
            "python -m spark_connector bundle does not hold the inspector of stores"
        ) from error
    pages = pending_pages(
        str(options.store_directory),
        topic=span.topic,
        since_ms=span.since_ms,
        before_ms=span.before_ms,
        limit=options.arrow_batch_rows,
    )
    for one in chain.from_iterable(pages):
        yield _row(one, options.broker_name, stored=stored)


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
