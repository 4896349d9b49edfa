"""Where the servers are, and as whom a client speaks to them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import rocketmq_py
from compat.v5 import (
    ClientConfiguration,
    ClientConfigurationBuilder,
    ConsumeResult,
    Credentials,
    IllegalArgumentException,
    MessageListener,
    MessageView,
    Producer,
    PushConsumer,
    SimpleConsumer,
)
from compat.v5.client import milliseconds_of, settings_of


def test_a_configuration_is_that_of_each_client() -> None:
    configuration = ClientConfiguration(
        "http://a:9876; b:9876;", Credentials("id", "secret"), "ns", 1.5, ssl_enabled=True
    )
    assert configuration.endpoints == "a:9876;b:9876"
    assert (configuration.namespace, configuration.request_timeout) == ("ns", 1.5)
    assert settings_of(configuration) == {
        "namesrv_addr": "a:9876;b:9876",
        "credentials": rocketmq_py.Credentials("id", "secret"),
        "namespace_v2": "ns",
        "mq_client_api_timeout": 1500,
        "use_tls": True,
    }


@pytest.mark.case("T103")
def test_no_text_shows_a_secret_and_without_keys_nothing_is_signed() -> None:
    credentials = Credentials("id", "top-secret")
    configuration = ClientConfiguration("a:9876", credentials)
    producer = Producer(configuration)
    assert "top-secret" not in f"{credentials!r} {configuration!r} {producer!r} {producer}"
    assert (credentials.ak, credentials.sk) == ("id", "top-secret")
    assert configuration.credentials is credentials
    assert Credentials(None, None).source is None

    def rotating() -> rocketmq_py.Credentials:
        return rocketmq_py.Credentials("id", "newer")

    assert settings_of(ClientConfiguration("a:9876", rotating))["credentials"] is rotating


def test_a_builder_makes_the_same() -> None:
    built = (
        ClientConfigurationBuilder()
        .set_endpoints("a:9876")
        .set_credential_provider(Credentials("id", "secret"))
        .set_namespace("ns")
        .set_request_timeout(timedelta(seconds=2))
        .enable_ssl(True)
        .build()
    )
    assert (built.request_timeout, built.ssl_enabled, built.namespace) == (2.0, True, "ns")
    with pytest.raises(IllegalArgumentException, match="name a name server"):
        ClientConfigurationBuilder().build()


@pytest.mark.parametrize(
    ("endpoints", "more", "words"),
    [
        ("", {}, "name a name server"),
        ("nowhere", {}, "namesrv_addr"),
        ("a:9876", {"request_timeout": 0}, "from 0.001"),
        ("a:9876", {"request_timeout": float("nan")}, "from 0.001"),
        ("a:9876", {"namespace": "a b"}, "namespace"),
    ],
)
def test_values_that_cannot_be_are_refused(
    endpoints: str, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(IllegalArgumentException, match=words):
        ClientConfiguration(endpoints, **more)


def test_what_is_no_configuration_is_refused_by_name() -> None:
    address: Any = "127.0.0.1:9876"
    for make in (
        lambda: Producer(address),
        lambda: SimpleConsumer(address, "g"),
        lambda: PushConsumer(address, "g", Silent(), {"T": None}),
    ):
        with pytest.raises(TypeError, match="needs a ClientConfiguration, not '127"):
            make()
    with pytest.raises(TypeError, match=r"endpoints are a str .* not None"):
        ClientConfiguration(None)  # type: ignore[arg-type]


class Silent(MessageListener):
    def consume(self, message: MessageView) -> ConsumeResult:
        return ConsumeResult.SUCCESS


def test_a_duration_is_seconds_or_a_timedelta() -> None:
    for span in (1.5, timedelta(seconds=1.5)):
        assert milliseconds_of(span, "d", least_ms=0) == 1500
    with pytest.raises(IllegalArgumentException, match=r"d = 31 is not possible: .* from 0 to 30"):
        milliseconds_of(31, "d", least_ms=0, most_ms=30_000)
    for wrong in (True, "1", None):
        made: Any = wrong
        with pytest.raises(TypeError, match="number of seconds or a timedelta"):
            milliseconds_of(made, "d", least_ms=0)
