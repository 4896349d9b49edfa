"""The `rocketmq-py serve` program: one ready line, real clients, clear refusals, a clean stop."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_broker.cli.serve import ClockChoice, grpc_options, settings_of
from embedded_broker.settings.grpc import GrpcOptions
from rocketmq_py import DefaultMQProducer, Message, SendStatus, __version__
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode
from tests.needs import skip_without
from tests.unit.embedded_broker.wire_peer import WirePeer
from tests.waiting import HANG_S

SERVE = [sys.executable, "-c", "from embedded_broker.cli import main; main()", "serve"]
ROOT = Path(__file__).resolve().parents[4]
FREE_PORTS = ["--namesrv-port", "0", "--broker-port", "0"]


@contextlib.contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """A running server and the words of its ready line."""
    with subprocess.Popen(
        [*SERVE, *FREE_PORTS, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            assert line.startswith("ready "), line
            yield process, dict(word.split("=", 1) for word in line.split()[1:])
        finally:
            process.terminate()
            process.wait(20)


def run_to_the_end(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SERVE, *FREE_PORTS, *options], capture_output=True, text=True, check=False, timeout=30
    )


def test_a_file_of_certificates_that_names_none_is_refused(tmp_path: Path) -> None:
    secured = tmp_path / "tls.properties"
    secured.write_text("tls.server.mode=enforcing\n", encoding="utf-8")
    said = run_to_the_end("--tls", str(secured))
    assert said.returncode == 1
    assert "tls certificate" in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize(("brokers", "whose"), [("1", ""), ("2", "by each of 2 brokers ")])
def test_it_says_what_it_keeps(brokers: str, whose: str) -> None:
    with serving("--brokers", brokers) as (process, _):
        line = process.stdout.readline() if process.stdout else ""
    assert line.startswith(f"messages are kept {whose}in memory, for 72 hours")


def test_it_serves_grpc_clients_where_that_is_asked_for() -> None:
    skip_without("grpc", "google.protobuf")
    with serving("--grpc-port", "0", "--topic", "T") as (_, words):
        host, _, port = words["endpoints"].rpartition(":")
        assert (host, int(port) > 0) == ("127.0.0.1", True)
        with socket.create_connection((host, int(port)), timeout=10) as peer:
            peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            assert len(peer.recv(9)) == 9  # its own settings
        taken = run_to_the_end("--grpc-port", port)
        assert taken.returncode == 1
        assert f"--grpc-port: setting address = '127.0.0.1:{port}'" in taken.stderr


def test_whose_codes_grpc_clients_get_is_an_option() -> None:
    assert grpc_options(8081, "5.3.3") == GrpcOptions(port=8081, strict="5.3.3")
    assert grpc_options(8081, None) == GrpcOptions(port=8081)
    with pytest.raises(ConfigError, match="--grpc-port"):
        grpc_options(None, "5.3.3")
    refused = run_to_the_end("--grpc-port", "0", "--grpc-strict", "5.4.0")
    assert refused.returncode == 1
    assert "grpc strict = '5.4.0'" in refused.stderr


SIGNAL_THAT_ENDS_NO_WAIT = """
import signal, sys, threading, time
from embedded_broker.cli import main

def names(frame):
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back

def tell(waiting):
    while "wait_until_told" not in names(sys._current_frames()[waiting]):
        time.sleep(0.01)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

threading.Thread(target=tell, args=(threading.get_ident(),), daemon=True).start()
main()
"""
"""Another thread gets the signal, so the wait of the main thread goes on, and its handler waits.

So it is, too, when the signal comes just before that wait.
"""


def test_a_signal_ends_it_also_when_it_does_not_end_the_wait() -> None:
    program = [sys.executable, "-c", SIGNAL_THAT_ENDS_NO_WAIT, "serve", *FREE_PORTS]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.wait(HANG_S) == 0
        finally:
            process.kill()


TELLS_OF_ITS_COLLECTOR = """
import gc
from embedded_broker.cli import main

try:
    main()
finally:
    print("collects every", gc.get_threshold()[0], "and leaves", gc.get_freeze_count())
"""


def test_what_a_server_begins_with_is_not_looked_at_by_the_collector_again() -> None:
    program = [sys.executable, "-c", TELLS_OF_ITS_COLLECTOR, "serve", *FREE_PORTS]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline() if process.stdout else ""
        assert line.startswith("ready "), line
        process.terminate()
        said, _ = process.communicate(timeout=20)
    told = re.search(r"collects every (\d+) and leaves (\d+)", said)
    assert told is not None, said
    every, left = map(int, told.groups())
    assert every > gc.get_threshold()[0]  # this program's, which is Python's own
    assert left > 10_000  # all modules


AS_INHERITED = """
import signal
from embedded_broker.cli import main

