"""Checks of a put: what a message must be, and which hooks want to see it first.

Answers: why a put is refused, with value, limit and setting. Must not know: where messages lie.
After ``HookUtils`` and ``DefaultMessageStore``. Read on: ``message_store.py``, which asks, and
``put_values.py`` for what a hook is.
"""

from collections.abc import Callable
from typing import Final

from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.store.put_values import InnerMessage, PutHook, PutRefusal, PutResult, PutStatus
from embedded_broker.store.queue_names import queue_problem
from rocketmq_py.protocol.inner_batch import BATCH_MAX
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX, Prop, encode_properties

_TOPIC_SIZE_MAX: Final = 127
_RETRY_TOPIC_SIZE_MAX: Final = 255
SHORT_TOPIC: Final = _TOPIC_SIZE_MAX // 4
"""A topic of so many characters is short enough, whatever they are."""
_RECORD_OVERHEAD: Final = 91 + 2 * 12 + 1  # two IPv6 hosts and a long topic at most


class Hooks:
    """The put hooks of a store, and which messages none of them wants to see.

    What they say of themselves is asked again when ``listed`` has changed.
    """

    def __init__(self) -> None:
        self.listed: list[PutHook] = []
        self._seen: list[PutHook] = []
        self._ignore_copies = self._ignore_plain = True
        self._ask_about_timers: list[Callable[..., bool]] = []

    @property
    def ignore_copies(self) -> bool:
        """Whether no hook wants to see the messages that a timer releases."""
        if self.listed != self._seen:
            self._ask()
        return self._ignore_copies

    @property
    def ignore_plain(self) -> bool:
        """Whether no hook wants to see messages that ask for nothing."""
        if self.listed != self._seen:
            self._ask()
        return self._ignore_plain

    def ignore_timers(self, now_ms: int, *, instants: bool) -> bool:
        """Whether no hook wants to see messages that ask for a time, or for an instant."""
        return self.ignore_plain and all(
            ask(now_ms, instants=instants) for ask in self._ask_about_timers
        )

    def _ask(self) -> None:
        hooks = self._seen = self.listed.copy()
        self._ignore_copies = all(getattr(one, "ignores_copies", False) for one in hooks)
        self._ignore_plain = all(getattr(one, "ignores_plain", False) for one in hooks)
        self._ask_about_timers = [
            ask for one in hooks if (ask := getattr(one, "ignores_timers", None))
        ]

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutResult | None:
        """Let all of them see a message, one after the other; the refusal if there is one."""
        for hook in self.listed:
            answer = hook.before_put(msg, now_ms)
            if answer is not None:
                if isinstance(answer, PutRefusal):
                    return PutResult(answer.status, remark=answer.remark)
                return answer
        return None


def check_as_sent(msg: InnerMessage, body_size_max: int) -> PutResult | None:
    """Check topic, queue and body, before any hook sees them; the refusal if there is one."""
    topic = msg.topic
    if len(topic) > SHORT_TOPIC:
        refused = _check_topic(topic)
        if refused is not None:
            return refused
    problem = queue_problem(topic, msg.queue_id)
    if problem is not None:
        return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=problem)
    body_size = len(msg.body)
    if body_size > body_size_max:
        return PutResult(
            PutStatus.MESSAGE_ILLEGAL,
            remark=f"the body has {body_size} bytes, at most {body_size_max} are allowed "
            "(setting maxMessageSize)",
        )
    return None


def check_as_stored(msg: InnerMessage, record_size_max: int) -> PutResult | None:
    """Encode the properties that hooks have left, and check sizes; the refusal if there is one."""
    properties = msg.properties_bytes
    if properties is None:
        properties = msg.properties_bytes = encode_properties(msg.properties)
    if len(properties) > PROPERTIES_SIZE_MAX:
        return PutResult(
            PutStatus.PROPERTIES_SIZE_EXCEEDED,
            remark=f"the properties take {len(properties)} bytes, "
            f"at most {PROPERTIES_SIZE_MAX} are possible",
        )
    record_size = len(msg.body) + len(properties) + 4 * len(msg.topic) + _RECORD_OVERHEAD
    if record_size > record_size_max:
        return PutResult(
            PutStatus.MESSAGE_ILLEGAL,
            remark=f"the message takes {record_size} bytes, a commit log file holds "
            f"{record_size_max} (setting mappedFileSizeCommitLog)",
        )
    return None


def number_batch(
    msg: InnerMessage, queue: ConsumeQueue | None, *, is_taken: bool
) -> PutResult | None:
    """Note in an inner batch which queue offset its first message gets, or refuse it.

    ``queue`` is its queue, None if there is none yet; ``is_taken``: its topic takes batches.
    """
    if not is_taken:
        remark = f"an inner batch needs a topic of queue type BatchCQ, {msg.topic} is none"
        return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=remark)
    count = msg.properties.get(Prop.INNER_NUM, "")
    if not (count.isdecimal() and 1 <= int(count) <= BATCH_MAX):
        remark = f"an inner batch has 1 to {BATCH_MAX} messages (INNER_NUM), not {count!r}"
        return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=remark)
    msg.properties[Prop.INNER_BASE] = str(0 if queue is None else queue.max_offset)
    msg.properties_bytes = None
    return None


def _check_topic(topic: str) -> PutResult | None:
    """Refuse topics that the original refuses in ``HookUtils.checkBeforePutMessage``."""
    limit = _RETRY_TOPIC_SIZE_MAX if is_retry_topic(topic) else _TOPIC_SIZE_MAX
    size = len(topic.encode("utf-8", "surrogatepass"))
    if size <= limit:
        return None
    return PutResult(
        PutStatus.MESSAGE_ILLEGAL,
        remark=f"the topic name has {size} bytes, at most {limit} are possible",
    )
