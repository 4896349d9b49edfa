"""What traced clients have noted about one message, in the order in which it happened.

Clients with ``enable_trace=True``, of any language, send such notes to a trace topic, where the id
of the message is a key (``QueryMsgTraceByIdSubCommand`` of the original). Must not know how they
are sent. Read on: ``../trace/records.py`` for their form.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from rocketmq_py.administration.messages import by_id, by_key
from rocketmq_py.administration.servers import Servers
from rocketmq_py.trace.records import SubAfter, SubBefore, TraceRecord, read_records


async def of_message(
    servers: Servers,
    msg_id: str,
    topic: str | None,
    trace_topic: str,
    begin: datetime | None,
    end: datetime | None,
    max_messages: int,
) -> tuple[TraceRecord, ...]:
    """Give the records about a message (12); with a topic the id may be of either kind (33).

    Raises TypeError for an id that is no text, ValueError for a blank one.
    """
    if not isinstance(msg_id, str):
        raise TypeError(f"msg_id is a str, not {type(msg_id).__name__} {msg_id!r}")
    if not msg_id.strip():
        raise ValueError("msg_id is blank: send() gives it as SendResult.msg_id")
    if topic is not None:
        msg_id = (await by_id(servers, topic, msg_id)).msg_id
    notes = await by_key(servers, trace_topic, msg_id, begin, end, max_messages)
    # A note that was sent twice, because its answer was lost, counts once.
    records = dict.fromkeys(record for one in notes for record in read_records(one.body))
    return _in_order([record for record in records if record.msg_id == msg_id])


def _in_order(records: Iterable[TraceRecord]) -> tuple[TraceRecord, ...]:
    """Sort by time. Clocks of machines differ: a call never ends before it has begun."""
    records = tuple(records)
    begun = {one.request_id: one.timestamp for one in records if isinstance(one, SubBefore)}
    return tuple(sorted(records, key=lambda one: _time(one, begun)))


def _time(record: TraceRecord, begun: Mapping[str, int]) -> tuple[int, bool]:
    """Say when something was noted; an end whose time is not told is that of its beginning."""
    if not isinstance(record, SubAfter):
        return record.timestamp, False
    return max(record.timestamp or 0, begun.get(record.request_id, 0)), True
