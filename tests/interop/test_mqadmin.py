"""RocketMQ's own mqadmin (`rocketmq-tools` 5.3.3 and 4.9.4) administers the embedded broker.

All commands of a release run one after the other in one Java process, each with what it needs as
the ones before have left it. A command passes when it prints no stack trace, and something that
this test has put there appears in what it prints. What is not built (controllers, static topics,
cold data) is not asked for.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from embedded_broker import EmbeddedBroker
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
from tests.interop.java_tools import QUIET, client_program, compiled, jars
from tests.waiting import until

CLUSTER, BROKER = "DefaultCluster", "broker-a"
TOPIC, JAVA_TOPIC, TRACES = "Orders", "JavaOrders", "RMQ_SYS_TRACE_TOPIC"
READERS, JAVA_READERS, SENDERS = "OrderReaders", "JavaReaders", "OrderSenders"
GROUPS = (READERS, JAVA_READERS)
BODY, KEY = "cancel-4711", "key-4711"
COMMANDS_MIN = 60
PATIENCE_S = 300.0
START_S = 200.0
"""Bounds only: how long a Java program takes to begin is up to how busy the machine is."""
NEW_IN_5 = "5: "
"""Begins the rows that mqadmin of 4.9 does not know, whole or with these options."""
LOGGING = "<configuration><root level='OFF'/></configuration>"
"""What mqadmin of 4.9 reads from its home before anything else."""


class Row(NamedTuple):
    """A command, and texts of which each must stand in what it prints."""

    command: str
    expected: tuple[str, ...]


def rows(names: dict[str, str], folder: Path) -> Iterator[Row]:
    """Give the commands in their order; ``names`` are what only a run knows."""
    at, of = "-b {broker}", "-c DefaultCluster"
    many = folder / "topics.json"
    many.write_text(
        '[{"topicName":"ListedA","readQueueNums":2,"writeQueueNums":2,"perm":6},'
        '{"topicName":"ListedB","readQueueNums":3,"writeQueueNums":3,"perm":6}]'
    )
    groups = folder / "groups.json"
    groups.write_text('[{"groupName":"ListedReaders","retryMaxTimes":4}]')
    table = (
        # topics
        (f"updateTopic {of} -t Made -r 3 -w 5", "Made"),
        (f"5: updateTopic {of} -t Fifo -a +message.type=FIFO", "Fifo", "+message.type=FIFO"),
        (f"updateTopic {at} -t AtBroker -r 2 -w 2", "topicName=AtBroker, readQueueNums=2"),
        (f"5: updateTopicList {of} -f {many}", "success"),
        ("5: topicRoute -t ListedA", '"writeQueueNums":2'),
        ("5: topicRoute -t ListedB", '"readQueueNums":3'),
        (f"updateTopicPerm {of} -t AtBroker -p 4", "from 6 to 4"),
        ("topicRoute -t Made", '"readQueueNums":3', '"writeQueueNums":5', "{broker}"),
        ("topicRoute -t AtBroker -l", "2          2           4 "),
        ("topicStatus -t Orders", BROKER, "{stored}"),
        ("topicClusterList -t Orders", CLUSTER),
        ("topicList", "Made", "AtBroker"),
        (f"topicList -c {CLUSTER}", "Made", CLUSTER),
        (f"deleteTopic {of} -t AtBroker", "AtBroker", "success"),
        # groups
        (f"updateSubGroup {of} -g MadeReaders -r 7", "MadeReaders", "retryMaxTimes=7"),
        (f"updateSubGroup {at} -g Clones", "groupName=Clones"),
        (f"updateTopic {of} -t %RETRY%Clones -r 1 -w 1", "%RETRY%Clones"),
        (f"5: updateSubGroupList {of} -f {groups}", "success"),
        ("5: getConsumerConfig -g ListedReaders", "retryMaxTimes", "4"),
        ("getConsumerConfig -g MadeReaders", "retryMaxTimes", "7"),
        (f"deleteSubGroup {of} -g MadeReaders -r true", "MadeReaders", "success"),
        # the broker
        (f"updateBrokerConfig {at} -k transactionCheckMax -v 9", "{broker}"),
        (f"getBrokerConfig {at}", "transactionCheckMax                               =  9"),
        (f"brokerStatus {at}", "msgPutTotalTodayNow", "brokerVersionDesc"),
        (f"brokerStatus {of}", "{broker}"),
        ("clusterList", "{broker}", "{version}"),
        ("clusterList -m", BROKER, CLUSTER),
        (f"cleanExpiredCQ {at}", "success"),
        (f"cleanUnusedTopic {at}", "success"),
        (f"deleteExpiredCommitLog {at}", "success"),
        # messages
        ("queryMsgById {of_orders} -i {offset_id}", "{id}", KEY, READERS),
        (f"queryMsgByKey -t Orders -k {KEY}", "{id}"),
        ("queryMsgByUniqueKey -t Orders -i {id}", KEY, "CONSUMED"),
        (f"queryMsgByOffset -t Orders -b {BROKER} -i {{queue}} -o 0", "{offset_id}", KEY),
        ("queryMsgTraceById -i {id}", SENDERS, "success"),
        ("printMsg -t Orders -d true", "{id}", BODY),
        (f"printMsgByQueue -t Orders -a {BROKER} -i {{queue}} -p true -d true", "{id}", BODY),
        (f"sendMessage -t Orders -p by-admin -k adm -c late -b {BROKER} -i 1", BROKER, "SEND_OK"),
        ("queryMsgByKey -t Orders -k adm", "#Message ID", "1"),
        ("consumeMessage -t Orders -g PassersBy", "{id}", BODY),
        (f"consumeMessage -t Orders -b {BROKER} -i {{queue}} -o 0 -c 1 -g PassersBy", "{id}"),
        (f"sendMsgStatus -b {BROKER} -s 10 -c 1", "SEND_OK"),
        ("checkMsgSendRT -t Orders -a 2 -s 10", BROKER, "true"),
        (f"queryCq -t Orders -q {{queue}} -i 0 {at} -c 5", "physicOffset=", "max: "),
        (f"queryCq -t Orders -q {{queue}} -i 0 {at} -c 5 -g {READERS}", "TagA || TagB"),
        # clients
        (f"producerConnection -g {SENDERS} -t Orders", "{sender}", "PYTHON"),
        (f"producer {at}", SENDERS, "{sender}"),
        (f"consumerConnection -g {READERS}", "{reader}", "TagA || TagB"),
        (f"consumerStatus -g {READERS}", "{reader}"),
        (f"consumerStatus -g {READERS} -i {{reader}} -s", "PROP_CONSUME_TYPE", "MainThread"),
        (f"queryMsgById {{of_orders}} -i {{offset_id}} -g {READERS} -d {{reader}}", "CR_SUCCESS"),
        (f"consumerStatus -g {JAVA_READERS}", "{java}", "{version}"),
        (f"consumerStatus -g {JAVA_READERS} -i {{java}}", "PROP_CONSUME_TYPE", JAVA_TOPIC),
        (f"consumerStatus -g {JAVA_READERS} -i {{java}} -s", "ConsumeMessageThread"),
        (
            f"queryMsgById {{of_java}} -i {{java_offset_id}} -g {JAVA_READERS} -d {{java}}",
            "CR_SUCCESS",
        ),
        (
            f"queryMsgByUniqueKey -t {JAVA_TOPIC} -i {{java_id}} -g {JAVA_READERS} -d {{java}}",
            "CR_SUCCESS",
        ),
        # how far groups are
        (f"consumerProgress -g {READERS}", TOPIC),
        (f"5: consumerProgress -g {READERS} -t Orders -s true", TOPIC),
        (f"consumerProgress -g {JAVA_READERS} -s true", JAVA_TOPIC, "Client IP"),
        ("consumerProgress", READERS, JAVA_READERS, "PUSH"),
        (f"brokerConsumeStats {at}", TOPIC, READERS),
        (f"cloneGroupOffset -s {READERS} -d Clones -t Orders", READERS, "Clones"),
        ("consumerProgress -g Clones", TOPIC, "#Consumer Offset"),
        ("resetOffsetByTime -g Clones -t Orders -s 0", BROKER, "Clones"),
        ("consumerProgress -g Clones", TOPIC, "Diff Total: {all}"),
        ("skipAccumulatedMessage -g Clones -t Orders", BROKER),
        ("5: consumerProgress -g Clones -t Orders", "Consume Diff Total: 0"),
        ("consumerProgress -g Clones -n {namesrv}", TOPIC, "Diff Total: 0"),
        (f"brokerConsumeStats {at} -l 0", "Clones"),
        (f"5: setConsumeMode {at} -t Orders -g Clones -m POP -q 2", "Clones", "consume mode[POP]"),
        ("statsAll -t Orders", TOPIC, READERS),
        ("allocateMQ -t Orders -i 10.0.0.1,10.0.0.2", "10.0.0.2", TOPIC),
        # users and what they may do
        (f"5: createUser {at} -u Shopper -p 12345678 -t Normal", "{broker} success"),
        (f"5: getUser {at} -u Shopper", "Shopper", "Normal"),
        (f"5: updateUser {at} -u Shopper -t Super", "{broker} success"),
        (f"5: listUser {at}", "Shopper", "Super"),
        (f"5: createAcl {at} -s User:Shopper -r Topic:Orders -a Pub -d Allow", "{broker} success"),
        (f"5: getAcl {at} -s User:Shopper", "Topic:Orders", "Pub", "Allow"),
        (f"5: updateAcl {at} -s User:Shopper -r Topic:Orders -a Sub -d Deny", "{broker} success"),
        (f"5: listAcl {at}", "User:Shopper", "Sub", "Deny"),
        (f"5: deleteAcl {at} -s User:Shopper", "{broker} success"),
        (f"5: deleteUser {at} -u Shopper", "{broker} success"),
        # the name server
        ("updateKvConfig -s Space -k colour -v red", "success"),
        ("deleteKvConfig -s Space -k colour", "success"),
        ("updateOrderConf -m put -t Orders -v broker-a:4", "broker-a:4"),
        ("updateOrderConf -m get -t Orders", "broker-a:4"),
        ("updateOrderConf -m delete -t Orders", "success"),
        ("updateNamesrvConfig -k orderMessageEnable -v true", "orderMessageEnable"),
        ("getNamesrvConfig", "orderMessageEnable", "true"),
        (f"wipeWritePerm -b {BROKER}", BROKER, "OK"),
        ("topicRoute -t Made -l", "3          5           4 "),
        (f"addWritePerm -b {BROKER}", BROKER, "OK"),
        ("topicRoute -t Made -l -n {namesrv}", "3          5           6 "),
        # files
        (f"exportMetadata {of} -f {folder}", "success"),
        (f"exportConfigs {of} -f {folder}", "success"),
        (f"exportMetrics {of} -f {folder}", "success"),
    )
    is_old = names["version"] < "V5"
    for command, *expected in table:
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
    with running(["-Xmx256m", *home, *QUIET, "-cp", path, "AdminCommands", str(script)]) as java:
        # The rows that are missing then say which command it was.
        with contextlib.suppress(subprocess.TimeoutExpired):
            java.finish(PATIENCE_S)
        lines = java.said()
    said: list[list[str]] = [[] for _ in commands]
    current: list[str] = []
    for line in lines:
        if line.startswith("BEGIN\t"):
            current = said[int(line.split("\t")[1])]
        elif not line.startswith("END\t"):
            current.append(line)
    return ["\n".join(one) for one in said]


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
        sent = producer.send(Message(TOPIC, BODY.encode(), tags="TagA", keys=[KEY]))
        trace = f"Pub\x011700000000000\x01R\x01{SENDERS}\x01{TOPIC}\x01{sent.msg_id}\x01TagA"
        trace += f"\x01{KEY}\x01127.0.0.1:1\x0111\x013\x010\x01{sent.offset_msg_id}\x01true\x02"
        producer.send(Message(TRACES, trace.encode(), keys=[sent.msg_id]))
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
            table = list(rows(names, tmp_path))
            said = outputs(release, [row.command for row in table], tmp_path)
    problems = [
        f"{row.command}\n{text or 'did not run'}\n-> lacks {missing}"
        for row, text in zip(table, said, strict=True)
        if (missing := [one for one in row.expected if one not in text]) or "\tat org." in text
    ]
    print(f"mqadmin {release}: {len(table)} commands, {len(problems)} with problems")
    assert not problems, "\n\n".join(problems)
    assert len(table) >= COMMANDS_MIN
