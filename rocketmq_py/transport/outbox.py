"""What is on its way into one socket, so that nobody waits in order to write.

A frame goes out on the thread that brings it while nothing else waits. What the server does not
take at once stays here, and the I/O thread writes it. So do the frames of a crowded connection:
many of them leave together, by one call of the system instead of one each. A frame that is not
begun can be taken back. Must not know commands or answers; ``tcp.py`` has those.
"""

import socket
import threading
from _thread import LockType, allocate_lock
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rocketmq_py.transport.calls import Call
from rocketmq_py.transport.io_thread import IoThread

if TYPE_CHECKING:
    from rocketmq_py.transport.tls import TlsSocket

TOGETHER_MAX = 262_144
"""Bytes of small frames that are joined to one write."""


class Frame:
    """Bytes that wait, and the calls that they carry."""

    __slots__ = ("begun", "calls", "outbox", "rest", "written")

    def __init__(
        self, outbox: "Outbox", rest: bytes | memoryview | None, calls: Sequence[Call]
    ) -> None:
        self.outbox = outbox
        self.rest = rest
        self.calls = calls
        self.begun = False
        self.written: LockType | None = None
        """Released at the end of this frame, when somebody waits for it."""

    def withdraw(self) -> bool:
        """Take it back, unless it is begun."""
        return self.outbox.withdraw(self)


class Outbox:
    """The frames that wait to be written to a socket. Every call is safe from any thread."""

    def __init__(
        self,
        sock: "socket.socket | TlsSocket",
        io_thread: IoThread,
        on_writable: Callable[[], None],
    ) -> None:
        self.on_writable = on_writable
        self.size = 0
        """Bytes that wait."""
        self._sock = sock
        self._fd = sock.fileno()
        self._io = io_thread
        self._lock = threading.Lock()  # held for moments, and for a write that does not wait
        self._frames: deque[Frame] = deque()

    def fileno(self) -> int:
        """Return the descriptor that is written to."""
        return self._fd

    def write(self, data: bytes, calls: Sequence[Call], *, together: bool = False) -> Frame | None:
        """Write a whole frame without waiting; return it when the I/O thread writes it later.

        ``together``: it may wait a moment for others. Raises OSError when the connection is gone.
        """
        with self._lock:
            for call in calls:
                call.left = True  # before the bytes: an error in between must not deny them
            sent = 0
            if not (together or self._frames):
                try:
                    sent = self._sock.send(data)
                except BlockingIOError:
                    sent = 0
                if sent == len(data):
                    return None
            frame = Frame(self, memoryview(data)[sent:] if sent else data, calls)
            frame.begun = sent > 0
            for call in calls:
                call.left = frame.begun
                call.unwritten = frame
            if not self._frames:
                self._io.add_write(self)
            self._frames.append(frame)
            self.size += len(data) - sent
        return frame

    def write_on(self) -> None:
        """Write on the I/O thread what waits, as far as the server takes it; raises OSError."""
        with self._lock:
            rests = self._together()
            if rests:
                try:
                    self._account(self._sock.send(rests[0] if len(rests) == 1 else b"".join(rests)))
                except BlockingIOError:
                    return
            if not self._frames:
                self._io.forget_write(self._fd)

    def _together(self) -> list[bytes | memoryview]:
        """Give the bytes of one write: a long frame alone, short ones together."""
        rests: list[bytes | memoryview] = []
        size = 0
        for frame in self._frames:
            if frame.rest is not None:
                size += len(frame.rest)
                if rests and size > TOGETHER_MAX:
                    break
                rests.append(frame.rest)
        return rests

    def _account(self, sent: int) -> None:
        """Take what is written out of what waits."""
        self.size -= sent
        frames = self._frames
        while frames:
            frame = frames[0]
            rest = frame.rest
            if rest is not None:
                if sent:
                    frame.begun = True
                    for call in frame.calls:
                        call.left = True
                if sent < len(rest):
                    frame.rest = memoryview(rest)[sent:]
                    return
                sent -= len(rest)
                frame.rest = None
                for call in frame.calls:
                    call.unwritten = None
                if frame.written is not None:
                    frame.written.release()
            frames.popleft()

    def withdraw(self, frame: Frame) -> bool:
        """Take a frame back that is not begun; False: the server has some of it."""
        with self._lock:
            if frame.begun:
                return False
            if frame.rest is not None:
                self.size -= len(frame.rest)
                frame.rest = None
            # Not searched for among many: those behind the first, which may be begun, end first.
            while len(self._frames) > 1 and self._frames[1].rest is None:
                del self._frames[1]
            return True

    def wait(self, frame: Frame, timeout: float) -> bool:
        """Wait until a frame is written or lost; False when ``timeout`` was not enough."""
        with self._lock:
            if frame.rest is None:
                return True
            frame.written = written = allocate_lock()
            written.acquire()
        return written.acquire(timeout=max(0.0, timeout))

    def lose(self) -> None:
        """Forget what waits: the connection has ended."""
        with self._lock:
            lost, self._frames = self._frames, deque()
            self.size = 0
            for frame in lost:  # the server has a part of one frame at most, which is nothing
                for call in frame.calls:
                    call.left = False
        for frame in lost:
            if frame.written is not None:
                frame.written.release()

    def close(self) -> None:
        """Close the socket; never in the middle of a write to its number."""
        with self._lock:
            self._sock.close()
