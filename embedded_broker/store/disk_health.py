"""Disk health: what keeps a store from taking messages, a lost folder or a full disk.

Answers: why nothing is accepted at present, and since when. Who stores messages, topics, groups or
offsets asks here. Must not know: requests. Read on: `message_store.py`, which looks after each
flush; `directory_lock.py` for the folder.
"""

from collections.abc import Callable

from embedded_broker.errors import StoreError
from rocketmq_py.logs import get_logger

_LOG = get_logger(__name__)


class Undone:
    """Writes that the opening of a store has to leave undone while the disk is full."""

    def __init__(self) -> None:
        self.error: StoreError | None = None
        self._writes: list[Callable[[], object]] = []

    def attempt(
        self, write: Callable[[], object], otherwise: Callable[[], None] | None = None
    ) -> bool:
        """Write, or keep it for later and do something else; raises other errors than a full disk.

        Says whether it was written.
        """
        try:
            write()
        except StoreError as error:
            if not error.disk_full:
                raise
            self.error = self.error or error
            self._writes.append(write)
            if otherwise is not None:
                otherwise()
            return False
        return True

    def attempt_last(self, write: Callable[[], object]) -> None:
        """Write what tells that all the rest is written; left undone while any of it is."""
        if self._writes:
            self._writes.append(write)
        else:
            self.attempt(write)

    def run(self) -> None:
        """Write what is left. Raises ``StoreError``, and the rest stays."""
        while self._writes:
            self._writes[0]()
            del self._writes[0]


class DiskHealth:
    """`problem` says why nothing is accepted, since `since_ms`; None while all is well.

    Any thread may look; what is noted is seen by the next message that comes.
    """

    def __init__(self, now_ms: Callable[[], int], accept: Callable[[bool], None]) -> None:
        self._now_ms = now_ms
        self._accept = accept
        self._left_undone: Callable[[], None] | None = None
        self.problem: str | None = None
        self.since_ms = 0

    def start_anew(self) -> None:
        """Forget what was wrong with the store before it was opened."""
        self._left_undone = None
        self._note(None)

    def drain_until(self, done: Callable[[], None], error: StoreError) -> None:
        """Accept nothing until the disk takes what `done` writes."""
        self._left_undone = done
        self._note(
            f"the disk was full when the store was opened: {error}. Messages can be consumed; "
            "nothing is stored until there is room"
        )

    def look(self, place: Callable[[], str | None]) -> None:
        """Ask what is wrong with the store's place. Outside the door."""
        problem = place()
        if problem is not None or self._left_undone is None:
            self._note(problem)

    def try_again(self) -> None:
        """Do what is left to do if the disk takes it now: it changes files that are read."""
        if self._left_undone is None:
            return
        try:
            self._left_undone()
        except StoreError:
            return
        self._left_undone = None
        self._note(None)

    def _note(self, problem: str | None) -> None:
        if problem == self.problem:
            return
        if problem is None:
            _LOG.warning("the store accepts messages again")
            self._accept(True)
            self.problem = None
        else:
            _LOG.error("%s", problem)
            self.since_ms = self._now_ms()
            self.problem = problem
            self._accept(False)
