"""Frames as they come from a client that is broken or hostile, drawn from frames that are right.

The models are what real clients wrote (`tests/golden/wire.json`) and an ordinary request of every
code that a broker handles, in both kinds of header. Most mutants are frames still: what they say is
odd. The others are damaged where frames end. The same seed gives the same mutants.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from struct import Struct
from typing import Final

from rocketmq_py.errors import RemotingCommandException
from rocketmq_py.protocol.codes import RequestCode, SerializeType
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from tests.hostile.extreme_requests import BODIES, FORMS, NUMBERS, WORDS
from tests.unit.embedded_broker.wire_peer import pull_fields

CAPTURES: Final = Path(__file__).parents[1] / "golden" / "wire.json"
EMPTY: Final = "Empty"
"""A topic without messages: who pulls from it has to wait."""
BINARY_CODE_MAX: Final = 0x7FFF
LONG: Final = 4096
"""A mutant's body is cut there: how large things are borne is tested in `tests/hostile`."""
ODD_TEXTS: Final = [text[:LONG] for text in (*NUMBERS, *WORDS)]
ODD_BODIES: Final = [body[:LONG] for body in BODIES.values()]
_HEAD: Final = Struct(">iI")


def models() -> list[RemotingCommand]:
    """Give the right frames that mutants are made of."""
    found = list(_captured())
    for code, form in FORMS.items():
        for kind in SerializeType:
            if kind is SerializeType.ROCKETMQ and code > BINARY_CODE_MAX:
                continue
            command = RemotingCommand(code, 1, 0, 0, 479, None, dict(form.fields), form.body)
            command.serialize_type = int(kind)
            found.append(command)
    parked = pull_fields(EMPTY, sysFlag="6", suspendTimeoutMillis="60000")
    found.append(RemotingCommand(RequestCode.PULL_MESSAGE, 1, 0, 0, 479, None, parked))
    return found


def _captured() -> Iterator[RemotingCommand]:
    recorded = json.loads(CAPTURES.read_text(encoding="utf-8"))
    for version in ("4.9.4", "5.3.3"):
        for name, text in recorded[version].items():
            if name.startswith("frame_"):
                (frame,) = FrameDecoder().feed(bytes.fromhex(text))
                yield RemotingCommand.decode(frame)


class Mutants:
    """An endless line of mutants."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._models = models()
        self._codes = [int(code) for code in RequestCode]

    def next(self) -> bytes:
        """Give the bytes of the next one."""
        draw = self._random
        model = draw.choice(self._models)
        command = RemotingCommand(
            model.code,
            draw.getrandbits(31),
            model.flag,
            model.language,
            model.version,
            model.remark,
            dict(model.ext_fields),
            model.body,
            model.serialize_type,
        )
        for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
            draw.choice(_ODDITIES)(self, command)
        try:
            data = command.encode()
        except RemotingCommandException:  # a value that this kind of header cannot carry
            command.serialize_type = int(SerializeType.JSON)
            data = command.encode()
        if draw.random() < 0.25:
            data = draw.choice(_DAMAGES)(self, data)
        return data

    # --- odd requests ----------------------------------------------------------------------

    def _field(self, command: RemotingCommand) -> None:
        if command.ext_fields:
            name = self._random.choice(list(command.ext_fields))
            command.ext_fields[name] = self._random.choice(ODD_TEXTS)

    def _no_field(self, command: RemotingCommand) -> None:
        if command.ext_fields:
            del command.ext_fields[self._random.choice(list(command.ext_fields))]

    def _fields_of_another(self, command: RemotingCommand) -> None:
        command.ext_fields |= self._random.choice(self._models).ext_fields

    def _code(self, command: RemotingCommand) -> None:
        command.code = self._random.choice(self._codes)

    def _flag(self, command: RemotingCommand) -> None:
        command.flag = self._random.choice((0, 1, 2, 3, -1, 2**31 - 1))

    def _version(self, command: RemotingCommand) -> None:
        command.version = self._random.choice((0, -1, 1, 395, 32_767))

    def _body(self, command: RemotingCommand) -> None:
        command.body = self._random.choice(ODD_BODIES)

    def _bits_of_body(self, command: RemotingCommand) -> None:
        if command.body:
            command.body = self._flipped(command.body[:LONG])

    def _part_of_body(self, command: RemotingCommand) -> None:
        command.body = command.body[: self._random.randint(0, min(len(command.body), LONG))]

    # --- damaged frames --------------------------------------------------------------------

    def _flipped(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._random.randint(1, 8)):
            at = self._random.randrange(len(changed))
            changed[at] ^= 1 << self._random.randrange(8)
        return bytes(changed)

    def _cut(self, data: bytes) -> bytes:
        return data[: self._random.randrange(len(data))]

    def _wrong_length(self, data: bytes) -> bytes:
        lengths = (0, -1, 3, 4, len(data), 16_777_217, 2**31 - 1, -(2**31))
        return _HEAD.pack(self._random.choice(lengths), 0) + data[8:]

    def _wrong_header_length(self, data: bytes) -> bytes:
        length, word = _HEAD.unpack(data[:8])
        size = self._random.choice((0, 1, 0xFFFFFF, length, (word & 0xFFFFFF) + 1))
        return _HEAD.pack(length, word & 0xFF000000 | size & 0xFFFFFF) + data[8:]

    def _other_kind(self, data: bytes) -> bytes:
        return data[:4] + bytes([self._random.randrange(256)]) + data[5:]


_ODDITIES: Final[list[Callable[[Mutants, RemotingCommand], None]]] = [
    Mutants._field,
    Mutants._field,
    Mutants._no_field,
    Mutants._fields_of_another,
    Mutants._code,
    Mutants._flag,
    Mutants._version,
    Mutants._body,
    Mutants._bits_of_body,
    Mutants._part_of_body,
]
_DAMAGES: Final[list[Callable[[Mutants, bytes], bytes]]] = [
    Mutants._flipped,
    Mutants._cut,
    Mutants._wrong_length,
    Mutants._wrong_header_length,
    Mutants._other_kind,
]


class Kind(Enum):
    """What a broker makes of bytes that come alone."""

    FRAME = "a whole frame with a readable header: the connection goes on"
    PART = "the begin of a frame: it waits for the rest"
    NONSENSE = "nothing can follow: it ends the connection"


def kind_of(data: bytes) -> Kind:
    """Say it, by the codec of the client."""
    decoder = FrameDecoder()
    try:
        frames = decoder.feed(data)
        for frame in frames:
            RemotingCommand.decode(frame)
    except RemotingCommandException:
        return Kind.NONSENSE
    whole = sum(8 + len(frame.header) + len(frame.body) for frame in frames) == len(data)
    return Kind.FRAME if whole else Kind.PART
