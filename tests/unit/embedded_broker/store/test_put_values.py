from __future__ import annotations

from embedded_broker.store.put_values import InnerMessage, PutResult, PutStatus


def test_a_refusal_has_no_place_and_says_so() -> None:
    refused = PutResult(PutStatus.MESSAGE_ILLEGAL, remark="too large")
    assert not refused.ok
    assert refused.commit_log_offset == -1
    assert PutResult(PutStatus.PUT_OK, 0, 0, 100, 1).ok


def test_messages_do_not_share_their_properties() -> None:
    first, second = InnerMessage("T", 0, b""), InnerMessage("T", 0, b"")
    first.properties["a"] = "b"
    assert second.properties == {}
