"""The official gRPC clients, through a proxy or at our endpoint: how they are run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest
from attrs import evolve, field, frozen

from embedded_broker.kit.backend import BackendError
from embedded_broker.kit.maven import fetched
from rocketmq_py import DefaultMQProducer
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from tests.interop.java_tools import CACHE, QUICK, compiled
from tests.interop.scenarios import QUEUES, Cell, Client, run
from tests.unit.embedded_broker.wire_peer import WirePeer

SETTINGS = {
    "recallMessageEnable": "true",
    "enablePropertyFilter": "true",
    "transactionTimeOut": "1500",
    "transactionCheckInterval": "1000",
}
SOON_AGAIN = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [100]}}
"""The clients are told of it by the proxy, which reads the group's settings, or by the endpoint."""
JAVA = "5.2.0"
PYTHON = "5.1.2"
JAVA_JARS = f"org.apache.rocketmq:rocketmq-client-java:{JAVA}"
GO = "5.1.4"
NODE = "1.0.8"
HERE = Path(__file__).parent

SCENARIOS = (
    "sync",
    "async",
    "orderly",
    "tags",
    "sql",
    "retry",
    "dead_letters",
    "transaction",
    "timers",
    "recall",
    "pop",
    "invisible_time",
    "given_up",
)
OF_OURS = ("signed", "tls", "days", "restart")
"""Our broker alone has a second port, for TLS, a clock that can be moved, and lives that can be
ended from outside: these come last. Its twin knows one account."""
KINDS = {
    "orderly": "FIFO",
    "dead_letters": "FIFO",
    "transaction": "TRANSACTION",
    "timers": "DELAY",
    "recall": "DELAY",
    "days": "DELAY",
}
"""The server refuses what is of another kind than its topic; the others are NORMAL."""
GIVE_UP = ("dead_letters", "given_up", "all_attempts")
GROUPS = {
    "orderly_group": (True, 1),
    "dead_letters_group": (True, 1),
    "given_up_group": (False, 1),
    # What was tried as often as its readers would try it is a dead letter for them, too.
    "all_attempts_group_readers": (False, 32),
}
"""Whether groups are served in order, and how often they try again."""


def java() -> list[str]:
    """The client in Java; it logs below its home."""
    jars = fetched(f"rocketmq-client-java-{JAVA}", JAVA_JARS, cache=CACHE)
    path = compiled("GrpcScenarios", str(jars / "*"))
    return ["java", "-Xmx256m", *QUICK, f"-Duser.home={jars.parent}", "-cp", path, "GrpcScenarios"]


def python() -> list[str]:
    """The client in Python, in an environment of its own; it logs below its home."""
    home = CACHE / f"rocketmq-python-client-{PYTHON}"
    home.mkdir(parents=True, exist_ok=True)
    what = f"rocketmq-python-client=={PYTHON}"
    runs, done = home / "bin" / "python", home / "complete"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            pip = [str(runs), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            made(what, [sys.executable, "-m", "venv", str(home)])
            made(what, [*pip, what])
            done.touch()
    return ["env", f"HOME={home}", str(runs), str(HERE / "python" / "main.py")]


def go() -> list[str]:
    """The client in Go; the version stands in go.mod, too. It logs below its home."""
    home = CACHE / f"rocketmq-clients-go-{GO}"
    made(f"the client in Go {GO}", ["go", "build", "-o", str(home / "run"), "."], HERE / "go_grpc")
    return ["env", f"HOME={home}", str(home / "run")]


def node() -> list[str]:
    """The client for Node.js; the version stands in package.json, too. It logs below its home."""
    home = CACHE / f"rocketmq-client-nodejs-{NODE}"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "main.js"):
        shutil.copy(HERE / "node" / name, home / name)
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--silent"]
    made(f"rocketmq-client-nodejs {NODE}", ["npm", "install", *options], home)
    return ["env", f"HOME={home}", "node", str(home / "main.js")]


def made(what: str, command: list[str], cwd: Path | None = None) -> None:
    """Run what makes a client ready."""
    try:
        subprocess.run(command, cwd=cwd, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BackendError(f"{what} is not there: {error}") from None


CLIENTS = (
    Client(f"gRPC Java {JAVA}", java, SCENARIOS),
    Client(f"gRPC Python {PYTHON}", python, SCENARIOS),
    Client(f"gRPC Go {GO}", go, SCENARIOS, needs="go"),
    Client(f"gRPC Node {NODE}", node, SCENARIOS, needs="npm"),
)
OF_NODE = ("all_attempts",)
"""A real broker takes seconds for each attempt: more than the program waits."""
CLIENTS_OF_OURS = tuple(
    evolve(one, scenarios=(*one.scenarios, *(OF_NODE if one.program is node else ()), *OF_OURS))
    for one in CLIENTS
)


# --- running them --------------------------------------------------------------------------------


@frozen
class Address:
    """Where a broker is, and where its gRPC clients go.

    These find `variables` in their environment.
    """

    namesrv: str
    broker: str
    endpoints: str
    variables: Mapping[str, str] = field(factory=dict)


def served(client: Client, address: Callable[[], Address]) -> dict[str, Cell]:
    """Make topics and groups, and let the client do all that it can."""
    if shutil.which(client.needs) is None:
        raise BackendError(f"{client.needs} not found")
    client.program()
    name = client.name.replace(" ", "_").replace(".", "_")
    prefix, at = f"{name}_{uuid.uuid4().hex[:6]}", address()
    prepare(at, prefix, client)
    return run(client, at.endpoints, prefix, **at.variables)


def told(client: Client, running: Future[dict[str, Cell]]) -> dict[str, Cell]:
    """Give what became of a client.

    One that cannot be made ready is skipped with the reason; in CI that is a failure.
    """
    try:
        return running.result()
    except BackendError as error:
        missing = f"{client.name} is not run: {error}"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)


def prepare(at: Address, prefix: str, client: Client) -> None:
    """Create topics of the right kinds, and the groups that give a message up soon.

    A consumer starts when its topic is there, so those of dead letters are made, too.
    """
    topics = {f"{prefix}_{one}": KINDS.get(one, "NORMAL") for one in client.scenarios}
    topics |= {f"%DLQ%{prefix}_{one}_group": "NORMAL" for one in GIVE_UP}
    with DefaultMQProducer(f"{prefix}_makes", namesrv_addr=at.namesrv) as producer:
        for topic, kind in topics.items():
            attributes = {"message.type": kind}
            producer.create_topic(AUTO_CREATE_TOPIC, topic, QUEUES, attributes=attributes)
    with WirePeer(at.broker) as peer:
        for name, (in_order, retries) in GROUPS.items():
            group = SubscriptionGroupConfig(
                f"{prefix}_{name}",
                consume_message_orderly=in_order,
                retry_max_times=retries,
                group_retry_policy=SOON_AGAIN,
            )
            answer = peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
            assert answer.code == 0, answer.remark
