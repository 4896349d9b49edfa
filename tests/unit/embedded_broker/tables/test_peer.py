"""What handlers know of a peer."""

import pytest

from embedded_broker.remoting.requests import Connection
from embedded_broker.tables.peer import is_loopback, pack_address


class Silent(Connection):
    def deliver(self, frames: list[bytes]) -> None:
        del frames

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("host", "port", "packed"),
    [
        ("127.0.0.1", 10911, "7f00000100002a9f"),
        ("::1", 9876, "00000000000000000000000000000001" + "00002694"),
        ("fe80::1%eth0", 1, "fe800000000000000000000000000001" + "00000001"),
        ("inproc-1.invalid", 10911, "7f00000100002a9f"),
        ("not:an:address", 1, "7f00000100000001"),
    ],
)
def test_an_address_is_packed_as_records_store_it(host: str, port: int, packed: str) -> None:
    assert pack_address(host, port).hex() == packed


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::1%lo", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("::ffff:10.0.0.9", False),
        ("0.0.0.0", False),  # noqa: S104 - a value
        ("::", False),
        ("127.example.org", False),
        ("", False),
    ],
)
def test_only_addresses_of_this_host_alone_are_loopback(host: str, *, is_own: bool) -> None:
    assert is_loopback(host) is is_own


def test_connections_are_numbered_and_show_who_they_are() -> None:
    first = Silent(("127.0.0.1", 5), ("127.0.0.1", 10911))
    second = Silent(("127.0.0.1", 6), ("127.0.0.1", 10911))

    assert second.id > first.id
    assert repr(first) == f"<Silent {first.id} 127.0.0.1:5>"
    first.client_id = "me@1"
    assert repr(first).endswith("127.0.0.1:5 me@1>")
    assert first.packed_remote.hex() == "7f00000100000005"
    assert not first.closed
