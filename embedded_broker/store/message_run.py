"""Message run: messages that go to one queue together. One alone is a run of one.

Values only, so that a message of many costs its bytes and not a dozen objects: the messages of a
batch, or sends that arrived in one piece of the stream. Must not know: files, requests. Read on:
``MessageStore.put``; ``embedded_broker/timer/timer_run.py`` for timers that come together.
"""

from collections.abc import Iterable, Sequence

from attrs import define

from embedded_broker.store.put_values import InnerMessage
from rocketmq_py.protocol.message_columns import EvenProperties, Item, MessageColumns
from rocketmq_py.protocol.properties import Prop, decode_properties
from rocketmq_py.protocol.tag_hash import tags_code

_TAGS = Prop.TAGS.encode()


@define(slots=True, eq=False)
class MessageRun:
    """At least one message for one queue.

    Their properties ask the broker for nothing: they hold no request for a delay and nothing else
    that a put hook which ``ignores_plain`` messages would look at.
    """

    topic: str
    queue_id: int
    items: Sequence[Item]
    sys_flag: int
    born_host: bytes
    reconsume_times: int = 0

    prepared_transaction_offset = 0
    is_admitted = False
    """Whether hooks have let the messages pass as they are, so that nobody looks at them again."""

    @property
    def largest_body(self) -> int:
        """Size of the largest body in bytes."""
        items = self.items
        bodies = items.bodies if isinstance(items, MessageColumns) else [one[2] for one in items]
        return max(map(len, bodies))

    def messages(self) -> list[InnerMessage]:
        """Give the same messages one by one."""
        return [
            InnerMessage(
                self.topic,
                self.queue_id,
                body,
                decode_properties(properties),
                flag,
                self.sys_flag,
                born_timestamp,
                self.born_host,
                self.reconsume_times,
                properties_bytes=properties,
            )
            for flag, born_timestamp, body, properties, _ in self.items
        ]


def tags_codes(texts: Sequence[bytes]) -> list[int]:
    """Give the tags code of each of some encoded properties; without tags nothing is decoded."""
    if isinstance(texts, EvenProperties):
        return tags_codes([texts[0]]) * len(texts)
    if _TAGS not in b"".join(texts):
        return [0] * len(texts)
    return [tags_code(decode_properties(text).get(Prop.TAGS)) for text in texts]


@define(slots=True)
class Arrival:
    """One message that became visible in a queue."""

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    properties: dict[str, str]
    """They belong to the message just put: read them during the call, do not keep them."""


@define(slots=True)
class Arrivals:
    """What a store tells its listeners: messages that became visible together in one queue.

    ``entries`` are commit-log offset, size and tags code of each; the first lies at
    ``queue_offset``, the others follow. ``source`` is what was put; None for copies of stored
    messages, about which a queue says all there is to know.
    """

    topic: str
    queue_id: int
    queue_offset: int
    entries: list[tuple[int, int, int]]
    store_timestamp: int
    source: InnerMessage | MessageRun | None = None

    def has(self, from_offset: int, codes: frozenset[int] | None) -> bool:
        """Whether a message lies at or behind a queue offset and has one of the tags codes.

        None stands for any code.
        """
        skipped = from_offset - self.queue_offset
        if skipped >= len(self.entries):
            return False
        if codes is None:
            return True
        entries = self.entries[skipped:] if skipped > 0 else self.entries
        return any(code in codes for _, _, code in entries)

    def at(self, index: int) -> Arrival:
        """Give one of the messages as if it had come alone."""
        offset, size, code = self.entries[index]
        return Arrival(
            self.topic,
            self.queue_id,
            self.queue_offset + index,
            offset,
            size,
            code,
            self.store_timestamp,
            self.properties_at(index),
        )

    def properties_at(self, index: int) -> dict[str, str]:
        """Give the properties of one of the messages: read them during the call."""
        source = self.source
        if isinstance(source, InnerMessage):
            return source.properties
        return {} if source is None else decode_properties(source.items[index][3])

    def each(self) -> Iterable[Arrival]:
        """Give the messages one by one, in their order."""
        if len(self.entries) == 1:
            return (self.at(0),)
        return map(self.at, range(len(self.entries)))
