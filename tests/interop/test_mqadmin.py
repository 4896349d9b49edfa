"""RocketMQ's own mqadmin (`rocketmq-tools` 5.3.3 and 4.9.4) administers the embedded broker.

All commands of a release run one after the other in one Java process, each with what it needs as
the ones before have left it. A command passes when it prints no stack trace, and something that
this test has put there appears in what it prints. What is not built (controllers, static topics,
cold data) is not asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.kit.backend import BackendError
from embedded_broker.kit.jvm import running
from embedded_broker.settings.profiles import ProfileName
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)
from rocketmq_py.admin import AdminClient
from rocketmq_py.trace import Pub, read_records
from tests.interop.java_tools import QUICK, client_program, compiled, jars
from tests.interop.mqadmin_commands import (
    BODY,
    COMMANDS,
    FILES,
    JAVA_READERS,
    JAVA_TOPIC,
    KEY,
    NEW_IN_5,
    READERS,
    SENDERS,
    TOPIC,
)
from tests.waiting import HANG_S, until

TRACES = "RMQ_SYS_TRACE_TOPIC"
GROUPS = (READERS, JAVA_READERS)
COMMANDS_MIN = 60
START_S = 200.0
"""Bounds only: how long a Java program takes to begin is up to how busy the machine is."""
LOGGING = "<configuration><root level='OFF'/></configuration>"
"""What mqadmin of 4.9 reads from its home before anything else."""


class Row(NamedTuple):
    """A command, and texts of which each must stand in what it prints."""

    command: str
    expected: tuple[str, ...]


def rows(names: dict[str, str]) -> Iterator[Row]:
    """Give the commands in their order; ``names`` are what only a run knows."""
    is_old = names["version"] < "V5"
    for command, *expected in chain.from_iterable(COMMANDS.values()):
        if is_old and command.startswith(NEW_IN_5):
            continue
        text = command.removeprefix(NEW_IN_5).format(**names)
        if " -n " not in text:
            text += f" -n {names['namesrv']}"
        yield Row(text, tuple(one.format(**names) for one in expected))


def outputs(release: str, commands: list[str], folder: Path) -> list[str]:
    """Run the commands; gives what each has printed, nothing for those that did not run."""
    script = folder / "commands"
    script.write_text("".join("\t".join(one.split()) + "\n" for one in commands))
    (folder / "conf").mkdir()
    (folder / "conf" / "logback_tools.xml").write_text(LOGGING)
    path = compiled("AdminCommands", jars(release, "rocketmq-tools"))
    homes = [f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}"]
    home = ["-Djava.security.manager=allow", *homes]
    with running(["-Xmx256m", *home, *QUICK, "-cp", path, "AdminCommands", str(script)]) as java:
        # The rows that are missing then say which command it was.
        with contextlib.suppress(BackendError):
            java.finish(HANG_S)
        lines = java.said()
    said: list[list[str]] = [[] for _ in commands]
    current: list[str] = []
    for line in lines:
        if line.startswith("BEGIN\t"):
            current = said[int(line.split("\t")[1])]
        elif not line.startswith("END\t"):
            current.append(line)
    return ["\n".join(one) for one in said]


def check_trace(broker: EmbeddedBroker) -> None:
    """What mqadmin has noted of the message that it sent is read by our administrator."""
    with AdminClient(namesrv_addr=broker.namesrv_addr) as admin:
        notes = admin.messages_by_key(TRACES, "adm")
        (noted,) = (record for one in notes for record in read_records(one.body))
        assert admin.trace(noted.msg_id) == (noted,)
        assert isinstance(noted, Pub)
        assert (noted.topic, noted.tags, noted.success) == (TOPIC, "late", True)


@pytest.mark.case("W108")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("release", "profile"), [("5.3.3", "rocketmq-5.x"), ("4.9.4", "rocketmq-4.9")]
)
def test_mqadmin_administers_the_embedded_broker(
    release: str, profile: ProfileName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # consumerStatus writes files where it is
    arrived: list[MessageExt] = []

    def listen(
        messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        del context
        arrived.extend(messages)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    with (
        EmbeddedBroker(profile=profile, topics=[TOPIC, JAVA_TOPIC, TRACES]) as broker,
        DefaultMQProducer(SENDERS, namesrv_addr=broker.namesrv_addr) as producer,
        client_program(
            release, "TimerReceive", broker.namesrv_addr, JAVA_TOPIC, "99", "900", JAVA_READERS
        ) as java,
    ):
        with DefaultMQProducer(
            SENDERS, namesrv_addr=broker.namesrv_addr, enable_trace=True
        ) as traced:
            sent = traced.send(Message(TOPIC, BODY.encode(), tags="TagA", keys=[KEY]))
        for_java = producer.send(Message(JAVA_TOPIC, b"x"))
        consumer = DefaultMQPushConsumer(
            READERS, namesrv_addr=broker.namesrv_addr, persist_consumer_offset_interval=100
        )
        consumer.subscribe(TOPIC, "TagA || TagB")
        consumer.register_message_listener(listen)
        with consumer:
            until(lambda: arrived, START_S)
            java.wait_for_line("STARTED", START_S)
            broker.wait_members(JAVA_READERS, 1, timeout=START_S)
            until(lambda: not any(broker.groups[one].lag() for one in GROUPS), START_S)
            producer.send(Message(TOPIC, b"later", tags="TagC"))
            names = {
                "folder": str(tmp_path),
                "namesrv": broker.namesrv_addr,
                "broker": broker.addr,
                "version": "V" + release.replace(".", "_"),
                # Who asks by an offset id names the topic, too, since 5.
                "of_orders": f"-t {TOPIC}" if release > "5" else "",
                "of_java": f"-t {JAVA_TOPIC}" if release > "5" else "",
                "id": sent.msg_id,
                "offset_id": sent.offset_msg_id,
                "queue": str(sent.message_queue.queue_id),
                "sender": producer.client_id,
                "reader": consumer.client_id,
                "java": broker.groups[JAVA_READERS].members[0].client_id,
                "java_id": for_java.msg_id,
                "java_offset_id": for_java.offset_msg_id,
                "stored": "2",
                "all": "5",
            }
            for name, text in FILES.items():
                (tmp_path / name).write_text(text)
            table = list(rows(names))
            said = outputs(release, [row.command for row in table], tmp_path)
        if profile == "rocketmq-5.x":  # mqadmin of 4.9.4 ended before its own trace had left
            check_trace(broker)
    problems = [
        f"{row.command}\n{text or 'did not run'}\n-> lacks {missing}"
        for row, text in zip(table, said, strict=True)
        if (missing := [one for one in row.expected if one not in text]) or "\tat org." in text
    ]
    print(f"mqadmin {release}: {len(table)} commands, {len(problems)} with problems")
    assert not problems, "\n\n".join(problems)
    assert len(table) >= COMMANDS_MIN
