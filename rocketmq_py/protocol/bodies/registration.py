"""The compressed form in which a broker may register: the body of 103 with ``compressed=true``.

A zlib stream of texts, each behind its length: the version of the topics, every topic in words
(their number stands before them), the filter servers. What 5.x adds about static topics is not
read. After ``RegisterBrokerBody.encode(compress)`` and ``TopicConfig.encode``.
"""

import struct
from contextlib import suppress
from typing import Final

from attrs import define

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
)
from rocketmq_py.protocol.compression import decompress
from rocketmq_py.protocol.lenient_json import loads_lenient

SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes to which a registration may grow: what a frame without compression could carry."""
_NAME: Final = RegisterBrokerBody.__name__
_LENGTH: Final = struct.Struct(">i")
_WORDS: Final = 5
"""What every version says of a topic: name, queues to read and write, permission, kind of tags."""


def read_compressed(body: bytes) -> RegisterBrokerBody:
    """Read a compressed registration; raises BodyError, also for one that grows beyond 16 MiB.

    The form has no place for the unit flags of a topic and for whether it is an ordered one.
    """
    try:
        parts = _Parts(decompress(body, 0, SIZE_MAX))
    except BodyError as error:
        raise BodyError(_NAME, error.reason) from error
    version = DataVersion.decode(parts.text().encode())
    topics = [_topic(parts.text()) for _ in range(parts.number())]
    servers: object = None
    with suppress(BodyError):
        servers = loads_lenient(parts.text())
    return RegisterBrokerBody(
        TopicConfigTable(version, {one.topic_name: one for one in topics}),
        [str(one) for one in servers] if isinstance(servers, list) else [],
    )


@define
class _Parts:
    """Lengths and texts, read one after the other."""

    _data: bytes
    _at: int = 0

    def number(self) -> int:
        """Read a number that is not below 0."""
        end = self._at + _LENGTH.size
        if end > len(self._data):
            raise BodyError(_NAME, "it ends too early", self._at)
        (number,) = _LENGTH.unpack_from(self._data, self._at)
        if number < 0:
            raise BodyError(_NAME, f"a length is {number}", self._at)
        self._at = end
        return int(number)

    def text(self) -> str:
        """Read a length and so many bytes."""
        end = self.number() + self._at
        if end > len(self._data):
            raise BodyError(_NAME, "it ends too early", self._at)
        text = self._data[self._at : end].decode(errors="replace")
        self._at = end
        return text


def _topic(text: str) -> TopicConfig:
    words = text.split(" ", _WORDS)
    try:
        name, read, write, perm, kind = words[:_WORDS]
        topic = TopicConfig(name, int(read), int(write), int(perm), kind)
    except ValueError as error:
        raise BodyError(_NAME, f"{text!r} says nothing of a topic") from error
    attributes: object = None
    with suppress(BodyError):
        attributes = loads_lenient(words[_WORDS]) if len(words) > _WORDS else None
    if isinstance(attributes, dict):
        topic.attributes = {str(key): str(value) for key, value in attributes.items()}
    return topic
