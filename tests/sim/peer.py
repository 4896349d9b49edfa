"""A scripted client: requests as frames into the broker's core, answers as frames out of it.

Answers: what producers and consumers say, byte for byte, without sockets and threads. Must not
know: what the answers should be. Read on: `story.py` for who uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.requests import Connection
from rocketmq_py.protocol.codes import FLAG_RESPONSE, PullSysFlag, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.protocol.message_codec import MessageRecord, decode_records
from rocketmq_py.protocol.properties import encode_properties
from tests.sim.disk import Disk

Answered = Callable[[RemotingCommand], None]
GROUP = "sim"


class Peer(Connection):
    """One connection to one life of the broker; ends with it."""

    def __init__(self, parts: BrokerParts, disk: Disk) -> None:
        super().__init__(("127.0.0.1", 40000), ("127.0.0.1", 10911))
        self._parts = parts
        self._disk = disk
        self._opaque = 0
        self._waiting: dict[int, Answered] = {}
        self._out = FrameDecoder()
        self._in = FrameDecoder()

    def deliver(self, frames: list[bytes]) -> None:
        if self._disk.is_dead:
            return
        for data in frames:
            for frame in self._in.feed(data):
                answer = RemotingCommand.decode(frame)
                if answer.flag & FLAG_RESPONSE:
                    self._waiting.pop(answer.opaque)(answer)

    def close(self) -> None:
        self.closed = True

    def post(self, code: int, ext: dict[str, str], body: bytes, answered: Answered) -> None:
        """Send a request; `answered` is called when the answer comes, perhaps never."""
        self._opaque += 1
        self._waiting[self._opaque] = answered
        data = RemotingCommand(
            code=code, opaque=self._opaque, language=0, ext_fields=ext, body=body
        ).encode()
        self._parts.endpoint.receive(self, self._out.feed(data))

    def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> RemotingCommand:
        """Send a request that is answered at once."""
        answers: list[RemotingCommand] = []
        self.post(code, ext, body, answers.append)
        return answers[0]

    # --- requests by name ----------------------------------------------------------------------

    def create_topic(self, topic: str, queues: int) -> None:
        ext = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        answer = self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
        assert answer.code == 0, answer

    def send(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: Mapping[str, str],
        born_ms: int,
        answered: Answered,
    ) -> None:
        ext = {
            "a": GROUP,
            "b": topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue_id),
            "f": "0",
            "g": str(born_ms),
            "h": "0",
            "i": encode_properties(properties).decode(),
            "j": "0",
            "k": "false",
            "m": "false",
        }
        self.post(RequestCode.SEND_MESSAGE_V2, ext, body, answered)

    def recall(self, topic: str, handle: str, answered: Answered) -> None:
        ext = {"topic": topic, "recallHandle": handle, "producerGroup": GROUP}
        self.post(RequestCode.RECALL_MESSAGE, ext, b"", answered)

    def pull_all(self, topic: str, queue_id: int, offset: int = 0) -> list[MessageRecord]:
        """Pull a queue from an offset to its end."""
        found: list[MessageRecord] = []
        while True:
            ext = {
                "consumerGroup": GROUP,
                "topic": topic,
                "queueId": str(queue_id),
                "queueOffset": str(offset),
                "maxMsgNums": "32",
                "sysFlag": str(int(PullSysFlag.SUBSCRIPTION)),
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "0",
            }
            answer = self.ask(RequestCode.PULL_MESSAGE, ext)
            if answer.code:
                return found
            found += decode_records(answer.body)
            offset = int(answer.ext_fields["nextBeginOffset"])
