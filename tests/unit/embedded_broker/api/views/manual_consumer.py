"""A consumer whose every request a test makes itself, so that nothing happens in between."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.protocol.json_text import dumps
from rocketmq_py.protocol.message_codec import MessageRecord, decode_records
from tests.unit.embedded_broker.peers import Peer
from tests.unit.embedded_broker.wire_peer import consumer, pull_fields


class ManualConsumer:
    """A member of a group, connected without a socket."""

    def __init__(
        self, broker: EmbeddedBroker, group: str = "G", topic: str = "T", tags: str = "*"
    ) -> None:
        self._broker = broker
        self.group = group
        self.topic = topic
        self._tags = tags
        self.peer = Peer()
        self._parts = broker._parts()
        self._parts.endpoint.connected(self.peer)

    def ask(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b""
    ) -> RemotingCommand | None:
        """Send a request; None when the broker keeps it."""
        before = len(self.peer.answers)
        command = RemotingCommand(code=code, version=479, ext_fields=dict(ext or {}), body=body)
        self._parts.endpoint.receive(self.peer, FrameDecoder().feed(command.encode()))
        found = [one for one in self.peer.answers[before:] if one.opaque == command.opaque]
        return found[0] if found else None

    def join(self) -> None:
        """Heartbeat: subscribe the topic and the retry topic."""
        subscriptions = {self.topic: self._tags, f"%RETRY%{self.group}": "*"}
        body = {
            "clientID": f"client-of-{self.group}",
            "consumerDataSet": [consumer(self.group, subscriptions)],
            "producerDataSet": [],
        }
        answer = self.ask(RequestCode.HEART_BEAT, body=dumps(body))
        assert answer is not None
        assert answer.code == 0, answer.remark

    def leave(self) -> None:
        """End the connection."""
        self.peer.closed = True
        self._parts.endpoint.disconnected(self.peer)

    def pull(
        self,
        offset: int = 0,
        *,
        queue: int = 0,
        topic: str | None = None,
        most: int = 32,
        wait: bool = False,
        **fields: str,
    ) -> RemotingCommand | None:
        """Pull with the group's own subscription once it has joined."""
        joined = self._parts.tables.consumers.get(self.group) is not None
        flags = 0 if joined else int(PullSysFlag.SUBSCRIPTION)
        ext = pull_fields(
            topic or self.topic,
            offset,
            consumerGroup=self.group,
            queueId=str(queue),
            maxMsgNums=str(most),
            sysFlag=str(flags | (int(PullSysFlag.SUSPEND) if wait else 0)),
            subVersion="1",
            subscription=self._tags,
        )
        return self.ask(RequestCode.PULL_MESSAGE, ext | fields)

    def take(
        self, offset: int = 0, *, queue: int = 0, topic: str | None = None, most: int = 32
    ) -> list[MessageRecord]:
        """Pull what there is."""
        answer = self.pull(offset, queue=queue, topic=topic, most=most)
        assert answer is not None
        return decode_records(answer.body) if answer.code == 0 else []

    def commit(self, offset: int, *, queue: int = 0, topic: str | None = None) -> RemotingCommand:
        """Commit the next offset to consume."""
        answer = self.ask(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {
                "consumerGroup": self.group,
                "topic": topic or self.topic,
                "queueId": str(queue),
                "commitOffset": str(offset),
            },
        )
        assert answer is not None
        return answer

    def send_back(self, record: MessageRecord, level: int = 0, **fields: str) -> None:
        """Say that a message could not be handled."""
        answer = self.ask(
            RequestCode.CONSUMER_SEND_MSG_BACK,
            {
                "offset": str(record.commit_log_offset),
                "group": self.group,
                "delayLevel": str(level),
                "originTopic": self.topic,
                "unitMode": "false",
            }
            | fields,
        )
        assert answer is not None
        assert answer.code == 0, answer.remark
