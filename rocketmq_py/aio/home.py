"""The event loop that an asyncio client belongs to: the first one that uses it.

Futures and tasks of one loop cannot be awaited in another, so any other loop is refused. Must not
know what a client does. Tested with each client.
"""

import asyncio

from rocketmq_py.errors import IllegalStateError


class Home:
    """The loop of one client; ``client`` names it in errors."""

    def __init__(self, client: object) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None

    def take(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, to which the client belongs from now on.

        Raises `IllegalStateError` where none runs, and in another one.
        """
        loop, own = running_loop(), self._loop
        if loop is None:
            raise IllegalStateError(
                f"{self._client!r} needs asyncio: no event loop of it runs here"
            )
        if own is not None and own is not loop:
            state = "has closed" if own.is_closed() else "is another one"
            kind = type(self._client).__name__.lower()
            raise IllegalStateError(
                f"{self._client!r} belongs to the event loop that used it first, which {state}: "
                f"make a {kind} for each loop"
            )
        self._loop = loop
        return loop


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Give the loop that runs on this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
