"""A gRPC client of single calls, made of the broker's own table: what any client could send.

Nothing of an official client is used, so that a test can say what those never would.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from queue import SimpleQueue
from threading import Thread
from typing import Any

import grpc

from embedded_broker.grpc.descriptors import load_messages
from embedded_broker.grpc.schema import CALLS, ClientType, MessageType
from rocketmq_py.protocol.rpc import SERVICE, Rpc

_numbers = count(1)
HANG_S = 20


class RawClient:
    """One client id; each call takes fields of its request as attributes set by the caller."""

    def __init__(self, address: str, client_id: str | None = None, **headers: str) -> None:
        self.client_id = f"raw-{next(_numbers)}" if client_id is None else client_id
        self.v2 = load_messages()
        self.channel = grpc.insecure_channel(address)
        named = {"x-mq-client-id": self.client_id, "x-mq-client-version": "5.1.2"}
        self.headers = named | {key.replace("_", "-"): value for key, value in headers.items()}
        self.streams: list[RawStream] = []

    def close(self) -> None:
        """End its connection."""
        for stream in self.streams:
            stream.call.cancel()
        self.channel.close()

    def request(self, rpc: Rpc) -> Any:
        """Make an empty request."""
        return getattr(self.v2, CALLS[rpc].request)()

    def call(self, rpc: Rpc, request: Any, timeout: float | None = HANG_S) -> Any:
        """Make a call and give its answer; of a stream all its messages."""
        if CALLS[rpc].streams_out:
            return list(self.parked(rpc, request, timeout))
        ask = self.channel.unary_unary(f"/{SERVICE}/{rpc}")
        raw = ask(request.SerializeToString(), timeout=timeout, metadata=[*self.headers.items()])
        return getattr(self.v2, CALLS[rpc].response).FromString(raw)

    def parked(self, rpc: Rpc, request: Any, timeout: float | None = HANG_S) -> Any:
        """Begin a call whose answers come later."""
        read = getattr(self.v2, CALLS[rpc].response).FromString
        ask = self.channel.unary_stream(f"/{SERVICE}/{rpc}", response_deserializer=read)
        headers = [*self.headers.items()]
        return ask(request.SerializeToString(), timeout=timeout, metadata=headers)

    # -- what most tests say ------------------------------------------------------------------

    def message(self, topic: str, body: bytes = b"hello", **said: Any) -> Any:
        """Make a message; ``said`` are system properties, ``properties`` those of the user."""
        message = self.v2.Message(body=body, user_properties=said.pop("properties", {}))
        message.topic.name = topic
        system = message.system_properties
        system.message_id = said.pop("message_id", f"01{next(_numbers):032X}")
        for name in ("delivery_timestamp", "orphaned_transaction_recovery_duration"):
            if name in said:
                getattr(system, name).FromMilliseconds(said.pop(name))
        system.message_type = said.pop("message_type", MessageType.NORMAL)
        system.keys.extend(said.pop("keys", ()))
        for name, value in said.items():
            setattr(system, name, value)
        return message

    def send(self, *messages: Any) -> Any:
        """Send messages in one call."""
        request = self.request(Rpc.SEND_MESSAGE)
        request.messages.extend(messages)
        return self.call(Rpc.SEND_MESSAGE, request)

    def receive_request(self, topic: str, group: str, **said: Any) -> Any:
        """Make a receive that asks for up to 32 messages, hidden for 15 s."""
        request = self.request(Rpc.RECEIVE_MESSAGE)
        request.group.name, request.message_queue.topic.name = group, topic
        request.batch_size = said.pop("batch", 32)
        invisible_ms = said.pop("invisible_ms", 15_000)
        if invisible_ms is not None:
            request.invisible_duration.FromMilliseconds(invisible_ms)
        poll_ms = said.pop("poll_ms", 5_000)
        if poll_ms is not None:
            request.long_polling_timeout.FromMilliseconds(poll_ms)
        request.filter_expression.expression = said.pop("expression", "*")
        request.filter_expression.type = said.pop("kind", 1)
        for name, value in said.items():
            setattr(request, name, value)
        return request

    def receive(self, topic: str, group: str, timeout: float | None = HANG_S, **said: Any) -> Any:
        """Receive, and give status and messages."""
        request = self.receive_request(topic, group, **said)
        return gathered(self.call(Rpc.RECEIVE_MESSAGE, request, timeout))

    def receive_all(self, topic: str, group: str, number: int, **said: Any) -> list[Any]:
        """Receive until there are so many messages."""
        found: list[Any] = []
        while len(found) < number:
            status, messages = self.receive(topic, group, **said)
            assert status.code == 20000, status
            found += messages
        return found

    def ack(self, topic: str, group: str, *handles: str) -> Any:
        """Acknowledge handles."""
        request = self.request(Rpc.ACK_MESSAGE)
        request.group.name, request.topic.name = group, topic
        for handle in handles:
            request.entries.add(message_id="id", receipt_handle=handle)
        return self.call(Rpc.ACK_MESSAGE, request)

    def change(self, topic: str, group: str, handle: str, ms: int) -> Any:
        """Let a message come back in so many milliseconds."""
        request = self.request(Rpc.CHANGE_INVISIBLE_DURATION)
        request.group.name, request.topic.name = group, topic
        request.receipt_handle = handle
        request.invisible_duration.FromMilliseconds(ms)
        return self.call(Rpc.CHANGE_INVISIBLE_DURATION, request)

    def forward(self, topic: str, group: str, handle: str) -> Any:
        """Move a message to the dead letters."""
        request = self.request(Rpc.FORWARD_TO_DEAD_LETTER_QUEUE)
        request.group.name, request.topic.name = group, topic
        request.receipt_handle, request.message_id = handle, "id"
        return self.call(Rpc.FORWARD_TO_DEAD_LETTER_QUEUE, request)

    def end(self, topic: str, transaction_id: str, resolution: int, source: int = 1) -> Any:
        """End a transaction."""
        request = self.request(Rpc.END_TRANSACTION)
        request.topic.name, request.transaction_id = topic, transaction_id
        request.message_id, request.resolution, request.source = "id", resolution, source
        return self.call(Rpc.END_TRANSACTION, request)

    def recall(self, topic: str, handle: str) -> Any:
        """Recall a timer."""
        request = self.request(Rpc.RECALL_MESSAGE)
        request.topic.name, request.recall_handle = topic, handle
        return self.call(Rpc.RECALL_MESSAGE, request)

    def route(self, topic: str, *addresses: tuple[str, int]) -> Any:
        """Ask for a route, as a client that connected to these addresses."""
        request = self.request(Rpc.QUERY_ROUTE)
        request.topic.name = topic
        request.endpoints.scheme = 1
        for host, port in addresses:
            request.endpoints.addresses.add(host=host, port=port)
        return self.call(Rpc.QUERY_ROUTE, request)

    def assignment(self, topic: str, group: str) -> Any:
        """Ask for the queues of a consumer."""
        request = self.request(Rpc.QUERY_ASSIGNMENT)
        request.topic.name, request.group.name = topic, group
        return self.call(Rpc.QUERY_ASSIGNMENT, request)

    def heartbeat(self, group: str = "", kind: ClientType = ClientType.PRODUCER) -> Any:
        """Send a heartbeat."""
        request = self.request(Rpc.HEARTBEAT)
        request.client_type = kind
        if group:
            request.group.name = group
        return self.call(Rpc.HEARTBEAT, request)

    def leave(self, group: str = "") -> Any:
        """Say that it leaves."""
        request = self.request(Rpc.NOTIFY_CLIENT_TERMINATION)
        if group:
            request.group.name = group
        return self.call(Rpc.NOTIFY_CLIENT_TERMINATION, request)

    # -- telemetry ----------------------------------------------------------------------------

    def stream(self) -> RawStream:
        """Open a stream."""
        stream = RawStream(self)
        self.streams.append(stream)
        return stream

    def be_producer(self, *topics: str, **said: Any) -> RawStream:
        """Send the settings of a producer, and wait for the answer."""
        stream = self.stream()
        stream.say_settings(ClientType.PRODUCER, topics=topics, **said)
        stream.settings = stream.next().settings
        return stream

    def be_consumer(
        self, group: str, *topics: str, kind: ClientType = ClientType.PUSH_CONSUMER
    ) -> RawStream:
        """Send the settings of a consumer, and wait for the answer."""
        stream = self.stream()
        stream.say_settings(kind, group=group, topics=topics)
        stream.settings = stream.next().settings
        return stream


class RawStream:
    """One telemetry stream; what comes is read on a thread of its own."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self._out: SimpleQueue[Any] = SimpleQueue()
        self._in: SimpleQueue[Any] = SimpleQueue()
        self.settings: Any = None
        v2 = client.v2
        ask = client.channel.stream_stream(
            f"/{SERVICE}/{Rpc.TELEMETRY}",
            request_serializer=v2.TelemetryCommand.SerializeToString,
            response_deserializer=v2.TelemetryCommand.FromString,
        )
        self.call = ask(iter(self._out.get, None), metadata=[*client.headers.items()])
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for command in self.call:
                self._in.put(command)
        except grpc.RpcError as error:
            self._in.put(error)
        else:
            self._in.put(None)

    def say(self, command: Any) -> None:
        """Send a command."""
        self._out.put(command)

    def half_close(self) -> None:
        """Say that there is no more to say."""
        self._out.put(None)

    def next(self) -> Any:
        """Wait for a command; None is the end, an error is raised."""
        found = self._in.get(timeout=HANG_S)
        if isinstance(found, Exception):
            raise found
        return found

    def say_settings(
        self,
        kind: int,
        *,
        group: str = "",
        topics: tuple[str, ...] = (),
        language: int = 6,
        without: bool = False,
    ) -> None:
        """Send settings."""
        command = self._client.v2.TelemetryCommand()
        said = command.settings
        said.client_type = kind
        said.request_timeout.FromMilliseconds(3000)
        said.user_agent.language = language
        if without:
            pass
        elif kind == ClientType.PRODUCER:
            said.publishing.SetInParent()
            for topic in topics:
                said.publishing.topics.add(name=topic)
        else:
            said.subscription.group.name = group
            for topic in topics:
                entry = said.subscription.subscriptions.add()
                entry.topic.name = topic
                entry.expression.type, entry.expression.expression = 1, "*"
        self.say(command)


def gathered(answers: list[Any]) -> tuple[Any, list[Any]]:
    """Give status and messages of a receive; it says when it was answered, too."""
    statuses = [one.status for one in answers if one.WhichOneof("content") == "status"]
    times = [one for one in answers if one.WhichOneof("content") == "delivery_timestamp"]
    assert len(statuses) == len(times) == 1
    return statuses[0], [one.message for one in answers if one.WhichOneof("content") == "message"]


def handles(messages: list[Any]) -> Iterator[str]:
    """Give the handle of each message."""
    return (one.system_properties.receipt_handle for one in messages)
