"""`rocketmq-py timers`: what it prints, what it refuses, and that it changes nothing."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from embedded_broker import EmbeddedBroker, EmbeddedCluster, PlainAcl, VirtualClock
from embedded_broker.cli.timers import timers
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.protocol.json_text import loads
from tests.archives import unpack_store
from tests.unit.embedded_broker.inspector.store_tools import fingerprint, overwrite

PROGRAM = [sys.executable, "-c", "from embedded_broker.cli import main; main()", "timers"]
BEFORE_DUE = "2026-11-21T02:01:00+00:00"
ENVIRONMENT = {"COLUMNS": "120", "PYTHONUTF8": "1"}


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(timers)
    return CliRunner().invoke(app, [*map(str, arguments)], env=ENVIRONMENT)


def run_program(*arguments: object, by: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*by, *PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        env=ENVIRONMENT,
    )


def test_a_real_brokers_store_is_shown_and_not_one_byte_of_it_changes(tmp_path: Path) -> None:
    root = unpack_store("r533-clean", tmp_path)
    before = fingerprint(root)
    done = run(root, "--at", BEFORE_DUE, "--utc", "--limit", "3")
    assert done.exit_code == 0, done.stderr
    shown = " ".join(done.stdout.split())
    for part in (
        "store, stopped cleanly",
        "50 waiting",
        "due times, 5 s for each bar",
        "FIX_timer 25 0 2026-11-21 02:01:08Z 2026-11-21 02:01:32Z",
        "next messages (47 more are not shown)",
        "2026-11-21 02:01:08.000Z FIX_timer",
        "TimerEnqueueGetService 0 messages 0 ms next entry 25 of 25",
        "delay level 6 12 messages",
        "of 1209600 slots of 1000 ms hold 25 records",
        "check point read time 2026-11-21 02:00:47Z",
        "files whole: 22 slots, 25 log records",
    ):
        assert part in shown, shown
    assert fingerprint(root) == before


def test_json_is_one_document_with_everything(tmp_path: Path) -> None:
    root = unpack_store("r533-crash", tmp_path)
    done = run(root, "--json", "--topic", "FIX_timer", "--before", "2026-11-21T02:02:10Z")
    document = loads(done.stdout)
    assert done.exit_code == 0
    assert (document["total"], document["selected"], document["clean"]) == (50, 12, False)
    assert len(document["listed"]) == 10
    assert document["checkpoint"]["last_timer_queue_offset"] == 25
    assert document["integrity"]["damaged"] is False
    assert "did not stop cleanly" in document["warnings"][0]


def test_csv_lists_every_message_in_due_order(tmp_path: Path) -> None:
    root = unpack_store("r533-clean", tmp_path)
    rows = list(csv.DictReader(io.StringIO(run(root, "--csv").stdout)))
    assert len(rows) == 50
    due = [int(row["due_ms"]) for row in rows]
    assert due == sorted(due)
    assert rows[0]["place"] == "wheel"
    assert rows[-1]["level"] == "6"
    limited = run(root, "--csv", "--limit", "2", "--before", due[10])
    assert len(limited.stdout.splitlines()) == 3


def test_damage_is_named_and_the_exit_status_is_1(tmp_path: Path) -> None:
    root = unpack_store("r533-clean", tmp_path)
    overwrite(next((root / "timerlog").iterdir()), 52 + 40, b"\0\0\0\1")
    done = run(root, "--utc")
    assert done.exit_code == 1
    assert "files damaged" in done.stdout
    assert "topic hash" in done.stdout
    assert run(root, "--no-check").exit_code == 0


def test_a_running_broker_and_its_store_agree(tmp_path: Path) -> None:
    with (
        EmbeddedBroker(clock=VirtualClock(), store=tmp_path) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        for _ in range(3):
            producer.send(Message("T", b"x").set_delay_time_sec(60))
        producer.send(Message("L", b"x").set_delay_time_level(4))
        asked = run_program(broker.addr, "--json")
        by_name_server = run_program(broker.namesrv_addr, "--json")
        shown = run(broker.addr)
        looked = run_program(tmp_path, "--json", "--limit", "0")
        late = run(tmp_path, "--at", broker.clock.now_ms + 90_000)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert (by_name_server.returncode, by_name_server.stderr) == (0, "")
    (report,) = loads(asked.stdout)
    (same,) = loads(by_name_server.stdout)
    assert report["source"] == same["source"] == broker.addr
    assert (report["kind"], report["total"]) == ("broker", 4)
    assert report["topics"] == same["topics"]
    assert [(one["topic"], one["count"]) for one in report["topics"]] == [("T", 3)]
    assert report["runtime"]["timerCongestNum"] == "3"
    assert "running broker" in shown.stdout
    document = loads(looked.stdout)
    assert (document["total"], document["listed"]) == (4, [])
    assert "in use by embedded broker" in document["warnings"][0]
    assert "4 overdue" in late.stdout
    assert "oldest overdue: L" in late.stdout


def test_a_4_9_broker_is_asked_what_it_knows() -> None:
    with EmbeddedBroker(profile="rocketmq-4.9") as broker:
        done = run(broker.addr)
    assert done.exit_code == 0
    assert "0 waiting" in done.stdout
    assert "the broker does not tell the timer counts (61)" in done.stderr


@pytest.mark.parametrize("options", [(), ("--json",), ("--csv",)])
def test_what_a_broker_with_accounts_refuses_is_unknown_in_every_format(
    options: tuple[str, ...],
) -> None:
    with EmbeddedBroker(acl=PlainAcl(), topics=["T"]) as broker:
        broker.send("T", b"x", delay=600)
        done = run_program(broker.addr, *options)
    assert done.returncode == 3
    assert f"{broker.addr} does not tell how many messages wait" in done.stderr
    assert "the broker does not tell the timer counts (61): code 1" in done.stderr
    assert "No accessKey is configured" in done.stderr
    if "--json" in options:
        (report,) = loads(done.stdout)
        assert (report["total"], report["selected"]) == (None, None)
    elif "--csv" in options:
        assert done.stdout == "broker,topic,waiting\n"
    else:
        assert "unknown waiting" in done.stdout
        assert "0 waiting" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/nowhere"], ["neither a directory nor", "HOST:PORT"]),
        (["127.0.0.1:1"], ["cannot connect"]),
        (["127.0.0.1:99999"], ["99999"]),
        (["EMPTY"], ["no RocketMQ store"]),
        (["STORE", "--before", "soon"], ["--before soon", "+15m"]),
        (["STORE", "--at", "+1h"], ["--at +1h"]),
        (["STORE", "--at", "99999999999999999"], ["--at 99999999999999999", "253402214400000"]),
        (["STORE", "--at", "0001-01-01"], ["--at 0001-01-01", "1970-01-01"]),
        (["STORE", "--at", "9999-12-31T23:59:59-12:00"], ["--at 9999-12-31", "9999-12-31 UTC"]),
        (["STORE", "--before", "+99999999999d"], ["--before +99999999999d", "between"]),
        (["STORE", "--json", "--csv"], ["not both"]),
        (["127.0.0.1:1", "--before", "+1h"], ["need a store directory"]),
        (["STORE", "--buckets", "0"], ["--buckets"]),
        (["127.0.0.1:1", "--png", "a.png"], ["cannot connect"]),
        (["STORE", "--png", ""], ["--png", "the path is empty"]),
        ([""], ["the path is empty"]),
    ],
)
def test_what_cannot_be_done_is_said_with_exit_status_2(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    places = {"STORE": unpack_store("r533-clean", tmp_path), "EMPTY": tmp_path / "empty"}
    places["EMPTY"].mkdir()
    done = run(*[places.get(word, word) for word in arguments])
    assert done.exit_code == 2
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


@pytest.fixture(scope="module")
def without_rights() -> tuple[str, ...]:
    """What a command begins with so that the modes of files count for it, for root as well."""
    if os.geteuid():
        return ()
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root may read everything, and setpriv is not there to change that")
    capabilities = "-dac_override,-dac_read_search"
    return (setpriv, f"--inh-caps={capabilities}", f"--bounding-set={capabilities}")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (".", "list and enter the folder"),
        ("..", "enter the folder"),
        ("commitlog", "list and enter the folder"),
        ("consumequeue", "enter the folder"),
        ("config", "list and enter the folder"),
        ("config/timercheck", "read the file"),
        ("timerwheel", "read the file"),
        ("timerlog/00000000000000000000", "read the file"),
    ],
)
def test_what_may_not_be_read_is_named_and_is_no_damage(
    tmp_path: Path, without_rights: tuple[str, ...], place: str, words: str
) -> None:
    root = unpack_store("r533-clean", tmp_path)
    hidden = (root / place).resolve()
    mode = hidden.stat().st_mode
    hidden.chmod(0)
    try:
        done = run_program(root, by=without_rights)
    finally:
        hidden.chmod(mode)
    assert (done.returncode, done.stdout) == (2, "")
    told = "".join(done.stderr.replace("│", "").split())
    assert "".join(f"{hidden}: this user may not {words}.".split()) in told
    assert "Errno" not in told


def test_the_stores_of_a_cluster_are_named_for_its_directory(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=3, store=tmp_path, tcp=False) as cluster:
        for broker in cluster.brokers:
            broker.send("T", b"x")
    (tmp_path / "other").mkdir()
    done = run_program(tmp_path)
    assert done.returncode == 2
    assert "no RocketMQ store" in done.stderr
    assert "There are stores below it: broker-a, broker-b, broker-c\n" in done.stderr


def test_a_store_in_which_nothing_waits_is_reported_without_a_picture(tmp_path: Path) -> None:
    store, picture = tmp_path / "store", tmp_path / "a.png"
    with EmbeddedBroker(store=store, clock=VirtualClock(), tcp=False) as broker:
        broker.send("T", b"at once")
    done = run(store, "--png", picture)
    assert done.exit_code == 0, done.stderr
    assert "0 waiting" in done.stdout
    assert "nothing to draw" in done.stderr
    assert not picture.exists()


@pytest.mark.parametrize(("options", "zone"), [([], "EST"), (["--utc"], "Z")])
def test_every_time_of_a_report_is_in_one_zone_which_is_named(
    tmp_path: Path, options: list[str], zone: str
) -> None:
    root = unpack_store("r533-clean", tmp_path)
    environment = {**ENVIRONMENT, "TZ": "America/New_York", "COLUMNS": "160"}
    done = subprocess.run(
        [*PROGRAM, str(root), "--at", BEFORE_DUE, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    times = re.findall(r"\d\d:\d\d:\d\d(?:\.\d+)? ?(\w*)", done.stdout)
    assert len(times) > 20
    assert set(times) == {zone}
    read = "2026-11-20 21:00:47 EST" if zone == "EST" else "2026-11-21 02:00:47Z"
    assert done.stdout.count(f"read time {read}") == 2  # in the pipeline and of the check point


def test_spans_count_from_the_time_that_counts_as_now(tmp_path: Path) -> None:
    root = unpack_store("r533-clean", tmp_path)
    for span, selected in (("+10s", 2), ("+1m", 38), ("+1h", 50)):
        done = run(root, "--json", "--at", BEFORE_DUE, "--before", span)
        assert loads(done.stdout)["selected"] == selected, span
