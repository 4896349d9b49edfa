"""Headers of clients and groups."""

from __future__ import annotations

from rocketmq_py.protocol.headers.client import UnregisterClientRequestHeader


def test_the_client_id_is_written_with_two_capitals() -> None:
    header = UnregisterClientRequestHeader(client_id="c", producer_group="p")

    assert header.to_ext() == {"clientID": "c", "producerGroup": "p"}
