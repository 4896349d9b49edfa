"""`store repair` and a stop on a full disk: one sentence each, and no success that is none."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.small_disk import run_on_small_disk

_PROGRAM = """
import subprocess
from embedded_broker import EmbeddedBroker

SETTINGS = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 6000}
with EmbeddedBroker(store=STORE, topics=["T"], config=SETTINGS, tcp=False) as broker:
    for number in range(20):
        broker.send("T", b"body %d" % number, delay=3600 if number % 2 else None)
fill()
program = [sys.executable, "-c", "from embedded_broker.cli import main; main()"]
folders = [str(STORE), f"{STORE}-new"]
sizes = [f"--set={name}={size}" for name, size in SETTINGS.items()]
done = subprocess.run(
    [*program, "store", "repair", *folders, *sizes], capture_output=True, text=True
)
left = [one.name for one in STORE.parent.iterdir() if one.name.startswith(STORE.name + "-")]
tell(status=done.returncode, out=done.stdout, err=done.stderr, left=left)
free()
done = subprocess.run(
    [*program, "store", "repair", *folders, *sizes], capture_output=True, text=True
)
tell(freed_status=done.returncode, freed_err=done.stderr)
"""


def test_a_store_is_not_called_mended_when_nothing_could_be_written(tmp_path: Path) -> None:
    told = run_on_small_disk(tmp_path / "disk", _PROGRAM, megabytes=60)
    assert told["status"] == 1, told
    assert "Traceback" not in told["err"]
    assert (told["out"], told["left"]) == ("", [])
    assert "No space left on device" in told["err"]
    assert told["freed_status"] == 0, told
