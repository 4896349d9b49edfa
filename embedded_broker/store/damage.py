"""Damage in the commit log: where bad bytes are, and what is written there on request.

Answers: which places are damaged, how many good records lie behind the first, and what is written
there instead: a record that no queue shows, or the mark that a file ends early. What is replaced is
copied to `damaged/` before. A bad place without a good record behind it is a torn end and not
handled here. Must not know: queues, options. Read on: `recovery.py` for who decides.
"""

from typing import Final

from attrs import frozen

from embedded_broker.errors import StoreError
from embedded_broker.store.checkpoint import StoreCheckpoint
from embedded_broker.store.commit_log import BLANK_SIZE_MIN, COMMIT_LOG_FOLDER, CommitLog
from embedded_broker.store.damaged_folder import keep_range
from embedded_broker.store.mapped_file import NAME_DIGITS
from embedded_broker.store.message_run import MessageRun
from rocketmq_py.protocol.message_codec import encode_neighbours
from rocketmq_py.protocol.sysflag import TRANSACTION_ROLLBACK

FILLER_TOPIC: Final = "D"
"""Topic of the records that stand where damaged ones stood: short, since they must fit there."""

_PAGE: Final = 4096
_ZERO_RUN: Final = 64
_HOST: Final = bytes(8)


@frozen
class DamagedPlace:
    """Bytes of the log that are no good records; ``end`` is where the next good one begins."""

    begin: int
    end: int
    what: str


@frozen
class Damage:
    """Every damaged place of a log from the first on, and the good records behind that one.

    ``oldest_behind_ms`` is the smallest of their store times.
    """

    places: tuple[DamagedPlace, ...]
    records_behind: int
    oldest_behind_ms: int


def find_damage(log: CommitLog, bad: int) -> Damage | None:
    """Look behind the place where reading the log stopped; None when no good record follows."""
    end = log.files.data_end()
    places: list[DamagedPlace] = []
    count, oldest_ms = 0, 2**63 - 1
    while (behind := log.next_good(bad, end)) is not None:
        places.append(DamagedPlace(bad, behind, log.problem_at(bad) or "no record"))
        for offset, size, _, _, _, _, stored, _ in log.scan_parts(behind):
            count += 1
            oldest_ms = min(oldest_ms, stored)
            behind = offset + size
        bad = log.behind_blank(behind)
    return Damage(tuple(places), count, oldest_ms) if places else None


def is_unsynced_hole(log: CommitLog, damage: Damage, checkpoint: StoreCheckpoint) -> bool:
    """Say whether a power loss explains the damage: pages came to the disk out of order.

    Then all of it lies behind what was synced last, and a hole of zeros reaches to the end of a
    page or of a file. Such bytes are the end of the log that no sync had reached.
    """
    if checkpoint.knows_durable(damage.places[0].begin, damage.oldest_behind_ms):
        return False
    place, file_size = damage.places[0], log.files.file_size
    step = min(_PAGE, file_size)
    boundary = place.begin - place.begin % step + step
    while boundary - step < place.end:
        end = min(boundary, place.begin - place.begin % file_size + file_size)
        # Where a file ends without an end mark, a few zeros tell enough.
        run = _ZERO_RUN if end % file_size else BLANK_SIZE_MIN
        begin = end - max(1, min(run, (end - place.begin) // 2))
        if end > place.end:
            begin = place.end - 1  # it goes on behind a torn record, where a file's end mark was
        view = log.files.read(begin, end - begin)
        if view is not None and not any(view):
            return True
        boundary += step
    return False


def leave_out(log: CommitLog, places: tuple[DamagedPlace, ...]) -> list[str]:
    """Replace damaged bytes by what every reader steps over; gives a line for each place.

    Durable when it returns. Raises ``StoreError``, on a full disk for example; then the bytes whose
    copy could not be written are as they were.
    """
    lines = []
    for place in places:
        kept = []
        at = place.begin
        while at < place.end:
            file_end = at - at % log.files.file_size + log.files.file_size
            kept += _replace(log, at, min(place.end, file_end), is_rest=place.end >= file_end)
            at = file_end
        copies = f", kept in {', '.join(kept)}" if kept else " that were all zero"
        size = place.end - place.begin
        lines.append(
            f"{name_of(log, place.begin)}: damaged at {place.begin} ({place.what}): "
            f"{size} bytes are left out{copies}"
        )
    return lines


def name_of(log: CommitLog, offset: int) -> str:
    """Give the file that holds an offset."""
    start = offset - offset % log.files.file_size
    return f"{COMMIT_LOG_FOLDER}/{start:0{NAME_DIGITS}d}"


def _replace(log: CommitLog, begin: int, end: int, *, is_rest: bool) -> list[str]:
    segment, inside = log.files.locate(begin)
    kept = keep_range(log.files.fs, segment, inside, inside + end - begin)
    if is_rest:
        log.write_blank(begin)
    else:
        room = end - begin - len(_filler(begin, 0))
        if room < 0:
            raise StoreError(f"{segment.path}: {end - begin} bytes at {begin} cannot be left out")
        segment.write(inside, _filler(begin, room))
    segment.sync()
    return kept


def _filler(offset: int, body_size: int) -> bytes:
    """Make a record that every reader takes for a good one and that no queue shows."""
    run = MessageRun(
        FILLER_TOPIC, 0, [(0, 0, bytes(body_size), b"", 0)], TRANSACTION_ROLLBACK, _HOST
    )
    record, _ = encode_neighbours(run.items, run, 0, offset, 0, _HOST)
    return record
