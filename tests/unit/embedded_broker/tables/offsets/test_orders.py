"""Blocks of ordered pops, and their file."""

from __future__ import annotations

from embedded_broker.tables.offsets.orders import (
    NOT_ITS_BLOCK,
    NOTHING_TO_COMMIT,
    OrderBlock,
    OrderTable,
    spans_of,
)

OF_A_REAL_BROKER = {
    "table": {
        "O@G": {
            0: {
                "a": "a4",
                "cm": 0,
                "i": 3000,
                "l": 1_795_444_320_546,
                "o": [2, 1],
                "oc": {},
                "popTime": 1_795_444_320_545,
            }
        }
    }
}
"""`config/consumerOrderInfo.json` of 5.3.3."""


def block(*offsets: int, pop_time_ms: int = 100, attempt: str | None = None) -> OrderBlock:
    return OrderBlock(
        pop_time_ms=pop_time_ms, invisible_ms=50, spans=spans_of(offsets), attempt_id=attempt
    )


def test_the_file_of_a_real_broker_is_read_and_written_as_it_is() -> None:
    table = OrderTable()
    table.load_document(OF_A_REAL_BROKER)
    found = table.find("G", "O", 0)
    assert found is not None
    assert (found.offsets, found.attempt_id, found.free_ms(0)) == ([2, 3], "a4", 1_795_444_323_545)
    written = table.to_document()["table"]["O@G"][0]
    assert {key: one for key, one in written.items() if one is not None} == (
        OF_A_REAL_BROKER["table"]["O@G"][0]
    )


def test_a_queue_is_blocked_until_the_last_of_its_messages_is_acked_or_visible() -> None:
    table = OrderTable()
    table.hand_out("G", "T", 0, block(5, 7, attempt="a"))
    assert table.is_blocked("G", "T", 0, "b", 149)
    assert table.is_blocked("G", "T", 0, None, 149)
    assert not table.is_blocked("G", "T", 0, "a", 149)
    assert not table.is_blocked("G", "T", 0, "b", 150)
    assert not table.is_blocked("G", "T", 1, "b", 149)
    table.show_again("G", "T", 0, 7, 100, 300)
    assert table.is_blocked("G", "T", 0, "b", 299)
    assert table.ack("G", "T", 0, 7, 100) == 5
    assert not table.is_blocked("G", "T", 0, "b", 150)


def test_an_ack_says_what_to_commit() -> None:
    table = OrderTable()
    assert table.ack("G", "T", 0, 4, 100) == 5
    table.hand_out("G", "T", 0, block(5, 7, 8))
    assert table.ack("G", "T", 0, 6, 100) == NOT_ITS_BLOCK
    assert table.ack("G", "T", 0, 5, 99) == NOTHING_TO_COMMIT
    assert [table.ack("G", "T", 0, one, 100) for one in (7, 5, 8)] == [5, 8, 9]


def test_what_comes_once_more_is_counted() -> None:
    table = OrderTable()
    table.hand_out("G", "T", 0, block(5, 6, attempt="a"))
    assert table.hand_out("G", "T", 0, block(5, 6, attempt="a")).handed == {}
    assert table.hand_out("G", "T", 0, block(5, 6, 7, attempt="b")).handed == {5: 1, 6: 1}
    assert table.hand_out("G", "T", 0, block(6, 7, 8, attempt="c")).handed == {6: 2, 7: 1}


def test_what_is_gone_leaves_the_file() -> None:
    table = OrderTable()
    table.is_used = lambda group, _topic: group != "gone"
    table.hand_out("G", "T", 0, block(1))
    table.hand_out("gone", "T", 0, block(1))
    assert list(table.take_changes()[("gone", "T")]) == []
    table.clear("G", "T", 0)
    assert table.to_document()["table"]["T@G"] == {}
