"""Queue names: which topic and queue may become folders of the store.

Answers: what is wrong with a name or a number, whether a request brings it, a property of a stored
message, a record of the log or the name of a folder. Nothing of a record protects its topic, so one
flipped bit makes `orders` into `or/ers` or `..`. The rule is that of the topics that a client may
create. Names that RocketMQ makes may hold any printable character but `/`: cluster names are parts
of them, which nobody checks, and a `+` stands in those of POP's retry topics. Must not know: files.
Read on: `commit_log.py`, where a bad name is damage, and `store_reader.py`, which makes no queue
for one.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from embedded_broker.errors import StoreError
from embedded_broker.settings.options import QUEUE_NUMS_MAX
from rocketmq_py.protocol.names import (
    DLQ_PREFIX,
    REPLY_TOPIC_SUFFIX,
    RETRY_PREFIX,
    RETRY_TOPIC_LENGTH_MAX,
    SYSTEM_TOPIC_PREFIX,
    topic_problem,
)
from rocketmq_py.protocol.properties import Prop

_DIGITS_MAX: Final = 10
_OWN_PREFIXES: Final = (SYSTEM_TOPIC_PREFIX, RETRY_PREFIX, DLQ_PREFIX)


class QueueNameError(StoreError):
    """A message cannot be stored in the queue that it names, on whatever disk."""


@lru_cache(4096)
def name_problem(topic: str) -> str | None:
    """Say why no message can be stored under this name; None when one can."""
    problem = topic_problem(topic, length_max=RETRY_TOPIC_LENGTH_MAX)
    is_own = topic.startswith(_OWN_PREFIXES) or topic.endswith(REPLY_TOPIC_SUFFIX)
    return None if problem is not None and is_own and is_folder_name(topic) else problem


def is_folder_name(name: str) -> bool:
    """Whether a name can be that of a folder on any file system, in the folder where it is made."""
    return (
        name.isprintable()
        and "/" not in name
        and name not in {"", ".", ".."}
        and len(name.encode("utf-8", "replace")) <= RETRY_TOPIC_LENGTH_MAX
    )


def queue_problem(topic: str, queue_id: int) -> str | None:
    """Say why no message can be stored in this queue; None when one can."""
    problem = name_problem(topic)
    if problem is None and not 0 <= queue_id < QUEUE_NUMS_MAX:
        return f"queue {queue_id} of topic {topic} is impossible: 0 to {QUEUE_NUMS_MAX - 1} are"
    return problem


def check_queue(topic: str, queue_id: int) -> None:
    """Raise ``QueueNameError`` if no message can be stored in this queue."""
    problem = queue_problem(topic, queue_id)
    if problem is not None:
        raise QueueNameError(problem)


def destination(properties: Mapping[str, str]) -> tuple[str, int] | None:
    """Read where a message that waits goes in the end; None when no message can go there."""
    topic, queue_id = properties.get(Prop.REAL_TOPIC), properties.get(Prop.REAL_QID)
    if topic is None or queue_id is None:
        return None
    number = number_of(queue_id)
    return None if queue_problem(topic, number) is not None else (topic, number)


@lru_cache(1024)
def number_of(text: str) -> int:
    """Read the number of a queue, -1 when it is none; remembered, since few numbers recur."""
    plain = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return int(text) if plain else -1
