"""More used queues than a process may open files: sending, flushing, reopening and reading them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest

from tests.hostile.small_disk import ROOT

_MANY_QUEUES = """
import json, os, resource, sys, tempfile
from embedded_broker import EmbeddedBroker, TopicSpec, VirtualClock
from rocketmq_py.protocol.bodies.topics import TopicConfig

store, queues, per_topic = sys.argv[1], int(sys.argv[2]), 1000
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
topics = [TopicSpec(f"T{number}", queues=per_topic) for number in range(queues // per_topic)]
most_open = 0

def new_broker():
    return EmbeddedBroker(store=store, clock=VirtualClock(), topics=topics)

def look():
    global most_open
    most_open = max(most_open, len(os.listdir("/proc/self/fd")))

with new_broker() as broker:
    for turn in range(2):
        for topic in topics:
            for queue in range(per_topic):
                broker.send(topic.name, b"%d" % turn, queue=queue)
            look()
        broker._parts().flush_everything()
        look()
with new_broker() as broker:
    look()
    store_of = broker._parts().store
    found = 0
    for topic in topics:
        found += len(broker.messages.in_topic(topic.name))
        look()
    broker.send("T0", b"one more", queue=999)
    again = [one.body.decode() for one in broker.messages.in_topic("T0") if one.queue_id == 999]
print(json.dumps({"found": found, "again": again, "most_open": most_open,
    "left": len(os.listdir("/proc/self/fd"))}))
"""


_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("queues", "place"),
    [(2000, _MEMORY), pytest.param(5000, None, marks=pytest.mark.slow)],
)
def test_five_thousand_queues_need_no_more_than_1024_descriptors(
    tmp_path: Path, queues: int, place: Path | None
) -> None:
    if place is not None and not place.is_dir():
        place = None  # then every sync takes its time
    store = Path(mkdtemp(dir=place or tmp_path))
    try:
        _use_many_queues(tmp_path, store, queues)
    finally:
        rmtree(store)


def _use_many_queues(tmp_path: Path, store: Path, queues: int) -> None:
    program = tmp_path / "program.py"
    program.write_text(_MANY_QUEUES)
    done = subprocess.run(
        [sys.executable, str(program), str(store), str(queues)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Too many open files" not in done.stderr
    told = json.loads(done.stdout)
    assert told["found"] == 2 * queues
    assert told["again"] == ["0", "1", "one more"]
    assert told["most_open"] < 640  # the rest is for connections and saves
    assert told["left"] < 10
