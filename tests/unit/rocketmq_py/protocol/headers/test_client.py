"""Headers of clients, groups and routes."""

from __future__ import annotations

from rocketmq_py.protocol.headers.client import (
    GetRouteInfoRequestHeader,
    UnregisterClientRequestHeader,
)


def test_the_client_id_is_written_with_two_capitals() -> None:
    header = UnregisterClientRequestHeader(client_id="c", producer_group="p")

    assert header.to_ext() == {"clientID": "c", "producerGroup": "p"}


def test_a_client_that_does_not_ask_for_quoted_keys_sends_no_flag() -> None:
    assert GetRouteInfoRequestHeader(topic="T").to_ext() == {"topic": "T"}
    header = GetRouteInfoRequestHeader(topic="T", accept_standard_json_only=True)
    assert header.to_ext() == {"topic": "T", "acceptStandardJsonOnly": "true"}
