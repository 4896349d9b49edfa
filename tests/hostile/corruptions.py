"""Damage to the files of a store, and what becomes of it: same, repaired and said, refused, silent.

Answers: which damage a seed draws, and how the opening that follows is judged. A store may open
with everything in it; it may open with less, if its recovery report says that something was wrong;
it may be refused, if the error names the file. Everything else is silent loss: a failure. A body
that nobody sent is one, whatever the report says.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from random import Random

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


GOOD = frozenset({Verdict.SAME, Verdict.SAID, Verdict.REFUSED})


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


def damage(store: Store, random: Random) -> str:
    """Damage one file of a store, or swap two of one folder; says what was done."""
    files = store.files()
    path = random.choice(files)
    kind = random.choice(KINDS)
    name = path.relative_to(store.root).as_posix()
    if kind == "delete":
        path.unlink()
        return f"delete {name}"
    if kind == "empty":
        path.write_bytes(b"")
        return f"empty {name}"
    if kind == "swap":
        others = [one for one in files if one.parent == path.parent and one != path] or files
        other = random.choice([one for one in others if one != path])
        between = path.with_name("swapping")
        path.rename(between)
        other.rename(path)
        between.rename(other)
        return f"swap {name} and {other.relative_to(store.root).as_posix()}"
    size = path.stat().st_size
    if kind == "truncate":
        length = random.randrange(size) if size else 0
        with path.open("r+b") as file:
            file.truncate(length)
        return f"truncate {name} to {length} of {size}"
    used = _data_end(path) if random.random() < 0.9 else size
    at, bit = (random.randrange(used) if used else 0), random.randrange(8)
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1) or b"\0"
        file.seek(at)
        file.write(bytes([byte[0] ^ 1 << bit]))
    return f"flip bit {bit} of byte {at} of {name}"


def judge(before: Holds, store: Store) -> tuple[Verdict, str, tuple[int, int, int] | None]:
    """Open a damaged store and say what became of it."""
    try:
        after = store.look()
    except (StoreError, ConfigError) as error:
        names = {path.name for path in store.files()} | {path.parent.name for path in store.files()}
        is_placed = any(name in str(error) for name in names) or "/" in str(error)
        return (Verdict.REFUSED if is_placed else Verdict.VAGUE), str(error), None
    except Exception as error:  # noqa: BLE001 - whatever else it is, it is a failure
        return Verdict.BROKEN, repr(error), None
    said = after.report != before.report
    text = "; ".join(after.report.problems) or (str(after.report) if said else "")
    counts = after.counts()
    if (
        after.at_last.keys() - before.at_last.keys()
        or after.at_first.keys() - before.at_last.keys()
    ):
        return Verdict.WRONG, text, counts
    if after == before:
        return (Verdict.SAID if after.report.problems else Verdict.SAME), text, counts
    if said:
        return Verdict.SAID, text, counts
    more = after.at_last - before.at_last
    return (Verdict.TWICE if more else Verdict.SILENT), _difference(before, after), counts


def play(seeds: range, folder: Path) -> Iterator[Outcome]:
    """Damage a fresh copy of a store for each seed, of each kind of store in turn."""
    stores: dict[tuple[Kind, bool], tuple[Store, Holds]] = {}
    for seed in seeds:
        key = STORES[seed % len(STORES)]
        kind, clean = key
        if key not in stores:
            made = make_store(kind, folder / f"{kind} {clean}", clean=clean)
            stores[key] = (made, made.copy(folder / f"{kind} {clean} looked at").look())
        made, before = stores[key]
        copy = made.copy(folder / str(seed))
        done = damage(copy, Random(seed))
        verdict, text, after = judge(before, copy)
        name = f"{kind}, {'closed' if clean else 'killed'}"
        yield Outcome(seed, name, done, verdict, text, before.counts(), after)
        for path in sorted(copy.root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        copy.root.rmdir()


def _difference(before: Holds, after: Holds) -> str:
    parts = []
    for name in ("topics", "offsets", "at_first", "waiting", "at_last"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            gone = [one for one in old if new.get(one) != old[one]][:3]
            came = [one for one in new if old.get(one) != new[one]][:3]
            parts.append(f"{name}: gone or changed {gone}, new or changed {came}")
    return "; ".join(parts)


def _data_end(path: Path) -> int:
    data = path.read_bytes().rstrip(b"\0")
    return len(data)
