"""White lists: which addresses one means.

Answers: whether a host is one of `192.168.0.*`, `10.1.2.3-9`, `10.1.2.{3,4}`, `10.1.2.3,10.1.2.4`
or `*`, and the same with IPv6, as RocketMQ's `RemoteAddressStrategyFactory` reads them. Must not
know: accounts. Each part of an address is looked at, also those behind the first range.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from attrs import frozen

from rocketmq_py.errors import ConfigError

_EVERYBODY: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_FORMS: Final = "an address, or one with a range such as 10.1.2.*, 10.1.2.3-9 or 10.1.2.{3,4}"
_V4_PARTS: Final = 4
_V6_PARTS: Final = 8
Ranges = tuple[tuple[int, int], ...]


@frozen
class AddressPattern:
    """The addresses that one entry of a white list means."""

    text: str
    _choices: tuple[Ranges, ...]
    """Lowest and highest value of each part, for each address of a list."""
    _is_everybody: bool = False

    @classmethod
    def parse(cls, text: str | None) -> "AddressPattern":
        """Read an entry; nothing means nobody. Raises ``ConfigError``."""
        text = (text or "").strip()
        if not text:
            return cls("", ())
        if text in _EVERYBODY:
            return cls(text, (), is_everybody=True)
        try:
            return cls(text, tuple(_ranges(one.strip()) for one in _spread(text)))
        except ValueError:
            raise ConfigError("white address", text, _FORMS) from None

    def matches(self, host: str) -> bool:
        """Say whether a host is meant; a name that is no address is meant by ``*`` only."""
        if self._is_everybody:
            return True
        if not self._choices:
            return False
        parts = _parts(host)
        return any(
            len(ranges) == len(parts)
            and all(low <= part <= high for part, (low, high) in zip(parts, ranges, strict=True))
            for ranges in self._choices
        )


def _parts(host: str) -> list[int]:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return []
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    packed = address.packed
    if isinstance(address, IPv4Address):
        return list(packed)
    return [int.from_bytes(packed[at : at + 2], "big") for at in range(0, len(packed), 2)]


def _spread(text: str) -> list[str]:
    """Give the addresses of `10.1.2.{3,4}` or of a list with commas."""
    if not text.endswith("}"):
        return text.split(",")
    head, brace, tail = text.partition("{")
    if not brace or not head.endswith((".", ":")):
        raise ValueError(text)
    return [head + one.strip() for one in tail[:-1].split(",")]


def _ranges(text: str) -> Ranges:
    if ":" not in text:
        parts = text.split(".")
        if len(parts) != _V4_PARTS:
            raise ValueError(text)
        return tuple(_range(part, 10, 255) for part in parts)
    head, separator, tail = text.partition("::")
    front = [part for part in head.split(":") if part]
    back = [part for part in tail.split(":") if part]
    missing = _V6_PARTS - len(front) - len(back)
    if missing < 0 or (missing > 0) != bool(separator) or "::" in tail:
        raise ValueError(text)
    return tuple(_range(part, 16, 0xFFFF) for part in (*front, *["0"] * missing, *back))


def _range(text: str, base: int, most: int) -> tuple[int, int]:
    if text == "*":
        return 0, most
    first, minus, last = text.partition("-")
    low = int(first, base)
    high = int(last, base) if minus else low
    if not 0 <= low <= high <= most:
        raise ValueError(text)
    return low, high
