"""A run: messages for one queue that ask the broker for nothing and came together.

The messages of a batch, or sends that arrived in one piece of the stream. Values only, so that a
message costs its bytes and not a dozen objects. Must not know: files,
requests. A run means what ``put_all`` of its ``messages`` means, and that is what the store does
with one it cannot take the short way. Read on: ``MessageStore.put_run``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from embedded_broker.store.inner import InnerMessage, PutResult
from rocketmq_py.protocol.properties import Prop, decode_properties
from rocketmq_py.protocol.tag_hash import tags_code

__all__ = ["Run", "RunResult", "tags_codes"]

_TAGS = Prop.TAGS.encode()


class Run(NamedTuple):
    """At least one message for one queue, none of which asks the broker for anything.

    ``items`` are flag, born timestamp, body, encoded properties and tags code; the properties
    hold no request for a delay and nothing else that a put hook which ``ignores_plain`` messages
    would look at.
    """

    topic: str
    queue_id: int
    items: Sequence[tuple[int, int, bytes, bytes, int]]
    sys_flag: int
    born_host: bytes
    reconsume_times: int

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
    if _TAGS not in b"".join(texts):
        return [0] * len(texts)
    return [tags_code(decode_properties(text).get(Prop.TAGS)) for text in texts]


class RunResult(NamedTuple):
    """Where messages that were put together lie, or why they were refused.

    ``whole`` is place and size of all of them, beginning with the first; ``offsets`` are the
    commit-log offsets of each, none when they were refused.
    """

    whole: PutResult
    offsets: Sequence[int]

    @classmethod
    def of(cls, results: Sequence[PutResult]) -> RunResult:
        """Sum up what ``put_all`` gave for at least one message."""
        first, last = results[0], results[-1]
        if not first.ok:
            return cls(first, ())
        size = last.commit_log_offset + last.size - first.commit_log_offset
        return cls(first._replace(size=size), [one.commit_log_offset for one in results])
