"""A disk that fills up under load, is freed, and a kill: every promise is kept, none too early."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.mixed_load import SAVED_S
from tests.hostile.small_disk import DISKS, run_on_small_disk
from tests.short_form import short_form

_TWO_LIVES = """
import subprocess
from tests.hostile.mixed_load import fill_free_and_die, look_again

engine, notes = sys.argv[2], Path(sys.argv[3])  # beside the disk that fills up
if "before" in sys.argv:
    fill_free_and_die(STORE, engine, notes, fill, free)
assert subprocess.run([sys.executable, *sys.argv, "before"]).returncode == -signal.SIGKILL
tell(**look_again(STORE, engine, notes))
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("engine", ["wheel", "sliced"])
@pytest.mark.parametrize("kind", short_form(DISKS, lambda kind: kind == "tmpfs"))
def test_what_was_promised_on_a_full_disk_is_there_once_and_in_time(
    tmp_path: Path, kind: str, engine: str
) -> None:
    told = run_on_small_disk(
        tmp_path / "disk",
        _TWO_LIVES,
        engine,
        str(tmp_path / "notes"),
        kind=kind,
        megabytes=80,
        timeout_s=110,
    )
    assert told["promised"] > 500
    assert told["delayed"] > 100
    assert told["topics"] > 5
    assert min(told["refused"]) > 0  # what could not be kept was not promised
    assert (told["missing"], told["early"], told["twice"], told["pending"]) == ([], [], 0, 0)
    answered, found = told["commits"]
    assert answered == found
    assert told["lost_topics"] == []
    assert told["saved_s"] < SAVED_S


_OLD_MESSAGES = """
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.errors import MQBrokerException

SETTINGS = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 6000}
with EmbeddedBroker(
    store=STORE, tcp=False, topics=["T"], clock=VirtualClock(), config=SETTINGS
) as broker:
    fill(keep=6 << 20)
    stored = refused = 0
    while refused < 20:
        try:
            broker.send("T", bytes(50_000), queue=0)
            stored += 1
        except MQBrokerException:
            refused += 1
    flush(broker)
    fill()  # to the last page
    files = len(list((STORE / "commitlog").iterdir()))
    broker.clock.advance(100 * 3600, age=True)
    broker.wait_for(lambda _: len(list((STORE / "commitlog").iterdir())) < files, timeout=20)
    broker.send("T", b"there is room again")
    tell(stored=stored, left=len(broker.messages.in_topic("T")))
with EmbeddedBroker(store=STORE, tcp=False, clock=VirtualClock(), config=SETTINGS) as broker:
    tell(problems=broker.recovery.problems, found=len(broker.messages.in_topic("T")))
"""


@pytest.mark.parametrize("kind", DISKS)
def test_old_messages_leave_a_full_disk_and_make_room(tmp_path: Path, kind: str) -> None:
    told = run_on_small_disk(tmp_path / "disk", _OLD_MESSAGES, kind=kind, megabytes=60)
    assert 0 < told["left"] < told["stored"]
    assert (told["found"], told["problems"]) == (told["left"], [])
