"""`rocketmq-py store repair`: what it mends, what it prints, and what it refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, StoreDamagedError, VirtualClock
from embedded_broker.errors import StoreError
from embedded_broker.lifecycle.repair import open_without_damage
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fault_points import DiskFault
from rocketmq_py import DefaultMQProducer, Message

PROGRAM = [sys.executable, "-c", "from embedded_broker.cli import main; main()"]
COUNT = 20


def repair(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, "store", "repair", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def _filled(store: Path) -> None:
    with (
        EmbeddedBroker(store=store, clock=VirtualClock(), topics=["T"]) as broker,
        DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        for number in range(COUNT):
            producer.send(Message("T", b"body %d" % number))
            producer.send(Message("T", b"later %d" % number, delay=timedelta(hours=1)))


def _flip_body(store: Path, body: bytes) -> None:
    log = next((store / "commitlog").iterdir())
    with log.open("r+b") as file:  # not rewritten as a whole: it is sparse, and large
        at = file.read(100_000).index(body)
        file.seek(at)
        file.write(bytes([body[0] ^ 1]))


def test_a_store_with_a_damaged_body_is_mended_and_opens_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    _filled(store)
    _flip_body(store, b"body 7")
    with pytest.raises(StoreDamagedError, match="rocketmq-py store repair"):
        EmbeddedBroker(store=store, clock=VirtualClock()).start()
    new = tmp_path / "new"
    done = repair(store, new)
    assert done.returncode == 0, done.stderr
    assert "damaged places of the commit log that were left out: 1; messages" in done.stdout
    assert (done.stdout.count("damaged at"), done.stderr) == (1, "")
    assert f"{new}: a broker can open it; what was left out lies in {new}/damaged" in done.stdout
    assert b"cody 7" in next((new / "damaged").iterdir()).read_bytes()
    with pytest.raises(StoreDamagedError, match="rocketmq-py store repair"):
        EmbeddedBroker(store=store, clock=VirtualClock()).start()
    with EmbeddedBroker(store=new, clock=VirtualClock()) as broker:
        assert broker.recovery.problems == ()
        assert broker.recovery.timers_pending == COUNT
        left = {record.body for record in broker.messages.in_topic("T")}
        assert left == {b"body %d" % number for number in range(COUNT)} - {b"body 7"}
    again = repair(new, tmp_path / "newer")
    text = f"{new}: nothing was wrong; {tmp_path}/newer holds the same\n"
    assert (again.returncode, again.stdout) == (0, text)


def test_a_config_file_that_cannot_be_read_is_set_aside(tmp_path: Path) -> None:
    store = tmp_path / "store"
    _filled(store)
    for path in (store / "config").glob("topics.json*"):
        path.write_bytes(b"")
    with pytest.raises(StoreDamagedError, match=r"topics\.json"):
        EmbeddedBroker(store=store, clock=VirtualClock()).start()
    done = repair(store, tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert "topics.json" in done.stdout
    with EmbeddedBroker(store=tmp_path / "new", clock=VirtualClock()) as broker:
        assert broker.recovery.problems == ()
        assert len(broker.messages.in_topic("T")) == COUNT


def test_a_store_that_a_broker_has_open_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with EmbeddedBroker(store=store, topics=["T"]):
        done = repair(store, tmp_path / "new")
    assert done.returncode == 1
    assert "in use" in done.stderr


def test_a_folder_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("y", encoding="utf-8")
    done = repair(tmp_path, tmp_path / "new")
    assert done.returncode == 1
    assert "is no store" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_serve_prints_what_it_found(tmp_path: Path) -> None:
    store = tmp_path / "store"
    _filled(store)
    (store / "abort").write_text("1", encoding="utf-8")
    _flip_body(store, b"body 7")
    command = [*PROGRAM, "serve", "--namesrv-port", "0", "--broker-port", "0"]
    command += ["--store", str(store), "--set", "damagedRecords=skip"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline() if process.stdout else ""
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert line.startswith("ready ")
    assert "broker-a: the store was not closed the last time: 40 records" in errors
    assert "broker-a: damaged places of the commit log that were left out: 1;" in errors
    assert errors.count("damaged at") == 1
    assert len(set(errors.splitlines())) == len(errors.splitlines())


def test_what_could_not_be_saved_is_no_repaired_store(tmp_path: Path) -> None:
    _filled(tmp_path / "store")
    fs = DirectoryFileSystem(tmp_path / "store")
    fs.faults.add_write(DiskFault("no space left on device", "config/timermetrics.tmp", left=None))
    with pytest.raises(StoreError, match=r"cannot be saved: .*no space left on device"):
        open_without_damage(fs, {})
    fs.faults.clear()
    open_without_damage(fs, {})


def test_who_interrupts_a_repair_has_the_store_as_it_was_and_no_new_one(tmp_path: Path) -> None:
    store, new = tmp_path / "store", tmp_path / "new"
    _filled(store)
    table = store / "config/topics.json"
    table.unlink()
    os.mkfifo(table)
    command = [*PROGRAM, "store", "repair", str(store), str(new)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        # A pipe stands in the table's place: who can open it knows that the repair reads it now.
        # It ends then: a signal just before a read does not end the read.
        with table.open("wb"):
            process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert errors == f"rocketmq-py: interrupted: {store} is as it was, and {new} was not written\n"
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


def test_an_empty_path_is_refused() -> None:
    done = repair("", "new")
    assert done.returncode == 2
    assert "the path is empty" in done.stderr


def test_the_stores_in_the_folder_of_a_cluster_are_named(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=2, store=tmp_path, clock=VirtualClock(), tcp=False):
        pass
    done = repair(tmp_path, tmp_path / "new")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"rocketmq-py: {tmp_path} is no store: it has neither commitlog nor config. There are "
        "stores below it: broker-a, broker-b\n"
    )
    done = repair(tmp_path / "broker-a", tmp_path / "new")
    assert done.returncode == 0, done.stderr
