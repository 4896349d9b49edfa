"""The tables of settings on a page about Java's clients, each row as a setter and a getter.

    .venv/bin/python examples/java_spelling/settings_tables.py

Prints the name, what the page gives, and what a new client has here without it. The page's defaults
of sizes and times are those of an old version: RocketMQ 5 has the others, and so has the SDK.
"""

from compat.java import DefaultMQProducer, Message


def main() -> None:
    message = Message()
    message.setTopic("mq-test4")
    message.setBody(b"Hello RocketMQ")
    message.setTags("TagA")
    message.setKeys("ORDERID_100")
    message.setDelayTimeLevel(3)
    print(message)

    new = DefaultMQProducer("arch-rocketmq")
    producer = DefaultMQProducer("arch-rocketmq")

    # Every client
    producer.setNamesrvAddr("127.0.0.1:9876;127.0.0.1:9877")
    producer.setClientIP("127.0.0.1")
    producer.setInstanceName("reports")
    producer.setClientCallbackExecutorThreads(4)
    producer.setPollNameServerInterval(30_000)
    producer.setHeartbeatBrokerInterval(30_000)
    producer.setPersistConsumerOffsetInterval(5_000)

    # A producer
    producer.setProducerGroup("arch-rocketmq-2")
    producer.setSendMsgTimeout(10_000)
    producer.setRetryAnotherBrokerWhenNotStoreOK(False)
    producer.setMaxMessageSize(131_072)
    producer.setDefaultTopicQueueNums(4)
    producer.setSendLatencyFaultEnable(True)

    for row, given, here in (
        ("namesrvAddr", producer.getNamesrvAddr(), new.getNamesrvAddr()),
        ("sendMsgTimeout", producer.getSendMsgTimeout(), new.getSendMsgTimeout()),
        ("maxMessageSize", producer.getMaxMessageSize(), new.getMaxMessageSize()),
        ("pollNameServerInterval", producer.getPollNameServerInterval(), 30_000),
        ("heartbeatBrokerInterval", producer.getHeartbeatBrokerInterval(), 30_000),
        ("sendLatencyFaultEnable", producer.isSendLatencyFaultEnable(), False),
    ):
        print(f"{row:26} {given!s:32} {here}")


if __name__ == "__main__":
    main()
