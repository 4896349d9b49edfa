"""Which number stands for a tag, a key or a topic in RocketMQ's index structures.

Always Java's ``String.hashCode``: consume queues keep it of the whole TAGS value, the timer log
keeps it of the real topic, index files keep it of ``topic#key``. This module must not know
those structures; they are in `embedded_broker.store` and `embedded_broker.timer`.
"""

from functools import lru_cache

_MASK = 0xFFFF_FFFF
_SIGN = 0x8000_0000
_CACHED_LENGTH_MAX = 128


def java_hash(text: str | None) -> int:
    """Give Java's ``String.hashCode`` of the text as a signed 32-bit number; None gives 0.

    The hash runs over UTF-16 units, so a character beyond U+FFFF counts as its two surrogates.
    Costs time linear in the length and keeps nothing.

    >>> java_hash("TopicTest"), java_hash("中文")
    (-1902610879, 646394)
    """
    if not text:
        return 0
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (value * 31 + unit) & _MASK
    else:
        wide = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(wide[::2], wide[1::2], strict=True):
            value = (value * 31 + (high << 8 | low)) & _MASK
    return value - 0x1_0000_0000 if value & _SIGN else value


_remembered_hash = lru_cache(maxsize=4096)(java_hash)


def tags_code(tags: str | None) -> int:
    """Give the tags code of a consume-queue entry: the hash of the whole TAGS value, 0 when absent.

    Several words in TAGS are one tag. Different tags can share a code (``Aa`` and ``BB``), so
    the reader compares the text again. Short values are remembered, since topics use few tags.
    Copies ``MessageExtBrokerInner.tagsString2tagsCode``.

    >>> tags_code("TagA"), tags_code("Aa"), tags_code("BB"), tags_code(None)
    (2598919, 2112, 2112, 0)
    """
    if not tags:
        return 0
    return _remembered_hash(tags) if len(tags) <= _CACHED_LENGTH_MAX else java_hash(tags)
