"""The short way for sends that ask for nothing but to be stored, or for one time: nearly all.

Answers: which requests 310 are of that kind, and how those that arrived in one piece of the stream
are stored together, one run per queue, and answered with ready-made bytes. Whatever is unusual
about a send (a delay level, a retry or unknown topic, a transaction, a refusal, an odd header) is
left to `send_message.py`, which gives the same bytes at three times the cost. Must not know: files,
slots, sockets. Read on: `embedded_broker/core/broker_core.py` (`Endpoint.receive`), which asks here
first; `timed_sends.py` for those that ask for a time; `embedded_broker/store/run.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.connection import Connection
from embedded_broker.remoting.endpoint import RequestError
from embedded_broker.remoting.handlers.send.ready_answers import SAMPLE_KEY, answer_pattern
from embedded_broker.remoting.handlers.send.send_message import SendMessageProcessor
from embedded_broker.remoting.handlers.send.timed_sends import (
    SHAPE_SIZE_MAX,
    SHAPES_MAX,
    UNIQ_KEY_NAME,
    TimedSends,
    without_number,
)
from embedded_broker.remoting.journal import HEADER_KEPT_MAX, Exchange
from embedded_broker.store.inner import PutResult
from embedded_broker.store.run import Run
from embedded_broker.timer.run import TimedShape
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.delay import DELAY_PROPERTIES, TIMER_BOOKKEEPING_PROPERTIES
from rocketmq_py.protocol.frame import Frame, encode_frame
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.protocol.json_text import loads
from rocketmq_py.protocol.names import RETRY_PREFIX
from rocketmq_py.protocol.properties import Prop, decode_properties
from rocketmq_py.protocol.tag_hash import tags_code

_BEGIN: Final = b'{"code":310,'
_SYS_FLAGS: Final = frozenset({"0", "1", "257", "513", "769"})
"""Bodies as they are, or compressed in one of the known ways; no transaction, no multi-tags."""
_INT32_MAX: Final = 0x7FFF_FFFF
_INT_DIGITS: Final = 10
_LONG_DIGITS: Final = 19
_DELAY_SIGN: Final = "DEL"
"""Every property that asks for a delay has this in its name."""
_NOT_PLAIN: Final = DELAY_PROPERTIES | TIMER_BOOKKEEPING_PROPERTIES | {Prop.TRAN_MSG, Prop.POP_CK}


class Shape(NamedTuple):
    """What the stored properties say around the UNIQ_KEY, and the tags code."""

    head: bytes
    tail: bytes
    tags_code: int


class Place(NamedTuple):
    """A queue that plain sends go to, as long as its topic is this one."""

    topic: TopicConfig
    queue_id: int
    sys_flag: int


class PlainSend(NamedTuple):
    """One request 310 that asks for nothing; `item` is its part of a `Run`.

    Or for a time: then `number` is what it asks for and `timed` the shape of its properties, which
    are not in `item` yet.
    """

    frame: Frame
    opaque: int
    ext_fields: Mapping[str, str]
    unique_key: bytes
    item: tuple[int, int, bytes, bytes, int]
    number: str = ""
    timed: TimedShape | None = None

    @property
    def topic(self) -> str:
        """Where it wants to go."""
        return self.ext_fields["b"]


_UNSEEN: Final = Shape(b"", b"", -1)


class PlainSends:
    """Recognises, stores and answers plain sends. Used under the door.

    What it remembers is bounded: places that exist, and some shapes of properties.
    """

    def __init__(self, core: BrokerCore, ordinary: SendMessageProcessor) -> None:
        self._core = core
        self._store = core.store
        self._ordinary = ordinary
        self._shapes: dict[tuple[str, str], Shape | None] = {}
        self._places: dict[tuple[str, str, str], Place] = {}
        self._answer = b""
        self._timed = TimedSends(core, ordinary)
        self._body_size_max = 0
        self._forget(frozenset())
        core.config.on_change(self._forget)

    def read(self, frame: Frame) -> PlainSend | None:
        """Give the send if it is a plain one; nothing is refused here."""
        if not (
            frame.header.startswith(_BEGIN)
            and len(frame.header) <= HEADER_KEPT_MAX
            and 0 < len(frame.body) <= self._body_size_max
        ):
            return None
        try:
            document = loads(frame.header)
            ext = document["extFields"]
            opaque = document["opaque"]
            born = ext["g"]
            text, number = ext["i"], ""
            if _DELAY_SIGN in text:
                text, number = without_number(text)
            before, _, rest = text.partition(UNIQ_KEY_NAME)
            unique_key, _, after = rest.partition("\2")
            if (
                document["code"] != RequestCode.SEND_MESSAGE_V2
                or document["flag"] != 0
                or type(opaque) is not int
                or not -_INT32_MAX <= opaque <= _INT32_MAX
                or ext["h"] != "0"
                or ext.get("j", "0") != "0"
                or ext.get("m", "false") != "false"
                or "l" in ext
                or not (ext["a"] and ext["b"] and ext["c"] and ext["e"].isdecimal())
                or not (ext["d"].isdecimal() and len(ext["d"]) < _INT_DIGITS)
                or not (born.isdecimal() and born.isascii() and len(born) < _LONG_DIGITS)
                or not (unique_key.isalnum() and unique_key.isascii())
            ):
                return None
            if number:
                timed = self._timed.shape(before, after)
                if timed is None:
                    return None
                item = (0, int(born), frame.body, b"", timed.tags_code)
                return PlainSend(frame, opaque, ext, unique_key.encode(), item, number, timed)
            shape = self._shapes.get((before, after), _UNSEEN)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None  # an odd header: the ordinary way says what is wrong with it
        if shape is _UNSEEN:
            shape = self._learn(before, after)
        if shape is None:
            return None
        key = unique_key.encode()
        item = (0, int(born), frame.body, shape.head + key + shape.tail, shape.tags_code)
        return PlainSend(frame, opaque, ext, key, item)

    def put(
        self, connection: Connection, sends: Sequence[PlainSend], now_ms: int, started_ns: int
    ) -> list[Frame]:
        """Store and answer sends, a run per queue; give those that the ordinary way must see."""
        if not self._usable:
            return [send.frame for send in sends]
        queues: dict[tuple[str, str, str], list[PlainSend]] = {}
        left: list[Frame] = []
        timed = [send for send in sends if send.timed is not None]
        if timed:
            told = self._timed.put(connection, timed, self._places_of(timed))
            if told is None:
                return [send.frame for send in sends]
            self._tell(connection, told, now_ms, started_ns)
            if len(timed) == len(sends):
                return left
            sends = [send for send in sends if send.timed is None]
        for send in sends:
            ext = send.ext_fields
            queues.setdefault((ext["b"], ext["e"], ext["f"]), []).append(send)
        for key, group in queues.items():
            place = self._place(key, group[0].ext_fields)
            if place is None:
                left += [send.frame for send in group]
                continue
            items = [send.item for send in group]
            run = Run(key[0], place.queue_id, items, place.sys_flag, connection.packed_remote, 0)
            result = self._store.put(run)
            if result.ok:
                told = self._answers(place.queue_id, group, result)
                self._tell(connection, told, now_ms, started_ns)
            else:
                left += [send.frame for send in group]
        return left

    def _place(self, key: tuple[str, str, str], ext_fields: Mapping[str, str]) -> Place | None:
        """Give where sends with this topic, queue and sysFlag go; None if that is not plain."""
        name, _, sys_flag = key
        known = self._places.get(key)
        topic = self._core.topics.get(name)
        if known is not None and known.topic is topic:
            return known
        if topic is None or sys_flag not in _SYS_FLAGS or name.startswith(RETRY_PREFIX):
            return None
        try:
            header = SendMessageRequestHeader.from_ext_v2(ext_fields)
            admitted = self._ordinary.topic_for(header)
        except (HeaderError, RequestError):
            return None
        place = Place(topic, header.queue_id, self._ordinary.sys_flag(header, admitted))
        self._places[key] = place
        return place

    def _places_of(self, sends: Sequence[PlainSend]) -> list[Place] | None:
        """Give the place of each send; None if one of them must go the ordinary way."""
        places: list[Place] = []
        known: dict[tuple[str, str, str], Place] = {}
        for send in sends:
            ext = send.ext_fields
            key = (ext["b"], ext["e"], ext["f"])
            place = known.get(key) or self._place(key, ext)
            if place is None:
                return None
            known[key] = place
            places.append(place)
        return places

    def _answers(
        self, queue_id: int, sends: Sequence[PlainSend], result: PutResult
    ) -> Iterator[tuple[PlainSend, bytes]]:
        """Give the header of the answer to each send of one queue."""
        answer = self._answer
        numbers = count(result.queue_offset)
        for send, offset, number in zip(sends, result.offsets, numbers, strict=False):
            yield send, answer % (offset, queue_id, number, send.unique_key, send.opaque)

    def _tell(
        self,
        connection: Connection,
        answers: Iterable[tuple[PlainSend, bytes]],
        now_ms: int,
        started_ns: int,
    ) -> None:
        """Journal and answer sends."""
        core, name = self._core, self._core.broker_name
        append, emit = core.journal.append, core.door.emit
        micros = (monotonic_ns() - started_ns) // 1000
        for send, answer in answers:
            kind, header, body = send.frame
            exchange = Exchange(name, connection, kind, header, len(body), now_ms, started_ns)
            exchange.response_code = 0
            exchange.micros = micros
            append(exchange)
            emit(connection, encode_frame(0, answer))

    @property
    def _usable(self) -> bool:
        """Whether messages are answered at once, and no hook wants to see every one of them."""
        return (
            self._ordinary.names_stored_messages
            and not self._core.durability.is_awaited
            and not self._ordinary.checks_types
            and self._store.hooks_ignore_plain
        )

    def _learn(self, before: str, after: str) -> Shape | None:
        """Find out what is stored for a message with these properties around its UNIQ_KEY."""
        text = f"{before}{UNIQ_KEY_NAME}{SAMPLE_KEY}\2{after}"
        properties = decode_properties(text)
        shape = None
        if (
            "\0" not in text
            and _NOT_PLAIN.isdisjoint(properties)
            and properties.get(Prop.UNIQ_KEY) == SAMPLE_KEY
        ):
            stored = self._ordinary.stored_properties(properties, text)
            if stored.count(SAMPLE_KEY.encode()) == 1:
                head, _, tail = stored.partition(SAMPLE_KEY.encode())
                shape = Shape(head, tail, tags_code(properties.get(Prop.TAGS)))
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        if len(before) + len(after) <= SHAPE_SIZE_MAX:
            self._shapes[before, after] = shape
        return shape

    def _forget(self, _changed: frozenset[str]) -> None:
        """Begin anew: a setting that answers, places or properties depend on may have changed."""
        self._shapes.clear()
        self._places.clear()
        self._timed.forget()
        self._body_size_max = self._core.config.int("maxMessageSize")
        self._answer = answer_pattern(self._core, self._ordinary)
