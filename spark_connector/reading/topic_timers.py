"""The pending timers of any running broker from 5.0 on, by pulling its timer topic.

The driver asks each broker how far its topic and its timers are; one task for each broker pulls the
topic, twice, and what waits is found from the records alone. A task is never less than a broker:
what rolls a timer, or takes it back, is a later record of the same queue. A task holds what
``embedded_broker/inspector/topic.py`` says, and the pulls that are under way. Must not know
Spark or Arrow. Read on: ``store_timers.py`` for who finds what waits.
"""

import logging
from collections.abc import Iterator

from attrs import evolve, frozen

from rocketmq_py import (
    MessageQueue,
    MQBrokerException,
    NoRouteError,
    PermissionDeniedError,
    QueueBounds,
    SystemClock,
)
from rocketmq_py.raw import QueueAccess
from spark_connector.decoding.timer_columns import TimerRow
from spark_connector.errors import OptionError
from spark_connector.options.read_options import ReadOptions
from spark_connector.options.timer_options import TIMER_TOPIC
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.planning.whole_topics import whole_bounds
from spark_connector.reading.control_timers import TimerSpan
from spark_connector.reading.pulling import RangePuller
from spark_connector.reading.store_timers import BrokerTimers, timers_of_records
from spark_connector.servers.access import access_for, retrying

_log = logging.getLogger("spark_connector")

_PRECISION_MS = 1_000


@frozen
class TopicPlace:
    """What one task reads: the timer topic of a broker, how far its timers are, and its time."""

    queue: QueueRange
    timers: BrokerTimers
    now_ms: int


def topic_places(pulling: ReadOptions, broker_name: str | None) -> list[TopicPlace]:
    """Ask every broker with a timer topic, or the named one, how far it is.

    Raises `OptionError` where no broker has one, or not the named one.
    """
    access = access_for(pulling.connection)
    where = f"nameServer = {pulling.connection.name_server}"
    try:
        bounds = whole_bounds(access, pulling)
    except NoRouteError as error:
        raise OptionError(
            f"option {where}: no broker there has the topic {TIMER_TOPIC} ({error}). Brokers "
            "before 5.0 have no timers, nor has one with timerWheelEnable=false. Of these read "
            "the storeDirectory: it has the messages at delay levels"
        ) from None
    queues = {one.broker_name: one for one in sorted(bounds) if one.queue_id == 0}
    if broker_name is not None and broker_name not in queues:
        raise OptionError(
            f"option brokerName = {broker_name}: of those at {where} the topic {TIMER_TOPIC} is at "
            f"{', '.join(queues)}"
        )
    names = queues if broker_name is None else [broker_name]
    return [_place(access, pulling, queues[one], bounds[queues[one]]) for one in names]


def topic_timers(
    pulling: ReadOptions, place: TopicPlace, span: TimerSpan, *, stored: bool
) -> Iterator[TimerRow]:
    """Give what waits at a broker, in the order in which it was stored.

    What is deleted while it is read is passed over, with a warning in the log.
    """
    access = access_for(pulling.connection)
    patient = evolve(pulling, fail_on_data_loss=False)

    def pull(start: int, past: int) -> Iterator[bytes]:
        for piece in RangePuller(access, patient, place.queue.part(start, past)).pieces():
            yield piece.records

    yield from timers_of_records(pull, place.queue, place.timers, span, stored=stored)


def _place(
    access: QueueAccess, pulling: ReadOptions, queue: MessageQueue, bounds: QueueBounds
) -> TopicPlace:
    """Ask a broker; what it does not tell for lack of a permission is taken from this clock."""
    name = queue.broker_name
    what = f"asking broker {name} about topic {TIMER_TOPIC}"
    start, until = bounds.min_offset, bounds.max_offset
    settings: dict[str, str] = {}
    figures: dict[str, str] = {}
    now_ms = SystemClock().now_ms
    try:
        settings = retrying(pulling, what, lambda: access.broker_settings(TIMER_TOPIC, name))
        figures = retrying(pulling, what, lambda: access.broker_figures(TIMER_TOPIC, name))
        now_ms = retrying(pulling, what, lambda: access.broker_time_ms(TIMER_TOPIC, name))
    except MQBrokerException as error:
        _check_permission(error)
    precision_ms = _number(settings, "timerPrecisionMs") or _PRECISION_MS
    read_ms, done = now_ms - now_ms % precision_ms, until
    try:
        told = retrying(pulling, what, lambda: access.timer_check_point(TIMER_TOPIC, name))
        read_ms, done = told.last_read_time_ms, told.last_timer_queue_offset
    except MQBrokerException as error:
        _check_permission(error)
    released_ms = None
    if "timerReleasePrecisionMs" in settings:  # an embedded broker releases each at its own time
        late_s = _number(figures, "timerReadBehind")
        released_ms = now_ms - (late_s + 1) * 1_000 if late_s else now_ms
    return TopicPlace(
        QueueRange(TIMER_TOPIC, name, 0, start, until, access.address_of(name)),
        BrokerTimers(read_ms, done, precision_ms, released_ms),
        now_ms,
    )


def _check_permission(error: MQBrokerException) -> None:
    if not isinstance(error, PermissionDeniedError):
        raise error
    _log.warning("how far timers are is taken from the clock here: %s", error)


def _number(table: dict[str, str], name: str) -> int:
    text = table.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0
