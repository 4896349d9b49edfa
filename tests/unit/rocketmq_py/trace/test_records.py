"""Records of a trace against texts made by hand from the original's encoder, of every version."""

from __future__ import annotations

import pytest

from rocketmq_py import LocalTransactionState, RemotingCommandException
from rocketmq_py.trace import (
    ConsumeEnd,
    EndTransaction,
    MessageKind,
    Pub,
    Recall,
    SubAfter,
    SubBefore,
    TraceRecord,
    read_records,
)
from rocketmq_py.trace.records import write_record

PUB = Pub(
    timestamp=1_700_000_000_000,
    region="DefaultRegion",
    group="shop",
    topic="Orders",
    msg_id="ID1",
    tags="TagA",
    keys=("k1", "k2"),
    store_host="127.0.0.1:10911",
    body_length=11,
    cost_ms=3,
    kind=MessageKind.DELAY,
    offset_msg_id="OFF1",
    success=True,
)
BARE = Pub(
    timestamp=1,
    region="R",
    group="shop",
    topic="Orders",
    msg_id="ID1",
    tags=None,
    keys=(),
    store_host="h:1",
    body_length=0,
    cost_ms=0,
    kind=MessageKind.NORMAL,
    offset_msg_id=None,
    success=False,
)
BEFORE = SubBefore(
    timestamp=1_700_000_000_001,
    region="DefaultRegion",
    group="billing",
    request_id="REQ1",
    msg_id="ID1",
    retry_times=2,
    keys=(),
)
AFTER = SubAfter(
    request_id="REQ1",
    msg_id="ID1",
    cost_ms=7,
    success=False,
    keys=("k1",),
    end=ConsumeEnd.EXCEPTION,
    timestamp=1_700_000_000_008,
    group="billing",
)
IN_CLOUD = SubAfter(
    request_id="REQ1",
    msg_id="ID1",
    cost_ms=7,
    success=True,
    keys=(),
    end=ConsumeEnd.TIME_OUT,
)
END = EndTransaction(
    timestamp=1_700_000_000_002,
    region="DefaultRegion",
    group="bank",
    topic="Orders",
    msg_id="ID1",
    tags="TagA",
    keys=("k1",),
    store_host="127.0.0.1:10911",
    kind=MessageKind.COMMIT,
    transaction_id="ID1",
    state=LocalTransactionState.ROLLBACK_MESSAGE,
    from_check=True,
)
RECALL = Recall(
    timestamp=1_700_000_000_003,
    region="DefaultRegion",
    group="shop",
    topic="Orders",
    msg_id="ID1",
    success=True,
)

