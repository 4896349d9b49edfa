"""Names in a test's questions: which topic or message is meant, and what a typo is told.

Answers: how a name or an id that a test passes is turned into the thing it means, and what is said
when there is none. Must not know: what the caller wants to see of it. Read on: ``topics.py``,
``messages.py``, ``timers.py``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from typing import Final, Protocol

from embedded_broker.clocks.clock import BrokerClock
from embedded_broker.clocks.instants import instant
from embedded_broker.errors import BrokerStateError, MessageNotFound
from embedded_broker.lifecycle.parts import BrokerParts
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.message_codec import MessageRecord

SHOWN_BODY_MAX: Final = 64
"""Bytes of a body that a ``repr`` shows; of a longer one it tells the size."""

PartsSource = Callable[[], BrokerParts]
"""Returns the running core, or raises ``BrokerStateError``."""


class View:
    """Something of a broker that a test looks at; it holds no state of its own."""

    def __init__(self, parts: PartsSource) -> None:
        self._parts = parts

    @contextmanager
    def _look(self) -> Iterator[BrokerParts]:
        """Enter the door to look, for a few milliseconds at most; nobody is told of a change."""
        parts = self._parts()
        with parts.door.quiet:
            yield parts


class HasMessageId(Protocol):
    """Anything with ``msg_id``: the result of a send, a received message, or what a view gives."""

    @property
    def msg_id(self) -> str:
        """The unique id, or the offset id."""


def told(what: str, look: Callable[[], str]) -> str:
    """Give the ``repr`` of a view, which a debugger may ask for at any time.

    A broker that cannot be looked at now, or something that is gone, is said and not raised.
    """
    try:
        return f"<{what}{look()}>"
    except BrokerStateError:
        return f"<{what}: the broker cannot be looked at now>"
    except KeyError:
        return f"<{what}: there is none>"


def shown(body: bytes) -> str:
    """Give a body for a ``repr``: itself when it is short, else its size."""
    return repr(body) if len(body) <= SHOWN_BODY_MAX else f"<{len(body)} bytes>"


def find_topic(parts: BrokerParts, name: str) -> TopicConfig:
    """Return a topic's settings; ``KeyError`` names the nearest. Under the door."""
    config = parts.tables.topics.get(name)
    if config is None:
        close = get_close_matches(name, parts.tables.topics.names(), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise KeyError(f"no topic {name!r}{hint}")
    return config


def born_at(parts: BrokerParts, record: MessageRecord) -> datetime:
    """Give what the broker's clock showed when a sender made a message."""
    clock, born_ms = parts.clock, record.born_timestamp
    if isinstance(clock, BrokerClock):
        born_ms = clock.born_ms(born_ms, record.store_timestamp)
    return instant(born_ms)


def check_topic(parts: BrokerParts, name: str | None) -> None:
    """Raise ``KeyError``, which names the nearest, when a topic was asked for that is unknown.

    Outside the door. For questions that found nothing: a typo must not look like an answer.
    """
    if name is not None:
        with parts.door.quiet:
            find_topic(parts, name)


def id_of(message: str | HasMessageId) -> str:
    """Give the id that a test passed, or that of the object that it passed."""
    message_id = message if isinstance(message, str) else getattr(message, "msg_id", None)
    if not isinstance(message_id, str):
        raise TypeError(
            f"give the id of a message as str, or what has msg_id, not {described(message)}"
        )
    return message_id


def described(value: object) -> str:
    """Tell a wrong argument: its type and what it is."""
    return f"{type(value).__name__} {value!r}"


def not_found(message_id: str, *, topic: str | None = None) -> MessageNotFound:
    """Make the error for an id that no record carries."""
    where = "" if topic is None else f" for topic {topic!r}"
    several = "; this is a list of ids: ask for them one by one" if "," in message_id else ""
    return MessageNotFound(
        f"no message {message_id!r}{where}: it was never accepted here, or the store has removed "
        f"it and its index entry{several}"
    )
