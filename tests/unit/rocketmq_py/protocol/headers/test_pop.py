"""Headers of POP."""

from __future__ import annotations

from rocketmq_py.protocol.headers.pop import PopMessageRequestHeader, PopMessageResponseHeader


def test_the_four_fields_java_cannot_miss_are_required() -> None:
    assert [f.wire for f in PopMessageResponseHeader.FIELDS if f.required] == [
        "popTime",
        "invisibleTime",
        "reviveQid",
        "restNum",
    ]


def test_a_pop_may_leave_out_when_it_was_born() -> None:
    ext = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "-1",
        "maxMsgNums": "32",
        "invisibleTime": "60000",
        "pollTime": "0",
        "initMode": "0",
    }
    header = PopMessageRequestHeader.from_ext(ext)
    assert (header.born_time, header.order, header.exp) == (0, None, None)
    assert PopMessageRequestHeader.from_ext(ext | {"order": "true"}).order is True
