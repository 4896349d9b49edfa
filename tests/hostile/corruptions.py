"""Damage to the files of a store, and what becomes of it: same, repaired and said, refused, silent.

Answers: which damage a seed draws, and how the opening that follows is judged. A store may open
with everything in it; it may open with less, if its recovery report says what was wrong, by a line
or a counter that is about a damaged file; it may be refused, if the error names the file. What is
delivered twice must be said as such. Everything else is silent loss: a failure. A body that nobody
sent is one, whatever the report says. A repair lasts: a second opening, after a stop or a crash
right after the first, finds the same and has nothing to say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from random import Random
from shutil import rmtree

from attrs import frozen

from embedded_broker.errors import StoreError
from rocketmq_py.errors import ConfigError
from tests.hostile.stores import Holds, Kind, Store, make_store

KINDS = ("flip", "truncate", "empty", "delete", "swap")
STORES: tuple[tuple[Kind, bool], ...] = tuple(
    (kind, clean) for kind in ("wheel", "sliced", "real 5.3.3") for clean in (True, False)
)


class Verdict(StrEnum):
    """What became of a damaged store."""

    SAME = "same"
    SAID = "repaired and reported"
    REFUSED = "refused with the place"
    SILENT = "SILENT"
    WRONG = "WRONG BODY"
    TWICE = "TWICE, UNSAID"
    VAGUE = "refused without the place"
    BROKEN = "another exception"
    UNNAMED = "said, but not what"
    AGAIN = "not mended at once"


GOOD = frozenset({Verdict.SAME, Verdict.SAID, Verdict.REFUSED})
COUNTERS = (
    "truncated_bytes",
    "entries_added",
    "entries_dropped",
    "timer_truncated_bytes",
)
"""What a recovery report counts that was wrong."""
TELLING = {
    "commitlog": ("commitlog", "commit log", "truncated_bytes"),
    "consumequeue": ("consumequeue", "consume queue", "entries_"),
    "timerlog": ("timerlog", "timer log", "timer_truncated_bytes"),
    "dcommitlog": ("dcommitlog",),
    "index": ("index",),
}
"""Words of which one must be said when a file of this folder was damaged; else its own name."""


@frozen
class Outcome:
    """One damage and what came of it."""

    seed: int
    store: str
    damage: str
    verdict: Verdict
    text: str
    before: tuple[int, int, int]
    after: tuple[int, int, int] | None

    def line(self) -> str:
        """Say it in a line or two, with the command that repeats it."""
        counts = f"{self.before} -> {self.after}"
        return (
            f"{self.seed} {self.store}: {self.damage}: {self.verdict}\n    {counts} "
            f"{self.text[:400]}\n    python -m tests.hostile --seed {self.seed} --runs 1 --all"
        )


def damage(store: Store, random: Random) -> tuple[str, tuple[str, ...]]:
    """Damage one file of a store, or swap two of one folder; gives what was done, and to which."""
    files = store.files()
    path = random.choice(files)
    kind = random.choice(KINDS)
    name = path.relative_to(store.root).as_posix()
    if kind == "delete":
        path.unlink()
        return f"delete {name}", (name,)
    if kind == "empty":
        path.write_bytes(b"")
        return f"empty {name}", (name,)
    if kind == "swap":
        others = [one for one in files if one.parent == path.parent and one != path] or files
        other = random.choice([one for one in others if one != path])
        other_name = other.relative_to(store.root).as_posix()
        between = path.with_name("swapping")
        path.rename(between)
        other.rename(path)
        between.rename(other)
        return f"swap {name} and {other_name}", (name, other_name)
    size = path.stat().st_size
    if kind == "truncate":
        length = random.randrange(size) if size else 0
        with path.open("r+b") as file:
            file.truncate(length)
        return f"truncate {name} to {length} of {size}", (name,)
    used = _data_end(path) if random.random() < 0.9 else size
    at, bit = (random.randrange(used) if used else 0), random.randrange(8)
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1) or b"\0"
        file.seek(at)
        file.write(bytes([byte[0] ^ 1 << bit]))
    return f"flip bit {bit} of byte {at} of {name}", (name,)


def judge(before: Holds, store: Store, names: tuple[str, ...]) -> tuple[Verdict, str, Holds | None]:
    """Open a store of which these files are damaged, and say what became of it."""
    try:
        after = store.look()
    except (StoreError, ConfigError) as error:
        files = store.files()
        places = {path.name for path in files} | {path.parent.name for path in files}
        is_placed = any(name in str(error) for name in places) or "/" in str(error)
        return (Verdict.REFUSED if is_placed else Verdict.VAGUE), str(error), None
    except Exception as error:  # noqa: BLE001 - whatever else it is, it is a failure
        return Verdict.BROKEN, repr(error), None
    said = _said(before, after)
    if (
        after.at_last.keys() - before.at_last.keys()
        or after.at_first.keys() - before.at_last.keys()
    ):
        return Verdict.WRONG, said, after
    if after == before:
        return (Verdict.SAID if after.report.problems else Verdict.SAME), said, after
    said_and_changed = f"{said} -- {_difference(before, after)}"
    if not said:
        more = after.at_last - before.at_last
        return (Verdict.TWICE if more else Verdict.SILENT), said_and_changed, after
    if after.at_last - before.at_last and not re.search("again|twice", said):
        return Verdict.TWICE, said_and_changed, after
    if not any(word in said for name in names for word in _words(name)):
        return Verdict.UNNAMED, said_and_changed, after
    return Verdict.SAID, said, after


def _said(before: Holds, after: Holds) -> str:
    """Give what the report says beyond what it says of the undamaged store."""
    old, new = before.report, after.report
    counted = (
        f"{name} {getattr(new, name)}"
        for name in COUNTERS
        if getattr(new, name) > getattr(old, name)
    )
    return "; ".join([*(one for one in new.problems if one not in old.problems), *counted])


def _words(name: str) -> tuple[str, ...]:
    folder, _, rest = name.partition("/")
    return TELLING.get(folder, (rest.removesuffix(".bak").removesuffix(".crc32") or folder,))


def look_twice(store: Store, *, clean: bool, expected: Holds) -> str:
    """Open a damaged store, stop it at once, look; say how that differs from looking at once."""
    broker = store.broker().start()
    if clean:
        broker.close()
    else:
        broker.crash()
    try:
        after = store.look()
    except Exception as error:  # noqa: BLE001 - it was open a moment ago
        return f"the second opening: {error!r}"
    if after.report.problems:
        return f"the second opening still says: {'; '.join(after.report.problems)}"
    return _difference(expected, after)


class Damages:
    """Plays seeds; each kind of store is made once, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stores: dict[tuple[Kind, bool], tuple[Store, Holds]] = {}

    def play(self, seed: int) -> Outcome:
        """Damage a fresh copy of a store, open it, and say what became of it."""
        kind, clean = STORES[seed % len(STORES)]
        made, before = self._made(kind, clean)
        copy = made.copy(self._folder / str(seed))
        random = Random(seed)
        done, names = damage(copy, random)
        again = copy.copy(self._folder / f"{seed} again")
        verdict, text, after = judge(before, copy, names)
        if after is not None and verdict in GOOD:
            # Levels promise "at least once" over a crash, and the real stores' are due at once.
            stops = kind == "real 5.3.3" or random.random() < 0.5
            differs = look_twice(again, clean=stops, expected=after)
            verdict, text = (Verdict.AGAIN, f"{text} -- {differs}") if differs else (verdict, text)
        rmtree(copy.root)
        rmtree(again.root)
        name = f"{kind}, {'closed' if clean else 'killed'}"
        counts = None if after is None else after.counts()
        return Outcome(seed, name, done, verdict, text, before.counts(), counts)

    def _made(self, kind: Kind, clean: bool) -> tuple[Store, Holds]:
        found = self._stores.get((kind, clean))
        if found is None:
            made = make_store(kind, self._folder / f"{kind} {clean}", clean=clean)
            looked = made.copy(self._folder / f"{kind} {clean} looked at").look()
            found = self._stores[kind, clean] = made, looked
        return found


def table_of(outcomes: Iterable[Outcome]) -> list[str]:
    """Count the verdicts by kind of damage; the lines of a table."""
    table = Counter((one.damage.split()[0], one.verdict) for one in outcomes)
    verdicts = [one for one in Verdict if any(key[1] is one for key in table)]
    rows = [("", *verdicts)]
    rows += [(kind, *(str(table[kind, one]) for one in verdicts)) for kind in KINDS]
    bad = sum(number for (_, verdict), number in table.items() if verdict not in GOOD)
    lines = ["".join(f"{word:>24}" for word in row) for row in rows]
    return [*lines, f"{table.total()} damages, {bad} silent or worse"]


def _difference(before: Holds, after: Holds) -> str:
    parts = []
    for name in ("topics", "offsets", "at_first", "waiting", "at_last"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            gone = [str(one)[:60] for one in old if new.get(one) != old[one]][:2]
            came = [str(one)[:60] for one in new if old.get(one) != new[one]][:2]
            parts.append(f"{name}: gone or changed {gone}, new or changed {came}")
    return "; ".join(parts)


def _data_end(path: Path) -> int:
    data = path.read_bytes().rstrip(b"\0")
    return len(data)
