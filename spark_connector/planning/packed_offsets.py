"""The text of the offsets of thousands of queues: a few characters for each.

A broker's queues are one text, ``BASE/WIDTH/BYTES``: what each offset is above the base, in so many
bytes each, in base 64, for queue 0, 1, 2 and so on. The base is the least of the offsets, or
``from``: then each offset is told from the same queue's in another part. Queues that are not
numbered from 0 on are written as always, ``{"3":17}``. Must not know what offsets are for. Read on:
``stream_offset.py``.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping

from rocketmq_py import MessageQueue
from spark_connector.errors import OptionError
from spark_connector.options.positions import OFFSET_LIMIT, Positions, user_positions

WIDTH_MOST = 8
FROM = "from"

_Groups = dict[str, dict[str, dict[int, int]]]
"""Offsets by topic, broker and queue number."""


def packed(positions: Positions, lower: Positions | None = None) -> dict[str, dict[str, object]]:
    """Write offsets; ``lower`` are those that some may be told from, where that is shorter."""
    base = _grouped(lower or {})
    written: dict[str, dict[str, object]] = {}
    groups = _grouped(positions)
    for topic in sorted(groups):
        brokers = written[topic] = {}
        for broker in sorted(groups[topic]):
            offsets = groups[topic][broker]
            count = len(offsets)
            if min(offsets) != 0 or max(offsets) != count - 1:
                brokers[broker] = {str(number): offsets[number] for number in sorted(offsets)}
                continue
            values = [offsets[number] for number in range(count)]
            least = min(values)
            text = _text(str(least), [value - least for value in values])
            below = base.get(topic, {}).get(broker, {})
            if below.keys() >= offsets.keys():
                above = [value - below[number] for number, value in enumerate(values)]
                if min(above) >= 0:
                    text = min(text, _text(FROM, above), key=len)
            brokers[broker] = text
    return written


def unpacked(where: str, value: object, lower: Positions | None = None) -> Positions:
    """Read what `packed` wrote; raises `OptionError` naming the place that is wrong."""
    found: Positions = {}
    if not isinstance(value, dict):
        raise OptionError(f"{where}: holds {value!r:.80}")
    for topic, brokers in value.items():
        if not isinstance(brokers, dict):
            raise OptionError(f"{where}: {topic!r} holds {brokers!r:.80}")
        for broker, text in brokers.items():
            if isinstance(text, dict):
                found |= user_positions(where, {topic: {broker: text}}, low=0)
                continue
            try:
                base, values = _values(text)
                for number, above in enumerate(values):
                    queue = MessageQueue(topic, broker, number)
                    offset = above + ((lower or {})[queue] if base is None else base)
                    if not 0 <= offset < OFFSET_LIMIT:
                        raise ValueError(offset)  # noqa: TRY301 - all that is wrong ends alike
                    found[queue] = offset
            except (ValueError, AttributeError, KeyError):
                raise OptionError(
                    f"{where}: topic {topic!r}, broker {broker!r} holds {text!r:.80}, which is not "
                    "what this connector writes"
                ) from None
    return found


def _grouped(positions: Mapping[MessageQueue, int]) -> _Groups:
    groups: _Groups = {}
    topic = broker = ""
    offsets: dict[int, int] = {}
    for queue, offset in positions.items():
        # Queues of a broker mostly stand together: two look-ups for all of them.
        if queue.broker_name != broker or queue.topic != topic:
            topic, broker = queue.topic, queue.broker_name
            offsets = groups.setdefault(topic, {}).setdefault(broker, {})
        offsets[queue.queue_id] = offset
    return groups


def _text(base: str, values: list[int]) -> str:
    width = max(1, (max(values).bit_length() + 7) // 8)
    whole = b"".join([value.to_bytes(width) for value in values])
    return f"{base}/{width}/{b64encode(whole).decode()}"


def _values(text: str) -> tuple[int | None, list[int]]:
    base, width_text, body = text.split("/", 2)
    width, whole = int(width_text), b64decode(body, validate=True)
    if not 1 <= width <= WIDTH_MOST or len(whole) % width:
        raise ValueError(text)
    values = [int.from_bytes(whole[at : at + width]) for at in range(0, len(whole), width)]
    return None if base == FROM else int(base), values
