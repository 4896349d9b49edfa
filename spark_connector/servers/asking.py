"""How a planner asks about many places at once, and again where that can help.

One answer late makes nobody wait in line: every round asks about all that is open. Must not know
what is asked. Read on: ``access.py`` for one question, ``back_off.py`` for those nobody waits for.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from rocketmq_py import RocketMQError
from spark_connector.options.read_options import ReadOptions
from spark_connector.servers.access import given_up, is_transient
from spark_connector.servers.back_off import in_background

THREADS_MOST = 16

_K = TypeVar("_K")
_T = TypeVar("_T")


def retrying_all(
    options: ReadOptions,
    what: str | Callable[[_K], str],
    places: Iterable[_K],
    ask: Callable[[list[_K]], Mapping[_K, _T | RocketMQError]],
) -> dict[_K, _T]:
    """Ask about all, then up to ``fetchOffset.numRetries`` times about those that failed.

    ``what`` says what is done, of all or of each. Raises as `access.retrying`, for the first place
    that has no answer in the end.
    """
    found: dict[_K, _T] = {}
    left = list(places)
    attempt = 1
    while left:
        failed: dict[_K, RocketMQError] = {}
        for place, answer in ask(left).items():
            if isinstance(answer, RocketMQError):
                failed[place] = answer
            else:
                found[place] = answer
        for place, error in failed.items():
            said = what if isinstance(what, str) else what(place)
            if not is_transient(error):
                error.add_note(f"This happened while {said}.")
                raise error
            if attempt > options.fetch_offset_num_retries:
                raise given_up(options, said, attempt, error) from None
        left = list(failed)
        attempt += 1
        if left:
            threading.Event().wait(options.fetch_offset_retry_interval_ms / 1000)
    return found


def each_at_once(places: Iterable[_K], ask: Callable[[_K], _T]) -> dict[_K, _T]:
    """Ask about each place on a thread, `THREADS_MOST` at a time; raises what the first raised."""
    left = list(places)
    if len(left) == 1:
        return {left[0]: ask(left[0])}
    found: dict[_K, _T] = {}
    turn = iter(left)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                place = next(turn, None)
            if place is None:
                return
            found[place] = ask(place)

    workers = [in_background(work) for _ in left[:THREADS_MOST]]
    for worker in workers:
        worker.result()
    return found
