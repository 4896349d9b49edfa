"""Which number a key has, whose remainder by the number of queues is the key's queue.

RocketMQ's clients and Kafka's disagree on it, so a user chooses. Must not know queues or rows. Read
on: ``queue_choice.py``.
"""

from collections.abc import Callable
from functools import lru_cache

from rocketmq_py.raw import RawMessages

REMEMBERED_KEYS = 65_536
_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_WORD = 0xFFFF_FFFF
_POSITIVE = 0x7FFF_FFFF


def murmur2(data: bytes) -> int:
    """Return the hash of Kafka's Java client for some bytes, as a number without a sign.

    The 32-bit MurmurHash2 with Kafka's seed.
    """
    value = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _WORD
        word = (word ^ word >> 24) * _FACTOR & _WORD
        value = value * _FACTOR & _WORD ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _WORD
    value = (value ^ value >> 13) * _FACTOR & _WORD
    return value ^ value >> 15


@lru_cache(REMEMBERED_KEYS)
def kafka_hash(key: str) -> int:
    """Return the number by which Kafka's default partitioner finds the partition of a text."""
    return murmur2(key.encode()) & _POSITIVE


HASH_OF: dict[str, Callable[[str], int]] = {
    "none": RawMessages.hash_of_key,  # of a sharding key
    "rocketmq": RawMessages.hash_of_key,
    "kafka": kafka_hash,
}
"""By the values of the option ``routeByKey``."""
