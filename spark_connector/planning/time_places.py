"""Which offset of a queue a moment means, for many queues at once.

Must not know options of places. Read on: ``start_places.py``, ``servers/asking.py``.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from rocketmq_py import MessageQueue, QueueAccess, QueueBounds
from spark_connector.options.read_options import ReadOptions
from spark_connector.servers.asking import retrying_all

_WHAT = "asking for the offsets of a time"


def first_at(
    access: QueueAccess,
    options: ReadOptions,
    bounds: Mapping[MessageQueue, QueueBounds],
    moments: Mapping[MessageQueue, int],
) -> dict[MessageQueue, int]:
    """Return the first offset of each queue stored at or after a time in epoch ms, else the end.

    5.x brokers answer just that; 4.9 answers the nearest message, which may be an older one, or
    any of those that were stored in the same millisecond, so store times there are looked at: in
    one round for all queues, and in more only where a broker was wrong.
    """
    found: dict[MessageQueue, int] = {}
    asked: dict[MessageQueue, int] = {}
    for queue, moment in moments.items():
        one = bounds[queue]
        if one.min_offset >= one.max_offset:
            found[queue] = one.max_offset
        elif moment <= 0:
            found[queue] = one.min_offset  # brokers are not asked for times before their epoch
        else:
            asked[queue] = moment
    answers = retrying_all(
        options,
        _WHAT,
        asked,
        lambda queues: access.search_offsets({queue: asked[queue] for queue in queues}),
    )
    for queue, offset in answers.items():
        one = bounds[queue]
        found[queue] = min(max(offset, one.min_offset), one.max_offset)
    _correct(access, options, bounds, asked, found)
    return found


def _correct(
    access: QueueAccess,
    options: ReadOptions,
    bounds: Mapping[MessageQueue, QueueBounds],
    moments: Mapping[MessageQueue, int],
    found: dict[MessageQueue, int],
) -> None:
    """Look at the store times around each answer; halve what is open where it is too late."""

    def older(places: Iterable[tuple[MessageQueue, int]]) -> dict[tuple[MessageQueue, int], bool]:
        ask = partial(access.messages_at, with_body=False)  # a broken body has a store time, too
        if options.group_id:
            ask = partial(ask, group=options.group_id)
        stored = retrying_all(options, _WHAT, places, ask)
        return {
            place: message is not None and message.store_timestamp < moments[place[0]]
            for place, message in stored.items()
        }

    here = {queue: found[queue] for queue in moments if found[queue] < bounds[queue].max_offset}
    before = {queue: at - 1 for queue, at in here.items() if at > bounds[queue].min_offset}
    is_older = older([*here.items(), *before.items()])
    between: dict[MessageQueue, tuple[int, int]] = {}
    for queue, at in here.items():
        if is_older[queue, at]:
            found[queue] = at + 1
        elif queue in before and not is_older[queue, at - 1]:
            between[queue] = bounds[queue].min_offset, at - 1
    while between:
        middles = {queue: (low + high) // 2 for queue, (low, high) in between.items() if low < high}
        for queue in between.keys() - middles.keys():
            found[queue] = between.pop(queue)[0]
        for (queue, middle), is_late in older(middles.items()).items():
            low, high = between[queue]
            between[queue] = (middle + 1, high) if is_late else (low, middle)
