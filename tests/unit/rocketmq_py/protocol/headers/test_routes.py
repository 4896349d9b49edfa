"""Headers of asking a name server."""

from __future__ import annotations

from rocketmq_py.protocol.headers.routes import GetRouteInfoRequestHeader


def test_a_client_that_does_not_ask_for_quoted_keys_sends_no_flag() -> None:
    assert GetRouteInfoRequestHeader(topic="T").to_ext() == {"topic": "T"}
    header = GetRouteInfoRequestHeader(topic="T", accept_standard_json_only=True)
    assert header.to_ext() == {"topic": "T", "acceptStandardJsonOnly": "true"}
