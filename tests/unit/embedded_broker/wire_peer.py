"""A peer that speaks raw frames to a broker over TCP, and the requests tests send with it.

Nothing of the SDK is used: what a test proves here, any client of any language would see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rocketmq_py.protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE, PullSysFlag, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.protocol.json_text import dumps
from rocketmq_py.protocol.message_codec import MessageRecord, decode_records
from rocketmq_py.protocol.properties import encode_properties
from tests.unit.embedded_broker.socket_peer import SocketPeer

Connect = Callable[[str], "WirePeer"]


class WirePeer(SocketPeer):
    """One TCP connection. Pushes of the broker are kept in `pushed`, answers by their opaque."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._decoder = FrameDecoder()
        self._opaque = 0
        self._answers: dict[int, RemotingCommand] = {}
        self.pushed: list[RemotingCommand] = []

    @property
    def port(self) -> int:
        """The local port: what the broker stores as born host."""
        return int(self.socket.getsockname()[1])

    def post(
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        flag: int = 0,
        version: int = 479,
        serialize_type: int = 0,
    ) -> int:
        """Send a request and return its opaque without waiting."""
        self._opaque += 1
        command = RemotingCommand(
            code=code,
            opaque=self._opaque,
            flag=flag,
            language=0,
            version=version,
            ext_fields=dict(ext or {}),
            body=body,
            serialize_type=serialize_type,
        )
        self.write(command.encode())
        return self._opaque

    def tell(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> int:
        """Send a oneway request."""
        return self.post(code, ext, body, flag=FLAG_ONEWAY)

    def ask(
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = 479,
        serialize_type: int = 0,
    ) -> RemotingCommand:
        """Send a request and wait for its answer."""
        return self.answer(
            self.post(code, ext, body, version=version, serialize_type=serialize_type)
        )

    def answer(self, opaque: int) -> RemotingCommand:
        """Wait for the answer with this opaque."""
        while opaque not in self._answers:
            self._receive()
        return self._answers.pop(opaque)

    def has_answer(self, opaque: int) -> bool:
        """Say whether the answer came before the answer to a request that is sent now."""
        self.barrier()
        return opaque in self._answers

    def barrier(self) -> None:
        """Return when everything that the broker sent before now has been read."""
        self.answer(self.post(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "barrier"}))

    def push(self) -> RemotingCommand:
        """Wait for the next request of the broker."""
        while not self.pushed:
            self._receive()
        return self.pushed.pop(0)

    def wait_closed(self) -> bool:
        """Wait until the broker has closed the connection, whatever it sends before."""
        try:
            while True:
                self.read()
        except ConnectionError:
            return True

    def _receive(self) -> None:
        for frame in self._decoder.feed(self.read()):
            command = RemotingCommand.decode(frame)
            if command.flag & FLAG_RESPONSE:
                self._answers[command.opaque] = command
            else:
                self.pushed.append(command)

    # -- requests by name -------------------------------------------------------------------

    def send(
        self,
        topic: str,
        body: bytes = b"hello",
        properties: Mapping[str, str] | None = None,
        *,
        code: int = RequestCode.SEND_MESSAGE_V2,
        version: int = 479,
        **fields: str,
    ) -> RemotingCommand:
        """Send a message by 310 (or 320); `fields` are short header names."""
        return self.ask(code, send_fields(topic, properties, **fields), body, version=version)

    def pull(self, topic: str, offset: int = 0, **fields: str) -> RemotingCommand:
        """Pull without waiting; by default with the subscription `*` in the request."""
        return self.ask(RequestCode.PULL_MESSAGE, pull_fields(topic, offset, **fields))

    def heartbeat(
        self, client_id: str, *consumers: Mapping[str, Any], producers: Iterable[str] = ()
    ) -> RemotingCommand:
        """Send a heartbeat; `consumers` come from `consumer`."""
        body = {
            "clientID": client_id,
            "consumerDataSet": list(consumers),
            "producerDataSet": [{"groupName": group} for group in producers],
        }
        return self.ask(RequestCode.HEART_BEAT, body=dumps(body))

    def create_topic(self, topic: str, queues: int = 1, perm: int = 6, **fields: str) -> None:
        """Create a topic by 17."""
        ext = topic_fields(topic, queues, perm) | fields
        answer = self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
        if answer.code:
            raise AssertionError(f"17 answered {answer.code}: {answer.remark}")


def properties_text(properties: Mapping[str, str]) -> str:
    """Give the text of the properties field."""
    return encode_properties(properties).decode()


def send_fields(
    topic: str, properties: Mapping[str, str] | None = None, **fields: str
) -> dict[str, str]:
    """Give the header of 310 as a Java client fills it."""
    ext = {
        "a": "producers",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": properties_text({"UNIQ_KEY": "ID0001", "WAIT": "true"} | dict(properties or {})),
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return ext | fields


def topic_fields(topic: str, queues: int = 1, perm: int = 6) -> dict[str, str]:
    """Give the header of 17."""
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": str(perm),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }


def pull_fields(topic: str, offset: int = 0, **fields: str) -> dict[str, str]:
    """Give the header of 11 for queue 0; by default flag 4 with the subscription `*`."""
    ext = {
        "consumerGroup": "consumers",
        "topic": topic,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(int(PullSysFlag.SUBSCRIPTION)),
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "0",
    }
    return ext | fields


def consumer(
    group: str,
    subscriptions: Mapping[str, str],
    *,
    sub_version: int = 1,
    message_model: str = "CLUSTERING",
    expression_type: str = "TAG",
) -> dict[str, Any]:
    """Give the consumer part of a heartbeat: topic to tag expression."""
    return {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": message_model,
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "unitMode": False,
        "subscriptionDataSet": [
            {
                "topic": topic,
                "subString": expression,
                "subVersion": sub_version,
                "expressionType": expression_type,
            }
            for topic, expression in subscriptions.items()
        ],
    }


def records(answer: RemotingCommand) -> list[MessageRecord]:
    """Decode the records of a pull, query or view."""
    return decode_records(answer.body)


def bodies(answer: RemotingCommand) -> list[bytes]:
    """Give the bodies of the records of an answer."""
    return [record.body for record in records(answer)]
