"""Decompression of message bodies just before a listener gets them, bounded for one consumer.

Cached messages stay compressed as the broker stores them, because a few bytes on the wire can be
gigabytes in memory. What listeners hold decompressed at one time is at most
``decompressed_total_max_bytes``: a message for which there is no room is handed back to wait. This
module must not know listeners, queues or brokers; `listener_calls` calls it. Read on:
``../../protocol/compression.py``.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from rocketmq_py.errors import BodyError, BodyTooLargeError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.compression import decompressed_size_max
from rocketmq_py.protocol.sysflag import COMPRESSED, WRAPPED

_NOT_READY: Final = COMPRESSED | WRAPPED
_NO_BATCH: Final = BodyError(
    "message", "it is a batch in one record that cannot be taken apart, or grows too large"
)


class BodyLimits(Protocol):
    """Bytes that one body, and all that listeners hold, may have; see `ClientConfig`."""

    decompressed_body_max_bytes: int
    decompressed_total_max_bytes: int


class _NoRoomError(Exception):
    """Other bodies must go before this one can be decompressed."""


class Unpacked:
    """The messages of one listener call; `Bodies.release` gives their room back.

    `shown` are those for the listener, `messages` the same as they are cached. `refused` cannot be
    decompressed, each with the reason; `waiting` have no room yet. `size` counts the bytes of
    decompressed bodies.
    """

    refused: Sequence[tuple[MessageExt, BodyError]] = ()
    waiting: Sequence[MessageExt] = ()
    size = 0

    def __init__(self, messages: Sequence[MessageExt]) -> None:
        self.messages = self.shown = messages


class Bodies:
    """The room that decompressed bodies of one consumer share. Every call is safe from any thread.

    `held` counts the bytes that are taken, those promised to a decompression included.
    """

    def __init__(self, settings: BodyLimits) -> None:
        self._settings = settings
        self._turn = threading.Condition(threading.Lock())
        self._decompressing = 0
        self.held = 0

    def unpacked(self, messages: Sequence[MessageExt]) -> Unpacked:
        """Decompress messages in their order as far as there is room.

        Whoever has `Unpacked.size` bytes releases them. A message whose body is plain is taken as
        it is; of another one a copy is shown.
        """
        batch = Unpacked(messages)
        for message in messages:
            if message.sys_flag & _NOT_READY:
                self._unpack_all(batch, messages)
                break
        return batch

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Take room for something else inside this block."""
        with self._turn:
            self.held += size
        try:
            yield
        finally:
            self.release(size)

    def release(self, size: int) -> None:
        """Give room back."""
        with self._turn:
            self.held -= size
            self._turn.notify_all()

    def _unpack_all(self, batch: Unpacked, messages: Sequence[MessageExt]) -> None:
        taken: list[MessageExt] = []
        shown: list[MessageExt] = []
        refused: list[tuple[MessageExt, BodyError]] = []
        for position, message in enumerate(messages):
            try:
                plain = self._unpacked(message)
            except BodyError as error:
                refused.append((message, error))
                continue
            except _NoRoomError:
                batch.waiting = messages[position:]
                break
            if plain is not message:
                batch.size += len(plain.body)
            taken.append(message)
            shown.append(plain)
        batch.messages, batch.shown, batch.refused = taken, shown, refused

    def _unpacked(self, message: MessageExt) -> MessageExt:
        sys_flag = message.sys_flag
        if sys_flag & WRAPPED == WRAPPED:
            raise _NO_BATCH
        if not sys_flag & COMPRESSED:
            return message
        bound = self._settings.decompressed_body_max_bytes
        most = min(bound, decompressed_size_max(len(message.body), sys_flag))
        room = self._take(most)
        size = 0
        try:
            plain = message.unpacked(room)
            size = len(plain.body)
        except BodyTooLargeError:
            if room < most:
                raise _NoRoomError from None
            raise
        finally:
            with self._turn:
                self._decompressing -= 1
                self.held -= room - size
                self._turn.notify_all()
        return plain

    def _take(self, most: int) -> int:
        """Take up to so much room; a decompression that is under way gives most of its room back.

        That takes milliseconds, so it is waited for. Bodies of listeners are not: they may stay.
        """
        with self._turn:
            while True:
                left = self._settings.decompressed_total_max_bytes - self.held
                if left >= most or not self._decompressing:
                    break
                self._turn.wait()
            if left <= 0:
                raise _NoRoomError
            room = min(most, left)
            self.held += room
            self._decompressing += 1
        return room