PUB_HEAD = (
    b"Pub\x011700000000000\x01DefaultRegion\x01shop\x01Orders\x01ID1\x01TagA\x01k1 k2"
    b"\x01127.0.0.1:10911\x0111\x013\x013"
)
WRITTEN: dict[str, tuple[TraceRecord, bytes]] = {
    "Pub": (PUB, PUB_HEAD + b"\x01OFF1\x01true\x02"),
    "Pub of a bare message": (
        BARE,
        (
            b"Pub\x011\x01R\x01shop\x01Orders\x01ID1\x01null\x01null\x01h:1\x010\x010\x010"
            b"\x01null\x01false\x02"
        ),
    ),
    "SubBefore": (
        BEFORE,
        b"SubBefore\x011700000000001\x01DefaultRegion\x01billing\x01REQ1\x01ID1\x012\x01null\x02",
    ),
    "SubAfter": (
        AFTER,
        b"SubAfter\x01REQ1\x01ID1\x017\x01false\x01k1\x012\x011700000000008\x01billing\x02",
    ),
    "SubAfter in a cloud": (IN_CLOUD, b"SubAfter\x01REQ1\x01ID1\x017\x01true\x01null\x011\x02"),
    "EndTransaction": (
        END,
        (
            b"EndTransaction\x011700000000002\x01DefaultRegion\x01bank\x01Orders\x01ID1\x01TagA"
            b"\x01k1\x01127.0.0.1:10911\x012\x01ID1\x01ROLLBACK_MESSAGE\x01true\x02"
        ),
    ),
    "Recall": (
        RECALL,
        b"Recall\x011700000000003\x01DefaultRegion\x01shop\x01Orders\x01ID1\x01true\x02",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_is_written_as_the_original_does_and_read_again(name: str) -> None:
    record, text = WRITTEN[name]
    assert write_record(record) == text
    assert read_records(text) == [record]


OLD: dict[str, tuple[TraceRecord, bytes]] = {
    "Pub of 4.4, without the offset id": (
        BARE,
        b"Pub\x011\x01R\x01shop\x01Orders\x01ID1\x01null\x01null\x01h:1\x010\x010\x010\x01false",
    ),
    "SubAfter of 4.4, without the end": (
        SubAfter(request_id="REQ1", msg_id="ID1", cost_ms=7, success=True, keys=("k",)),
        b"SubAfter\x01REQ1\x01ID1\x017\x01true\x01k\x02",
    ),
    "SubAfter that tells a time and no group": (
        SubAfter(
            request_id="REQ1",
            msg_id="ID1",
            cost_ms=7,
            success=True,
            keys=("k",),
            end=ConsumeEnd.SUCCESS,
            timestamp=5,
        ),
        b"SubAfter\x01REQ1\x01ID1\x017\x01true\x01k\x010\x015\x02",
    ),
    "SubAfter of a newer version": (
        AFTER,
        b"SubAfter\x01REQ1\x01ID1\x017\x01false\x01k1\x012\x011700000000008\x01billing\x01new\x02",
    ),
    "SubBefore with an empty last field": (
        BEFORE,
        b"SubBefore\x011700000000001\x01DefaultRegion\x01billing\x01REQ1\x01ID1\x012\x01\x02",
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_records_of_other_versions_are_read(name: str) -> None:
    record, text = OLD[name]
    assert read_records(text) == [record]


def test_the_address_that_some_clients_tell_is_read() -> None:
    (found,) = read_records(PUB_HEAD + b"\x01OFF1\x01true\x0110.0.0.1\x02")
    assert isinstance(found, Pub)
    assert (found.success, found.client_host) == (True, "10.0.0.1")


def test_all_records_of_a_body_are_read_in_their_order_and_unknown_types_passed_over() -> None:
    body = WRITTEN["Pub"][1] + b"Later\x01what\x02" + WRITTEN["Recall"][1] + WRITTEN["SubAfter"][1]
    assert read_records(body) == [PUB, RECALL, AFTER]
    assert read_records(b"") == []


BAD = {
    b"Pub\x011\x01R\x02": r"record 1, Pub has 2 fields, not 13 or more",
    b"Recall\x01x\x01R\x01g\x01T\x01ID\x01true\x02": r"field timestamp: no number .*'x'",
    b"Recall\x01" + b"1" * 21 + b"\x01R\x01g\x01T\x01ID\x01true\x02": "of up to 20 digits",
    b"Recall\x011\x01R\x01g\x01T\x01ID\x01TRUE\x02": r"field success: neither true nor false",
    b"\x02SubAfter\x01r\x01ID\x011\x01true\x01k\x019\x02": r"record 2, SubAfter, field end: 9",
    b"Pub\xff": r"no UTF-8",
}


@pytest.mark.parametrize("body", BAD)
def test_what_cannot_be_read_is_an_error_that_names_record_and_field(body: bytes) -> None:
    with pytest.raises(RemotingCommandException, match=BAD[body]):
        read_records(body)


def test_separators_in_keys_of_other_clients_do_not_make_further_fields() -> None:
    odd = Recall(
        timestamp=1, region="R\x01S", group="g", topic="T", msg_id="I\x02D\ud800", success=True
    )
    (found,) = read_records(write_record(odd))
    assert (found.msg_id, getattr(found, "region", None)) == ("I D?", "R S")
