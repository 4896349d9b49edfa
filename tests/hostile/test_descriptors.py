"""More used queues than a process may open files: sending, flushing, reopening and reading them.

What a process saw is told by it line by line, so a test knows how far one came that died.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.hostile.small_disk import ROOT

_PRELUDE = """
import json, os, resource, sys
from embedded_broker import EmbeddedBroker, TopicSpec, VirtualClock

store = sys.argv[1]

def limit(soft, hard):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

def tell(**what):
    print(json.dumps(what), flush=True)
"""

_MANY_QUEUES = """
queues, per_topic = int(sys.argv[2]), 1000
limit(1024, 1024)
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
tell(found=found, again=again, most_open=most_open, left=len(os.listdir("/proc/self/fd")))
"""

_MANY_TOPICS = """
topics = [TopicSpec(f"T{number}", queues=1) for number in range(1008)]
with EmbeddedBroker(store=store, clock=VirtualClock(), topics=topics) as broker:
    for topic in topics:
        broker.send(topic.name, b"kept", queue=0)
tell(sent=len(topics))
"""

_REOPENED = """
limit(1024, 1024)
with EmbeddedBroker(store=store, clock=VirtualClock()) as broker:
    tell(found=sum(len(broker.messages.in_topic(f"T{number}")) for number in range(1008)))
"""

_LOW_LIMIT = """
limit(256, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
with EmbeddedBroker(store=store, clock=VirtualClock()):
    tell(soft=resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""

_ALL_TAKEN = """
limit(256, 256)
with EmbeddedBroker(store=store, clock=VirtualClock(), topics=["Before"]) as broker:
    file = os.path.join(store, "config", "topics.json")
    broker.wait_for(lambda _: os.path.exists(file), timeout=20)
    old, taken = os.stat(file).st_ino, []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError as error:
        tell(taken=len(taken), number=error.errno)
    broker.topics.create("Late")
    broker.wait_for(lambda _: os.path.exists(file) and os.stat(file).st_ino != old, timeout=20)
    for one in taken:
        os.close(one)
    tell(late='"Late"' in open(file).read())
"""


GUARD_S = 250
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("queues", "place"),
    [(2000, _MEMORY), pytest.param(5000, None, marks=pytest.mark.slow)],
)
def test_five_thousand_queues_need_no_more_than_1024_descriptors(
    tmp_path: Path, queues: int, place: Path | None
) -> None:
    with _folder(place or tmp_path) as store:
        _use_many_queues(tmp_path, store, queues)


@contextmanager
def _folder(place: Path) -> Iterator[Path]:
    """A folder in memory, if that is there; else every sync takes its time."""
    with TemporaryDirectory(dir=place if place.is_dir() else None) as folder:
        yield Path(folder)


def test_a_store_of_a_thousand_topics_opens_again_under_1024_descriptors(tmp_path: Path) -> None:
    with _folder(_MEMORY) as store:
        assert _told(tmp_path, store, _MANY_TOPICS) == {"sent": 1008}
        assert _told(tmp_path, store, _REOPENED) == {"found": 1008}


def test_the_soft_limit_of_a_process_is_raised(tmp_path: Path) -> None:
    told = _told(tmp_path, tmp_path / "store", _LOW_LIMIT)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] == 256:
        pytest.skip("the hard limit of this machine is as low")
    assert told["soft"] > 256


def test_a_topic_is_saved_though_connections_took_every_descriptor(tmp_path: Path) -> None:
    told = _told(tmp_path, tmp_path / "store", _ALL_TAKEN)
    assert told["number"] == errno.EMFILE
    assert told["late"]


def _told(tmp_path: Path, store: Path, program: str, *arguments: str) -> dict[str, Any]:
    """Run a program in a process of its own; give what it told, and fail if it complained."""
    file = tmp_path / "program.py"
    file.write_text(_PRELUDE + program)
    done = subprocess.run(
        [sys.executable, str(file), str(store), *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    told: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        told |= json.loads(line)
    assert (done.returncode, done.stderr) == (0, ""), f"after {told}: {done.stderr}"
    return told


def _use_many_queues(tmp_path: Path, store: Path, queues: int) -> None:
    told = _told(tmp_path, store, _MANY_QUEUES, str(queues))
    assert told["found"] == 2 * queues
    assert told["again"] == ["0", "1", "one more"]
    assert told["most_open"] < 640  # the rest is for connections and saves
    assert told["left"] < 10
