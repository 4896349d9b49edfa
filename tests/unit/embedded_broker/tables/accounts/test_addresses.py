"""White lists mean the addresses that the original's patterns mean."""

from __future__ import annotations

import pytest

from embedded_broker.tables.accounts.addresses import AddressPattern
from rocketmq_py.errors import ConfigError


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("10.1.2.3", ["10.1.2.3", "::ffff:10.1.2.3"], ["10.1.2.4", "110.1.2.3", "::1", "name"]),
        ("192.168.0.*", ["192.168.0.0", "192.168.0.255"], ["192.168.1.0", "192.168.01", "fe80::1"]),
        ("192.168.*.*", ["192.168.7.9"], ["192.169.7.9"]),
        ("10.1.2.3-9", ["10.1.2.3", "10.1.2.9"], ["10.1.2.2", "10.1.2.10"]),
        ("10.1.2.{3,7}", ["10.1.2.3", "10.1.2.7"], ["10.1.2.5"]),
        ("10.1.2.3,10.9.9.9", ["10.1.2.3", "10.9.9.9"], ["10.1.9.9"]),
        ("*", ["10.1.2.3", "::1", "name"], []),
        ("*.*.*.*", ["10.1.2.3"], []),
        ("", [], ["10.1.2.3", "", "::1"]),
        ("1050::5:600:300c:*", ["1050::5:600:300c:1"], ["1050::5:600:300d:1", "10.1.2.3"]),
        ("5::7:6:1-200:*", ["5::7:6:1:abcd", "5::7:6:200:1"], ["5::7:6:201:1"]),
        ("::1", ["::1", "0:0:0:0:0:0:0:1"], ["::2"]),
    ],
)
def test_an_entry_means_these_and_no_others(
    pattern: str, inside: list[str], outside: list[str]
) -> None:
    parsed = AddressPattern.parse(pattern)
    assert [host for host in inside if not parsed.matches(host)] == []
    assert [host for host in outside if parsed.matches(host)] == []


@pytest.mark.parametrize(
    "pattern", ["10.1.2", "10.1.2.256", "10.1.2.9-3", "10.1.2.x", "10.{1}.2.3", "1:2", "1::2::3"]
)
def test_an_entry_that_means_no_address_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="white address"):
        AddressPattern.parse(pattern)
