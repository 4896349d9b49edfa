"""Journal of requests and answers: the newest are kept for tests to look at.

Answers: which requests reached the broker, in which order, and how each one ended, whichever
protocol they came by. Must not know: how requests are handled. Secrets of signed requests are never
shown and bodies never kept. Read on: ``embedded_broker/remoting/endpoint.py``, which writes it.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches

from attrs import define, frozen

from embedded_broker.clocks.instants import instant
from embedded_broker.tables.peer import Peer
from rocketmq_py.errors import ConfigError, RocketMQError
from rocketmq_py.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame
from rocketmq_py.protocol.rpc import Rpc, RpcStatus

ENTRIES_MAX = 10_000
HEADER_KEPT_MAX = 4096
"""Longer headers are kept as shortened fields, so that the ring stays small."""
FIELD_KEPT_MAX = 256
SECRET_FIELDS = frozenset({"AccessKey", "Signature", "SecurityToken", "secretKey"})
TOPIC_FIELDS = ("topic", "b", "originTopic")
GROUP_FIELDS = ("consumerGroup", "producerGroup", "group", "a")
_RPC_NAMES = frozenset(one.value for one in Rpc)


@frozen(kw_only=True)
class JournalEntry:
    """One request and its answer.

    ``fields`` are the header fields as they arrived, without secrets; request 310 has its short
    names. ``response_code`` is None while there is no answer yet, for one-way requests, and for
    requests of the broker to a client (``pushed``). ``micros`` counts from the arrival of the frame
    to the answer, the wait of a long poll included. A call over gRPC has its name in ``rpc``, and
    ``code`` is 0; its ``response_code`` is the status in the answer.
    """

    time: datetime
    endpoint: str
    connection: int
    client_id: str
    language: str
    version: int
    code: int
    fields: dict[str, str]
    body_size: int
    oneway: bool
    pushed: bool
    response_code: int | None
    remark: str | None
    micros: int | None
    rpc: str | None = None

    @property
    def topic(self) -> str | None:
        """The topic that the header names."""
        return first_field(self.fields, TOPIC_FIELDS)

    @property
    def group(self) -> str | None:
        """The group that the header names."""
        return first_field(self.fields, GROUP_FIELDS)

    def __str__(self) -> str:
        arrow = "<-" if self.pushed else "->"
        name = self.rpc or f"{self.code} {_name(RequestCode, self.code)}"
        codes = ResponseCode if self.rpc is None else RpcStatus
        told = " ".join(f"{key}={_short(value)}" for key, value in self.fields.items())
        if self.pushed:
            end = "pushed"
        elif self.response_code is not None:
            end = f"{self.response_code} {_name(codes, self.response_code)}"
            is_told = self.response_code not in {ResponseCode.SUCCESS, RpcStatus.OK}
            end += f" ({self.remark})" if self.remark and is_told else ""
            end += f" {self.micros} us"
        else:
            end = "oneway" if self.oneway else "no answer yet"
        who = self.client_id or f"connection {self.connection}"
        when = self.time.strftime("%H:%M:%S.%f")[:-3]
        return f"{when} {self.endpoint} {who} {arrow} {name} [{told}] = {end}"


@frozen
class RpcHeader:
    """What is kept of a call over gRPC: its name, what its client is, its values as texts."""

    rpc: Rpc
    language: str
    version: str
    fields: dict[str, str]


@define(eq=False)
class Exchange:
    """An entry as the endpoint fills it; its header is decoded only when somebody reads it."""

    endpoint: str
    connection: Peer
    serialize_type: int
    header: bytes | RemotingCommand | RpcHeader
    body_size: int
    at_ms: int
    started_ns: int
    pushed: bool = False
    response_code: int | None = None
    remark: str | None = None
    micros: int | None = None

    def entry(self) -> JournalEntry:
        """Decode the header now, and show everything but secrets."""
        header = self.header
        if isinstance(header, RpcHeader):
            return self._entry_of_call(header)
        if isinstance(header, RemotingCommand):
            command = header
        else:
            command = RemotingCommand.decode(Frame(self.serialize_type, header, b""))
        return JournalEntry(
            time=instant(self.at_ms),
            endpoint=self.endpoint,
            connection=self.connection.id,
            client_id=self.connection.client_id
            or first_field(command.ext_fields, ("clientId",))
            or "",
            language=_name(LanguageCode, command.language),
            version=command.version,
            code=command.code,
            fields={
                key: value for key, value in command.ext_fields.items() if key not in SECRET_FIELDS
            },
            body_size=self.body_size,
            oneway=command.is_oneway,
            pushed=self.pushed,
            response_code=self.response_code,
            remark=self.remark,
            micros=self.micros,
        )

    def _entry_of_call(self, header: RpcHeader) -> JournalEntry:
        version = {"clientVersion": header.version} if header.version else {}
        return JournalEntry(
            time=instant(self.at_ms),
            endpoint=self.endpoint,
            connection=self.connection.id,
            client_id=self.connection.client_id,
            language=header.language,
            version=0,
            code=0,
            fields=header.fields | version,
            body_size=self.body_size,
            oneway=False,
            pushed=self.pushed,
            response_code=self.response_code,
            remark=self.remark,
            micros=self.micros,
            rpc=header.rpc.value,
        )


class Journal:
    """The last 10,000 requests of one broker and its name server, oldest first.

    Any thread may read it at any time.
    """

    def __init__(self) -> None:
        self._ring: deque[Exchange] = deque(maxlen=ENTRIES_MAX)
        self.append = self._ring.append

    def __repr__(self) -> str:
        last = next(iter(self._entries(1)), None)
        name = None if last is None else last.rpc or _name(RequestCode, last.code)
        newest = "" if name is None else f", the last {name}"
        return f"<journal: {len(self._ring)} requests{newest}>"

    def __len__(self) -> int:
        return len(self._ring)

    def requests(
        self,
        *,
        code: int | str | None = None,
        topic: str | None = None,
        group: str | None = None,
        client: str | None = None,
    ) -> list[JournalEntry]:
        """Return the entries that match every given filter, in order of arrival.

        ``code`` is a request code or its name, such as ``"PULL_MESSAGE"``, or the name of a call
        over gRPC, such as ``"SendMessage"``; ``client`` is a client id, or the beginning of one.
        Raises ``ConfigError`` for an unknown name.
        """
        wanted = None if code is None else asked_for(code)
        found = []
        for entry in self._entries():
            if wanted is not None and wanted != (entry.rpc or entry.code):
                continue
            if topic is not None and entry.topic != topic:
                continue
            if group is not None and entry.group != group:
                continue
            if client is not None and not entry.client_id.startswith(client):
                continue
            found.append(entry)
        return found

    def dump(self, *, last: int | None = None) -> str:
        """Return the journal as text, one line for each entry; of the ``last`` entries if given."""
        return "\n".join(str(entry) for entry in self._entries(last))

    def clear(self) -> None:
        """Forget everything."""
        self._ring.clear()

    def _entries(self, last: int | None = None) -> Iterable[JournalEntry]:
        kept = list(self._ring)
        for exchange in kept if last is None else kept[-last:]:
            try:
                yield exchange.entry()
            except RocketMQError:  # the ring holds only headers that were decoded once
                continue


def shortened(command: RemotingCommand) -> RemotingCommand:
    """Return what the ring keeps of a header that is longer than ``HEADER_KEPT_MAX``."""
    return RemotingCommand(
        code=command.code,
        opaque=command.opaque,
        flag=command.flag,
        language=command.language,
        version=command.version,
        ext_fields={
            key[:FIELD_KEPT_MAX]: _short(value, FIELD_KEPT_MAX)
            for key, value in list(command.ext_fields.items())[:64]
        },
    )


def first_field(fields: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return the first of these header fields that is there."""
    return next((fields[name] for name in names if name in fields), None)


