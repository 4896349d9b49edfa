"""What is asked of mqadmin, in the order in which it is asked, and what each answer must hold.

Names in braces are what only a run knows. A command that begins with `NEW_IN_5` is unknown to
mqadmin of 4.9, whole or with these options.
"""

from __future__ import annotations

from typing import Final

CLUSTER, BROKER = "DefaultCluster", "broker-a"
TOPIC, JAVA_TOPIC = "Orders", "JavaOrders"
READERS, JAVA_READERS, SENDERS = "OrderReaders", "JavaReaders", "OrderSenders"
BODY, KEY = "cancel-4711", "key-4711"
NEW_IN_5 = "5: "
AT, OF = "-b {broker}", "-c DefaultCluster"

FILES: Final = {
    "topics.json": (
        '[{"topicName":"ListedA","readQueueNums":2,"writeQueueNums":2,"perm":6},'
        '{"topicName":"ListedB","readQueueNums":3,"writeQueueNums":3,"perm":6}]'
    ),
    "groups.json": '[{"groupName":"ListedReaders","retryMaxTimes":4}]',
}
"""What commands read, in the folder of the run."""

COMMANDS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "topics": (
        (f"updateTopic {OF} -t Made -r 3 -w 5", "Made"),
        (f"5: updateTopic {OF} -t Fifo -a +message.type=FIFO", "Fifo", "+message.type=FIFO"),
        (f"updateTopic {AT} -t AtBroker -r 2 -w 2", "topicName=AtBroker, readQueueNums=2"),
        (f"5: updateTopicList {OF} -f {{folder}}/topics.json", "success"),
        ("5: topicRoute -t ListedA", '"writeQueueNums":2'),
        ("5: topicRoute -t ListedB", '"readQueueNums":3'),
        (f"updateTopicPerm {OF} -t AtBroker -p 4", "from 6 to 4"),
        ("topicRoute -t Made", '"readQueueNums":3', '"writeQueueNums":5', "{broker}"),
        ("topicRoute -t AtBroker -l", "2          2           4 "),
        ("topicStatus -t Orders", BROKER, "{stored}"),
        ("topicClusterList -t Orders", CLUSTER),
        ("topicList", "Made", "AtBroker"),
        (f"topicList -c {CLUSTER}", "Made", CLUSTER),
        (f"deleteTopic {OF} -t AtBroker", "AtBroker", "success"),
    ),
    "groups": (
        (f"updateSubGroup {OF} -g MadeReaders -r 7", "MadeReaders", "retryMaxTimes=7"),
        (f"updateSubGroup {AT} -g Clones", "groupName=Clones"),
        (f"updateTopic {OF} -t %RETRY%Clones -r 1 -w 1", "%RETRY%Clones"),
        (f"5: updateSubGroupList {OF} -f {{folder}}/groups.json", "success"),
        ("5: getConsumerConfig -g ListedReaders", "retryMaxTimes", "4"),
        ("getConsumerConfig -g MadeReaders", "retryMaxTimes", "7"),
        (f"deleteSubGroup {OF} -g MadeReaders -r true", "MadeReaders", "success"),
    ),
    "the broker": (
        (f"updateBrokerConfig {AT} -k transactionCheckMax -v 9", "{broker}"),
        (f"getBrokerConfig {AT}", "transactionCheckMax                               =  9"),
        (f"brokerStatus {AT}", "msgPutTotalTodayNow", "brokerVersionDesc"),
        (f"brokerStatus {OF}", "{broker}"),
        ("clusterList", "{broker}", "{version}"),
        ("clusterList -m", BROKER, CLUSTER),
        (f"cleanExpiredCQ {AT}", "success"),
        (f"cleanUnusedTopic {AT}", "success"),
        (f"deleteExpiredCommitLog {AT}", "success"),
    ),
    "messages": (
        ("queryMsgById {of_orders} -i {offset_id}", "{id}", KEY, READERS),
        (f"queryMsgByKey -t Orders -k {KEY}", "{id}"),
        ("queryMsgByUniqueKey -t Orders -i {id}", KEY, "CONSUMED"),
        (f"queryMsgByOffset -t Orders -b {BROKER} -i {{queue}} -o 0", "{offset_id}", KEY),
        ("queryMsgTraceById -i {id}", SENDERS, "success"),
        ("printMsg -t Orders -d true", "{id}", BODY),
        (f"printMsgByQueue -t Orders -a {BROKER} -i {{queue}} -p true -d true", "{id}", BODY),
        (
            f"sendMessage -t Orders -p by-admin -k adm -c late -b {BROKER} -i 1 -m true",
            BROKER,
            "SEND_OK",
        ),
        ("queryMsgByKey -t Orders -k adm", "#Message ID", "1"),
        ("consumeMessage -t Orders -g PassersBy", "{id}", BODY),
        (f"consumeMessage -t Orders -b {BROKER} -i {{queue}} -o 0 -c 1 -g PassersBy", "{id}"),
        (f"sendMsgStatus -b {BROKER} -s 10 -c 1", "SEND_OK"),
        ("checkMsgSendRT -t Orders -a 2 -s 10", BROKER, "true"),
        (f"queryCq -t Orders -q {{queue}} -i 0 {AT} -c 5", "physicOffset=", "max: "),
        (f"queryCq -t Orders -q {{queue}} -i 0 {AT} -c 5 -g {READERS}", "TagA || TagB"),
    ),
    "clients": (
        (f"producerConnection -g {SENDERS} -t Orders", "{sender}", "PYTHON"),
        (f"producer {AT}", SENDERS, "{sender}"),
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
    ),
    "how far groups are": (
        (f"consumerProgress -g {READERS}", TOPIC),
        (f"5: consumerProgress -g {READERS} -t Orders -s true", TOPIC),
        (f"consumerProgress -g {JAVA_READERS} -s true", JAVA_TOPIC, "Client IP"),
        ("consumerProgress", READERS, JAVA_READERS, "PUSH"),
        (f"brokerConsumeStats {AT}", TOPIC, READERS),
        (f"cloneGroupOffset -s {READERS} -d Clones -t Orders", READERS, "Clones"),
        ("consumerProgress -g Clones", TOPIC, "#Consumer Offset"),
        ("resetOffsetByTime -g Clones -t Orders -s 0", BROKER, "Clones"),
        ("consumerProgress -g Clones", TOPIC, "Diff Total: {all}"),
        ("skipAccumulatedMessage -g Clones -t Orders", BROKER),
        ("5: consumerProgress -g Clones -t Orders", "Consume Diff Total: 0"),
        ("consumerProgress -g Clones -n {namesrv}", TOPIC, "Diff Total: 0"),
        (f"brokerConsumeStats {AT} -l 0", "Clones"),
        (f"5: setConsumeMode {AT} -t Orders -g Clones -m POP -q 2", "Clones", "consume mode[POP]"),
        ("statsAll -t Orders", TOPIC, READERS),
        ("allocateMQ -t Orders -i 10.0.0.1,10.0.0.2", "10.0.0.2", TOPIC),
    ),
    "users and what they may do": (
        (f"5: createUser {AT} -u Shopper -p 12345678 -t Normal", "{broker} success"),
        (f"5: getUser {AT} -u Shopper", "Shopper", "Normal"),
        (f"5: updateUser {AT} -u Shopper -t Super", "{broker} success"),
        (f"5: listUser {AT}", "Shopper", "Super"),
        (f"5: createAcl {AT} -s User:Shopper -r Topic:Orders -a Pub -d Allow", "{broker} success"),
        (f"5: getAcl {AT} -s User:Shopper", "Topic:Orders", "Pub", "Allow"),
        (f"5: updateAcl {AT} -s User:Shopper -r Topic:Orders -a Sub -d Deny", "{broker} success"),
        (f"5: listAcl {AT}", "User:Shopper", "Sub", "Deny"),
        (f"5: deleteAcl {AT} -s User:Shopper", "{broker} success"),
        (f"5: deleteUser {AT} -u Shopper", "{broker} success"),
    ),
    "the name server": (
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
    ),
    "files": (
        (f"exportMetadata {OF} -f {{folder}}", "success"),
        (f"exportConfigs {OF} -f {{folder}}", "success"),
        (f"exportMetrics {OF} -f {{folder}}", "success"),
    ),
}
"""By what they are about: the command, then texts of which each must stand in what it prints."""
