"""Headers of pulling."""

from __future__ import annotations

from rocketmq_py.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader


def test_the_misspelt_name_of_the_original_is_kept_on_the_wire() -> None:
    field = next(f for f in PullMessageRequestHeader.FIELDS if f.name == "proxy_forward_client_id")

    assert field.wire == "proxyFrowardClientId"


def test_the_four_fields_java_cannot_miss_are_required() -> None:
    assert [f.wire for f in PullMessageResponseHeader.FIELDS if f.required] == [
        "suggestWhichBrokerId",
        "nextBeginOffset",
        "minOffset",
        "maxOffset",
    ]
