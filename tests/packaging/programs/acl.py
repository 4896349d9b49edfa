"""With the extra `acl`: a broker reads its accounts from a `plain_acl.yml` in the given folder."""

import sys
from pathlib import Path

from embedded_broker import EmbeddedBroker
from rocketmq_py import Credentials, DefaultMQProducer, Message

FILE = """
accounts:
  - accessKey: web-shop
    secretKey: 12345678
    topicPerms: [T=PUB]
"""

path = Path(sys.argv[1]) / "plain_acl.yml"
path.write_text(FILE, encoding="utf-8")
known = Credentials("web-shop", "12345678")
with (
    EmbeddedBroker(acl=path, topics=["T"]) as broker,
    DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr, credentials=known) as producer,
):
    producer.send(Message("T", b"x"))
    print("works" if broker.messages.in_topic("T") else "does not work")