signal.signal(signal.SIGHUP, signal.{})
main()
"""
"""Whoever runs the tests may ignore the signal, so the disposition is set."""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
@pytest.mark.parametrize(("inherited", "ends"), [("SIG_DFL", True), ("SIG_IGN", False)])
def test_the_end_of_its_terminal_stops_it_cleanly_unless_it_was_told_to_outlive_it(
    inherited: str, ends: bool
) -> None:
    program = [sys.executable, "-c", AS_INHERITED.format(inherited), "serve", *FREE_PORTS]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(program, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            line = process.stdout.readline()
            words = dict(word.split("=", 1) for word in line.split()[1:])
            process.send_signal(signal.SIGHUP)
            if not ends:  # as under nohup: it serves on
                with DefaultMQProducer("G", namesrv_addr=words["namesrv"]) as producer:
                    assert producer.send(Message("T", b"x")).send_status is SendStatus.SEND_OK
                process.terminate()
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_is_ready_when_it_says_so_and_stops_cleanly(number: signal.Signals) -> None:
    with serving("--topic", "T") as (process, words):
        with DefaultMQProducer("G", namesrv_addr=words["namesrv"]) as producer:
            assert producer.send(Message("T", b"x")).send_status is SendStatus.SEND_OK
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors == ""


def test_it_says_how_long_messages_are_kept_and_how_many_bytes() -> None:
    with serving() as (process, _):
        said = process.stdout.readline() if process.stdout else ""
        process.terminate()
    assert "72 hours" in said
    assert "bytes" in said


def test_a_store_directory_is_kept_between_two_processes(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with (
        serving("--store", store, "--topic", "T") as (_, words),
        DefaultMQProducer("G", namesrv_addr=words["namesrv"]) as producer,
    ):
        queue = producer.send(Message("T", b"kept")).message_queue
    with (
        serving("--store", store) as (_, words),
        DefaultMQProducer("G", namesrv_addr=words["namesrv"]) as producer,
    ):
        assert producer.max_offset(queue) == 1


def test_what_is_not_saved_at_the_end_is_told_by_the_exit_status(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with serving("--store", str(store), "--topic", "T") as (process, words):
        with DefaultMQProducer("G", namesrv_addr=words["namesrv"]) as producer:
            producer.send(Message("T", b"lost"))
        shutil.rmtree(store)
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "rocketmq-py: not everything of broker-a is saved: " in errors
    assert f"{store} was removed while the broker used it" in errors
    assert "Traceback" not in errors


def test_several_brokers_print_one_address_each() -> None:
    with serving("--brokers", "3", "--cluster", "C") as (_, words):
        assert len(set(words["broker"].split(","))) == 3


def test_a_second_server_on_a_directory_is_refused(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with serving("--store", store):
        done = run_to_the_end("--store", store)
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "timerMaxDelaySek=5"], ["timerMaxDelaySek", "timerMaxDelaySec"]),
        (["--set", "timerPrecisionMs=x"], ["timerPrecisionMs", "x"]),
        (["--set", "novalue"], ["--set", "novalue", "name=value, such as"]),
        (["--host", "0.0.0.0"], ["0.0.0.0", "pass --allow-remote"]),  # noqa: S104 - it is refused
    ],
)
def test_a_bad_option_is_named_and_nothing_starts(options: list[str], words: list[str]) -> None:
    done = run_to_the_end(*options)
    assert done.returncode == 1
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


def test_an_empty_path_of_a_store_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    done = subprocess.run(
        [*SERVE, *FREE_PORTS, "--store", ""],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert "--store" in done.stderr
    assert "the path is empty" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_conf_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"--conf = '.*broker.conf' .* a text file in UTF-8"):
        settings_of(conf, [])


@pytest.mark.parametrize("option", ["--namesrv-port", "--broker-port", "--control-port"])
def test_the_option_of_a_port_that_is_taken_is_named(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_to_the_end(option, str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert done.stderr.startswith(f"rocketmq-py: {option}: setting address = '127.0.0.1:")


def test_the_choices_of_a_clock_are_the_words_of_the_command_line() -> None:
    assert list(ClockChoice) == ["wall", "frozen", "flowing"]


def test_options_of_the_command_line_win_over_those_of_the_file(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "brokerName=b7\nlistenPort=10999\ntimerMaxDelaySec=60\nsendMessageThreadPoolNums=4\n",
        encoding="utf-8",
    )
    settings = settings_of(conf, ["timerMaxDelaySec=120"])
    assert settings.arguments == {"broker_name": "b7", "broker_port": "10999"}
    assert settings.options == {"timerMaxDelaySec": 120}
    assert settings.ignored == ("sendMessageThreadPoolNums",)


def test_a_line_that_is_no_assignment_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--set = 'novalue'.* name=value, such as"):
        settings_of(None, ["novalue"])
    conf = tmp_path / "broker.conf"
    conf.write_text("novalue\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"broker\.conf line = 'novalue'.* name=value, such as"):
        settings_of(conf, [])


def test_a_port_of_the_file_that_is_no_number_is_named(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("listenPort=x\n", encoding="utf-8")
    done = subprocess.run(
        [*SERVE, "--namesrv-port", "0", "-c", str(conf)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 1
    assert "listenPort = 'x'" in done.stderr
    assert "a port from 0" in done.stderr


def test_the_version_is_an_option_and_a_command() -> None:
    for words in (["--version"], ["version"]):
        done = subprocess.run(
            [*SERVE[:-1], *words], capture_output=True, text=True, check=False, timeout=30
        )
        assert (done.returncode, done.stdout) == (0, f"{__version__}\n"), done.stderr


def test_the_help_shows_every_name_whole_in_80_columns() -> None:
    done = subprocess.run(
        [*SERVE, "--help"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.stdout
    for name in ("--allow-remote-admin", "memoryStoreMaxBytes", "ROCKETMQ_CONTROL_TOKEN"):
        assert name in done.stdout


@pytest.mark.parametrize(
    ("options", "allowed"), [([], "false"), (["--allow-remote-admin"], "true")]
)
def test_other_hosts_administer_it_only_when_that_is_said(options: list[str], allowed: str) -> None:
    host = ["--host", "0.0.0.0", "--allow-remote"]  # noqa: S104 - what is tested
    with serving(*host, *options) as (_, words):
        _, _, port = words["broker"].rpartition(":")
        with WirePeer(f"127.0.0.1:{port}") as peer:
            settings = peer.ask(RequestCode.GET_BROKER_CONFIG).body.decode()
    assert f"allowRemoteAdmin={allowed}\n" in settings
