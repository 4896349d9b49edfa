"""What a client works on: books of what has begun and not ended.

Whoever begins something that others wait for, a send or a decision, enters it in a `Book` and takes
it out when it has ended. So nobody is asked all round: a shutdown waits for one book, a test clock
that settles reads all of a client (`Activity.told`). Must not know what is entered.

There are no locks here but that of a waiter: entries come and go by single steps of a dict.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary


class Book:
    """Work of one kind. Every call is safe from any thread."""

    __slots__ = ("_entries", "_is_over", "_waiters", "_what", "_who")

    def __init__(self, who: str, what: str, is_over: Callable[[], bool] | None = None) -> None:
        self._who = who
        self._what = what
        self._is_over = is_over
        self._entries: dict[int, object] = {}
        self._waiters: list[threading.Event] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[object]:
        return iter(list(self._entries.values()))

    def enter(self, work: object) -> None:
        """Note work that begins."""
        self._entries[id(work)] = work

    def leave(self, work: object) -> None:
        """Take out work that has ended; idempotent."""
        self._entries.pop(id(work), None)
        if self._waiters and not self._entries:
            for waiter in list(self._waiters):
                waiter.set()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Have an entry for as long as a block runs."""
        work = object()
        self.enter(work)
        try:
            yield
        finally:
            self.leave(work)

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits until it is empty."""
        return bool(self._waiters)

    def wait_until_empty(self, timeout: float) -> None:
        """Wait until nothing is in it, at most ``timeout`` seconds."""
        empty = threading.Event()
        self._waiters.append(empty)  # before the look, so that the last one sees it
        if self._entries:
            empty.wait(timeout)
        self._waiters.remove(empty)

    def told(self) -> str | None:
        """Say how much is in it; None: nothing."""
        count = len(self._entries)
        if not count or (self._is_over is not None and self._is_over()):
            return None
        return f"{self._who}: {count} {self._what}"


class Work(Protocol):
    """What can say whether something has begun and not ended; a `Book` is one."""

    def told(self) -> str | None:
        """Say what has not ended; None: nothing. On any thread."""


_Work = TypeVar("_Work", bound=Work)


class Activity:
    """What one client instance works on, kept in books for the most part."""

    def __init__(self) -> None:
        self._books: dict[Book, None] = {}
        self._shared: WeakValueDictionary[object, Any] = WeakValueDictionary()

    def open(self, who: str, what: str, is_over: Callable[[], bool] | None = None) -> Book:
        """Give a new book, which counts until `close`, or until ``is_over`` says so.

        An event loop that has closed ends nothing that it had begun: ``is_over`` is for such.
        """
        return self.keep(Book(who, what, is_over))

    def keep(self, book: Book) -> Book:
        """Count a book until `close`, also of what has begun before there was this instance."""
        self._books[book] = None
        return book

    def share(self, key: object, work: _Work) -> _Work:
        """Count work while somebody holds it; give what counts for the same key already."""
        shared: _Work = self._shared.setdefault(key, work)
        return shared

    def close(self, book: Book) -> None:
        """Count a book no longer; idempotent."""
        self._books.pop(book, None)

    def told(self) -> str | None:
        """Say what is worked on, of the first work that has not ended; None: nothing."""
        works: list[Work | None] = [*self._books, *(one() for one in self._shared.valuerefs())]
        return next((told for one in works if one is not None and (told := one.told())), None)
