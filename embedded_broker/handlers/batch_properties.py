"""What the messages of a batch are stored with: their own properties and those of the batch.

A batch-wide property is added to every message; as in the original
(``MessageExtEncoder.encode`` of a batch) the texts are put one behind the other, and the last of
two equal names counts. That way nothing is decoded for messages whose properties ask the broker
for nothing, which is nearly all. Must not know requests or the store. Read on:
``send_message.py`` for who calls this and what is done with the others.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rocketmq_py.protocol.properties import encode_properties

_MARKS: Final = (b"\0", b"TIMER_", b"DELAY", b"DELIVER")
"""A text without any of these asks for no delay and needs no cleaning: every name in
``DELAY_PROPERTIES`` and ``TIMER_BOOKKEEPING_PROPERTIES`` holds one."""


def joined_texts(
    texts: Sequence[bytes],
    outer: Mapping[str, str],
    stamps: Mapping[str, str],
    *,
    items_win: bool,
) -> list[bytes] | None:
    """Give what each message of a batch is stored with, or None when one must be looked into.

    ``texts`` are the properties of the messages as they came, ``outer`` those of the batch,
    ``stamps`` what the broker adds. ``items_win`` says whose value counts when a message and the
    batch have the same name. What nobody would see, because every message overrides it, is left
    out.
    """
    together = b"\2".join(texts)
    if not together.isascii() or any(mark in together for mark in _MARKS):
        return None
    if not items_win:
        tail = encode_properties({**outer, **stamps})
        return [_ended(text) + tail for text in texts]
    tail = encode_properties(stamps)
    head = encode_properties(
        {name: value for name, value in outer.items() if not _in_every(texts, name)}
    )
    return [head + _ended(text) + tail for text in texts]


def _ended(text: bytes) -> bytes:
    """Give the text with the separator that 4.9 clients leave out behind the last property."""
    return text if text[-1:] in {b"\2", b""} else text + b"\2"


def _in_every(texts: Sequence[bytes], name: str) -> bool:
    begin = name.encode() + b"\1"
    inside = b"\2" + begin
    return all(text.startswith(begin) or inside in text for text in texts)
