"""The server's life beside the brokers', and the broker that is asked from another process."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from embedded_broker import BrokerStateError, EmbeddedBroker, EmbeddedCluster, VirtualClock
from embedded_broker.control.server import ControlServer
from embedded_broker.tables.accounts.plain import PlainAccount, PlainAcl
from rocketmq_py.errors import ConfigError, how_to_install
from tests.unit.embedded_broker.cli.test_serve import run_to_the_end, serving
from tests.unit.embedded_broker.control.http_peer import GUARD_S, Answer, HttpPeer

TOKEN = "a token of many letters"

ADVANCE = """
import sys, urllib.request
request = urllib.request.Request(
    sys.argv[1] + "/clock/advance", data=b'{"seconds": 10}', method="POST",
    headers={"Content-Type": "application/json"},
)
print(urllib.request.urlopen(request).read().decode())
"""


@pytest.mark.case("K26")
def test_a_second_process_moves_the_clock_also_while_the_broker_is_paused(
    broker: EmbeddedBroker,
) -> None:
    broker.send("T", b"x", delay=10)
    broker.pause()
    done = subprocess.run(
        [sys.executable, "-I", "-c", ADVANCE, broker.control_url],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert '"fired":1' in done.stdout
    assert [one.body for one in broker.messages.in_topic("T")] == [b"x"]


def test_nothing_is_left_after_the_broker_and_its_port_is_kept() -> None:
    before = set(threading.enumerate())
    broker = EmbeddedBroker(control=True, clock=VirtualClock())
    with broker:
        url = broker.control_url
        assert HttpPeer(url).get("/clock")["now_ms"] == broker.clock.now_ms
    with pytest.raises(ConnectionRefusedError):
        HttpPeer(url).get("/clock")
    assert set(threading.enumerate()) <= before
    with broker:
        assert broker.control_url == url
        HttpPeer(url).get("/clock")


def test_it_stays_while_brokers_crash_and_restart(broker: EmbeddedBroker) -> None:
    control = HttpPeer(broker.control_url)
    broker.crash()
    assert control.get("/clock")["now_ms"] == broker.clock.now_ms
    told = control.refused(409, "GET", "/topics")
    assert told["title"] == "BrokerStateError"
    broker.restart()
    assert control.get("/topics")[0]["name"] == "T"


def test_a_wait_ends_with_the_broker(broker: EmbeddedBroker) -> None:
    control = HttpPeer(broker.control_url)
    answers: list[Answer] = []
    before = set(threading.enumerate())

    def wait() -> None:
        answers.append(control.send("/topics/T/wait", count=1, timeout=300))

    thread = threading.Thread(target=wait)
    thread.start()
    broker.wait_for(lambda one: one.clock.onlookers.begun >= 2, timeout=GUARD_S)
    broker.close()
    for one in set(threading.enumerate()) - before:
        one.join(GUARD_S)
        assert not one.is_alive()
    assert [one.status for one in answers] == [409]
    assert "is being closed" in answers[0].json["detail"]


def test_with_a_token_everybody_has_to_carry_it() -> None:
    with EmbeddedBroker(control=True, control_token=TOKEN) as broker:
        control = HttpPeer(broker.control_url)
        assert control.refused(401, "GET", "/openapi.json")["title"] == "TokenNeeded"
        told = control.ask("GET", "/clock", headers={"Authorization": f"Bearer {TOKEN}"})
        assert told.status == 200


def test_a_face_that_others_reach_needs_a_token() -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - it is refused
    with pytest.raises(ConfigError, match=r"control_token.*needed where other hosts"):
        ControlServer(list, host=everywhere)
    for token in ("short", "ü" * 20):
        with pytest.raises(ConfigError, match="at least 16 ASCII") as caught:
            ControlServer(list, token=token)
        assert token not in str(caught.value)
    assert EmbeddedBroker(host=everywhere, allow_remote=True, control=True).control_url.startswith(
        "http://127.0.0.1:"
    )
    assert ControlServer(list, host="::1", port=1).url == "http://[::1]:1"


def test_with_access_control_it_is_no_way_round_it() -> None:
    account = PlainAccount(access_key="administrator", secret_key="secret-of-it", admin=True)
    acl = PlainAcl(accounts=[account])
    with pytest.raises(ConfigError, match=r"control_token.*asks for no account"):
        EmbeddedBroker(control=True, acl=acl)
    assert EmbeddedBroker(control=True, acl=acl, control_token=TOKEN).control_url


@pytest.mark.parametrize("kind", [EmbeddedBroker, EmbeddedCluster])
def test_arguments_that_do_not_fit_are_refused(
    kind: type[EmbeddedBroker | EmbeddedCluster],
) -> None:
    with pytest.raises(ConfigError, match="only with control=True"):
        kind(control_port=1)
    with pytest.raises(ConfigError, match="only with control=True") as caught:
        kind(control_token=TOKEN)
    assert TOKEN not in str(caught.value)
    with pytest.raises(ConfigError, match=r"0 .any free port. to 65535"):
        kind(control=True, control_port=70_000)
    with pytest.raises(BrokerStateError, match="pass control=True"):
        _ = kind().control_url


def test_a_port_that_is_taken_starts_nothing(broker: EmbeddedBroker) -> None:
    port = int(broker.control_url.rpartition(":")[2])
    before = set(threading.enumerate())
    with pytest.raises(ConfigError, match=f":{port}"):
        EmbeddedBroker(control=True, control_port=port).start()
    assert set(threading.enumerate()) <= before


def test_without_the_extra_it_is_named() -> None:
    program = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from embedded_broker import EmbeddedBroker\n"
        "try: EmbeddedBroker(control=True)\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).resolve().parents[4],
    )
    assert how_to_install("control") in done.stdout


def test_a_broker_without_a_face_loads_nothing_of_it() -> None:
    program = (
        "import sys\n"
        "from embedded_broker import EmbeddedBroker\n"
        "with EmbeddedBroker(): pass\n"
        "print([n for n in sys.modules if n.partition('.')[0] in ('starlette', 'uvicorn')\n"
        "       or n.startswith('embedded_broker.control')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).resolve().parents[4],
    )
    assert done.stdout == "[]\n"


def test_served_brokers_have_a_face_and_a_clock_that_moves() -> None:
    with serving("--control-port", "0", "--clock", "flowing", "--topic", "T") as (_, words):
        control = HttpPeer(words["control"])
        control.post("/messages", topic="T", body="x", delay=3600)
        control.post("/clock/advance", hours=1)
        assert control.get("/topics/T")["count"] == 1
        assert control.get("/clock")["flows"]


def test_a_served_token_needs_a_port() -> None:
    done = run_to_the_end("--control-token", TOKEN)
    assert done.returncode == 1
    assert "only with --control-port" in done.stderr
    assert TOKEN not in done.stderr
