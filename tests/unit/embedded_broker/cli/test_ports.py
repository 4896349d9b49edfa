"""Only the options are named whose port it was."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedCluster
from embedded_broker.cli.ports import options_of
from rocketmq_py.errors import ConfigError


@pytest.mark.parametrize(
    ("port", "options"),
    [
        (9876, "--namesrv-port"),
        (10911, "--broker-port"),
        (10912, "--broker-port"),
        (10920, "--set haListenPort"),
        (9880, "--control-port"),
        (0, ""),
        (5, ""),
    ],
)
def test_every_port_leads_to_its_option(port: int, options: str) -> None:
    cluster = EmbeddedCluster(
        brokers=2, namesrv_port=9876, broker_port=10911, config={"haListenPort": 10920}
    )
    error = ConfigError("address", f"127.0.0.1:{port}", "taken")
    assert options_of(error, cluster, 9880) == options


def test_two_options_with_one_port_are_both_named() -> None:
    cluster = EmbeddedCluster(brokers=1, namesrv_port=9876)
    error = ConfigError("address", "[::1]:9876", "taken")
    assert options_of(error, cluster, 9876) == "--namesrv-port or --control-port"


def test_another_error_has_no_option() -> None:
    cluster = EmbeddedCluster(brokers=1, namesrv_port=9876)
    assert options_of(ConfigError("host", "h:9876", "known"), cluster, None) == ""
    assert options_of(OSError("9876"), cluster, None) == ""