def asked_for(code: int | str) -> int | Rpc:
    """Return what a test means by a request code, its name, or the name of a call over gRPC.

    Raises ``ConfigError`` naming the nearest for an unknown name.
    """
    return Rpc(code) if code in _RPC_NAMES else code_of(RequestCode, code)


def code_of(kind: type[RequestCode | ResponseCode | RpcStatus], code: int | str) -> int:
    """Return the number of a code that a test gives as a number or by its member name.

    Raises ``ConfigError`` naming the nearest for an unknown name. Any number is good: a test may
    ask about codes that RocketMQ does not have.
    """
    if isinstance(code, int) and not isinstance(code, bool):
        return int(code)
    names = kind.__members__
    if isinstance(code, str) and code in names:
        return int(names[code])
    close: list[str] = []
    if isinstance(code, str):
        close = [one for one in _RPC_NAMES if one.lower() == code.lower() and kind is RequestCode]
        close = close or get_close_matches(code.upper(), names, n=3)
        close = close or [name for name in names if code and code.upper() in name][:3]
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    example = next(iter(names))
    raise ConfigError(
        "code", code, f"a number or a name of {kind.__name__}, such as {example}{hint}"
    )


def _short(value: str, limit: int = 80) -> str:
    return value if len(value) <= limit else f"{value[: limit - 1]}…"


def _name(kind: type[RequestCode | ResponseCode | LanguageCode | RpcStatus], number: int) -> str:
    try:
        return kind(number).name
    except ValueError:
        return str(number)
