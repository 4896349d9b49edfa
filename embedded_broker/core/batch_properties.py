"""Properties of batches: a message is stored with its own and those of its batch.

A batch-wide property is added to every message; as in the original
(``MessageExtEncoder.encode`` of a batch) the texts are put one behind the other, and the last of
two equal names counts. That way nothing is decoded for messages whose properties ask the broker
for nothing, which is nearly all. Must not know requests or the store. Read on:
``produce.py`` for who calls this and what is done with the others.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from rocketmq_py.protocol.message_columns import EvenProperties
from rocketmq_py.protocol.properties import Prop, encode_properties

_UNIQ_KEY: Final = f"{Prop.UNIQ_KEY}\1".encode()
_SAMPLE: Final = b"0123456789abcdeffedcba9876543210"
"""Stands for a UNIQ_KEY; in small letters, as none of an SDK is."""
_MARKS: Final = (b"\0", b"TIMER_", b"DELAY", b"DELIVER")
"""A text without any of these asks for no delay and needs no cleaning: every name in
``DELAY_PROPERTIES`` and ``TIMER_BOOKKEEPING_PROPERTIES`` holds one."""


def joined_texts(
    texts: Sequence[bytes],
    outer: Mapping[str, str],
    stamps: Mapping[str, str],
    *,
    items_win: bool,
) -> Sequence[bytes] | None:
    """Give what each message of a batch is stored with, or None when one must be looked into.

    ``texts`` are the properties of the messages as they came, ``outer`` those of the batch,
    ``stamps`` what the broker adds. ``items_win`` says whose value counts when a message and the
    batch have the same name. What nobody would see, because every message overrides it, is left
    out.
    """
    around = _around_keys(texts)
    if around is None:
        return _joined(texts, outer, stamps, items_win=items_win)
    before, keys, after = around
    model = _joined([before + _SAMPLE + after], outer, stamps, items_win=items_win)
    if model is None:
        return None
    head, _, tail = model[0].partition(_SAMPLE)
    return EvenProperties(head, keys, tail)


def _around_keys(texts: Sequence[bytes]) -> tuple[bytes, list[bytes], bytes] | None:
    """Give the UNIQ_KEYs and what stands around them, if the texts differ in nothing else.

    In nearly every batch that is so, and then one of them says what becomes of all.
    """
    first = texts[0]
    begin = first.find(_UNIQ_KEY) + len(_UNIQ_KEY)
    end = first.find(b"\2", begin)
    if begin < len(_UNIQ_KEY) or end < 0 or len(set(map(len, texts))) > 1:
        return None
    before, keys, after = first[:begin], [text[begin:end] for text in texts], first[end:]
    # One comparison of all: they are as long as each other.
    if b"".join(texts) != before + (after + before).join(keys) + after:
        return None
    return (before, keys, after) if b"".join(keys).isalnum() else None


def _joined(
    texts: Sequence[bytes],
    outer: Mapping[str, str],
    stamps: Mapping[str, str],
    *,
    items_win: bool,
) -> list[bytes] | None:
    together = b"\2".join(texts)
    if not together.isascii() or any(mark in together for mark in _MARKS):
        return None
    if not items_win:
        tail = encode_properties({**outer, **stamps})
        return [text + tail for text in _ended(texts)]
    tail = _encoded(tuple(stamps.items()))
    items = b"\2" + together
    head = encode_properties(
        {name: value for name, value in outer.items() if not _in_every(texts, items, name)}
    )
    return [head + text + tail for text in _ended(texts)]


@lru_cache(maxsize=8)
def _encoded(stamps: tuple[tuple[str, str], ...]) -> bytes:
    """Encode what the broker adds; remembered, since it hardly ever changes."""
    return encode_properties(dict(stamps))


def _ended(texts: Sequence[bytes]) -> list[bytes]:
    """Give the texts with the separator that 4.9 clients leave out behind the last property."""
    return [text if text[-1:] == b"\2" or not text else text + b"\2" for text in texts]


def _in_every(texts: Sequence[bytes], items: bytes, name: str) -> bool:
    """Whether a name is in every text; `items` are all of them, each item behind a separator."""
    begin = name.encode() + b"\1"
    # As often at the begin of an item as anywhere: so finding it means finding the whole name.
    return items.count(begin) == items.count(b"\2" + begin) and len(texts) == len(
        [None for text in texts if begin in text]
    )
