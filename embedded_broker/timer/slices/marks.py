"""Delete marks of a sliced store: in which second they work, and which timers they remove.

Answers: what a mark in memory is found by, and whether it hits. Must not know: where the marks came
from, or what becomes of a timer that one hits.

Read on: `../recall.py` for what a mark is, `fire.py` and `listing.py` for who asks.
"""

from collections.abc import Mapping

from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import delete_key, parse_request, victim_root
from embedded_broker.timer.slices.record import Glance
from rocketmq_py.protocol.properties import Prop

MarksByKey = Mapping[str, list[Mark]]


class MarkTable:
    """Marks by the second in which they work, and by the key of their victims."""

    def __init__(self) -> None:
        self._marks: dict[int, dict[str, list[Mark]]] = {}

    def __bool__(self) -> bool:
        return bool(self._marks)

    def add(self, seen: Glance) -> bool:
        """Take the mark of a delete message, once; False when it is none."""
        properties = seen.decoded()
        request = parse_request(properties)
        if request is None or request.deletes is None:
            return False
        mark = Mark(seen.source, victim_root(properties))
        marks = self._marks.setdefault(seen.second, {}).setdefault(request.deletes, [])
        if mark not in marks:
            marks.append(mark)
        return True

    def at(self, second: int) -> MarksByKey:
        """Give the marks of a second by key."""
        return self._marks.get(second, {})

    def forget(self, second: int) -> None:
        """Forget the marks of a second that is over."""
        self._marks.pop(second, None)

    def clear(self) -> None:
        """Forget every mark."""
        self._marks.clear()


def hits_among(
    several: tuple[MarksByKey, ...], source: int, properties: Mapping[str, str]
) -> list[Mark]:
    """Give the marks that remove the timer at `source` of the commit log."""
    key = delete_key(properties.get(Prop.REAL_TOPIC, ""), properties.get(Prop.UNIQ_KEY, ""))
    return [
        mark for marks in several for mark in marks.get(key, ()) if is_hit(mark, source, properties)
    ]


def is_moved(properties: Mapping[str, str]) -> bool:
    """Say whether a timer came here from another time; a mark says whom it removes instead."""
    return Prop.TIMER_DEL_OFFSET in properties and Prop.TIMER_DEL_UNIQKEY not in properties


def is_hit(mark: Mark, source: int, properties: Mapping[str, str]) -> bool:
    """Say whether a mark of its key removes a timer.

    A mark by key removes timers that came before it and after it, but for one that somebody moved
    here from another time later: that is a wish of its own.
    """
    is_spared = mark.victim_root is None and mark.root <= source and is_moved(properties)
    return mark.names(source) and not is_spared
