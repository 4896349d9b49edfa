"""A disk that fills up under load, is freed, and a kill: every promise is kept, none too early."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.mixed_load import SAVED_S
from tests.hostile.small_disk import DISKS, run_on_small_disk

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
@pytest.mark.parametrize("kind", DISKS)
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
