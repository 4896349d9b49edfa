"""Blocks of ordered pops: what of a queue is handed out, and until when the queue waits.

State of RocketMQ's ConsumerOrderInfoManager: one block of messages for each group and queue. While
one of them is neither acked nor visible again, nobody else gets anything of the queue. Kept in
``config/consumerOrderInfo.json``. Every call is made under the door. Must not know: messages, who
waits. Read on: `embedded_broker/core/pop/ordered.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, evolve, field

from embedded_broker.tables.files import Table
from rocketmq_py.protocol.bodies.document import Document, wire

_SEPARATOR: Final = "@"
NOT_ITS_BLOCK: Final = -1
NOTHING_TO_COMMIT: Final = -2


@define
class OrderBlock(Document):
    """The block that was handed out last: what lies in the file of a queue.

    `spans` are the offset of the first message and the distances of the others to it; bit i of
    `acked` says that message i is done.
    """

    pop_time_ms: int = field(default=0, metadata=wire("popTime"))
    invisible_ms: int | None = field(default=None, metadata=wire("i"))
    spans: list[int] = field(factory=list, metadata=wire("o"))
    visible_ms: dict[int, int] | None = field(default=None, metadata=wire("ot"))
    """When single messages become visible again, by offset, if not with the block."""
    handed: dict[int, int] | None = field(default=None, metadata=wire("oc"))
    """How often messages were handed out before, by offset; those of the first time are missing."""
    last_ms: int = field(default=0, metadata=wire("l"))
    acked: int = field(default=0, metadata=wire("cm"))
    attempt_id: str | None = field(default=None, metadata=wire("a"))

    @property
    def offsets(self) -> list[int]:
        """The queue offsets of the messages."""
        first, *others = self.spans or [0]
        return [first, *(first + other for other in others)] if self.spans else []

    def waiting(self) -> Iterator[tuple[int, int]]:
        """Give the offset of each message that is not acked, and when it is visible again."""
        again_ms = self.pop_time_ms + (self.invisible_ms or 0)
        for index, offset in enumerate(self.offsets):
            if not self.acked >> index & 1:
                yield offset, (self.visible_ms or {}).get(offset, again_ms)

    def free_ms(self, now_ms: int) -> int | None:
        """Say when the first message becomes visible that keeps the queue; None if it is free."""
        return next((at_ms for _, at_ms in self.waiting() if at_ms > now_ms), None)

    @property
    def next_offset(self) -> int:
        """The offset of the first message that is not acked; behind the last if all are."""
        return next((offset for offset, _ in self.waiting()), self.offsets[-1] + 1)

    def follow(self, former: "OrderBlock | None") -> None:
        """Count on from the block before: what was in it, too, is handed out once more."""
        if former is None:
            return
        if former.attempt_id is not None and former.attempt_id == self.attempt_id:
            self.handed = dict(former.handed or {})
            return
        before, counts = set(former.offsets), former.handed or {}
        self.handed = {at: counts.get(at, 0) + 1 for at in self.offsets if at in before}


class OrderTable(Table):
    """The blocks of each group and topic, by queue.

    `is_used(group, topic)` says whether both still exist; what is gone leaves the file when it is
    written.
    """

    document_key = "table"

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[tuple[str, str], dict[int, OrderBlock]] = {}
        self.is_used: Callable[[str, str], bool] = lambda _group, _topic: True

    def find(self, group: str, topic: str, queue_id: int) -> OrderBlock | None:
        """Give the block of a queue, if one was handed out."""
        return self._blocks.get((group, topic), {}).get(queue_id)

    def is_blocked(
        self, group: str, topic: str, queue_id: int, attempt_id: str | None, now_ms: int
    ) -> bool:
        """Say whether the queue waits for its block; who asks with its attempt gets it again."""
        block = self.find(group, topic, queue_id)
        if block is None or (block.attempt_id is not None and block.attempt_id == attempt_id):
            return False
        return block.free_ms(now_ms) is not None

    def hand_out(self, group: str, topic: str, queue_id: int, block: OrderBlock) -> OrderBlock:
        """Note a block that is handed out now; gives it with the counts of its messages."""
        queues = self._blocks.setdefault((group, topic), {})
        block.follow(queues.get(queue_id))
        queues[queue_id] = block
        self.note_change((group, topic))
        return block

    def ack(self, group: str, topic: str, queue_id: int, offset: int, pop_time_ms: int) -> int:
        """Note that a message is done; gives the offset to commit.

        `NOT_ITS_BLOCK` when the message is none of the block, `NOTHING_TO_COMMIT` when another pop
        has taken it since.
        """
        block = self.find(group, topic, queue_id)
        if block is None:
            return offset + 1
        if not block.spans:
            return NOT_ITS_BLOCK
        if block.pop_time_ms != pop_time_ms:
            return NOTHING_TO_COMMIT
        offsets = block.offsets
        if offset not in offsets:
            return NOT_ITS_BLOCK
        block.acked |= 1 << offsets.index(offset)
        self.note_change((group, topic))
        return block.next_offset

    def holds(
        self, group: str, topic: str, queue_id: int, offset: int, pop_time_ms: int, until_ms: int
    ) -> bool:
        """Say whether a pop of that time still has a message, until exactly then."""
        block = self.find(group, topic, queue_id)
        if block is None or block.pop_time_ms != pop_time_ms:
            return False
        return (offset, until_ms) in block.waiting()

    def show_again(
        self, group: str, topic: str, queue_id: int, offset: int, pop_time_ms: int, at_ms: int
    ) -> None:
        """Let a message become visible at another time, unless another pop has taken it since."""
        block = self.find(group, topic, queue_id)
        if block is not None and block.pop_time_ms == pop_time_ms:
            block.visible_ms = (block.visible_ms or {}) | {offset: at_ms}
            self.note_change((group, topic))

    def clear(self, group: str, topic: str, queue_id: int) -> None:
        """Forget the block of a queue: the group continues elsewhere."""
        if self._blocks.get((group, topic), {}).pop(queue_id, None) is not None:
            self.note_change((group, topic))

    def each(self) -> Iterator[tuple[str, str, int, OrderBlock]]:
        """Give every block with its group, topic and queue."""
        for (group, topic), queues in self._blocks.items():
            for queue_id, block in queues.items():
                yield group, topic, queue_id, block

    def keys(self) -> Iterable[tuple[str, str]]:
        """Give group and topic of all entries."""
        return list(self._blocks)

    def value(self, key: tuple[str, str]) -> dict[int, OrderBlock]:
        """Give a copy of the blocks of a group in a topic; none of what is gone."""
        if not self.is_used(*key):
            self._blocks.pop(key, None)
        return {at: evolve(block) for at, block in self._blocks.get(key, {}).items()}

    def entry(self, key: tuple[str, str], value: dict[int, OrderBlock]) -> tuple[str, Any]:
        """Give an entry of the file: key `topic@group`, bare queue ids."""
        group, topic = key
        return f"{topic}{_SEPARATOR}{group}", {at: one.to_document() for at, one in value.items()}

    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over what the file holds; a key without `@` is skipped."""
        for key, queues in (stored.get("table") or {}).items():
            topic, separator, group = str(key).partition(_SEPARATOR)
            if separator and group and queues:
                self._blocks[group, topic] = {
                    int(queue_id): OrderBlock.from_document(block)
                    for queue_id, block in queues.items()
                }


def spans_of(offsets: Sequence[int]) -> list[int]:
    """Write offsets as a block keeps them."""
    first, *others = offsets
    return [first, *(other - first for other in others)]
